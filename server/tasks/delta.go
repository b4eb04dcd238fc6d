package servertasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
	"unicode/utf8"

	"interlock.sh/fault"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

const (
	chunkBytes = 4 << 10
	chunkDelay = 100 * time.Millisecond
	flushRetry = time.Second
	// maxPending bounds what one stream holds in memory alone; beyond it a delta waits for its commit.
	maxPending = 1 << 20
)

// Delta takes bytes of an attempt's output stream: readers get them at once from memory, the journal as
// coalesced chunks soon after. The answer says how far the journal has come.
func (s *Service) Delta(ctx context.Context, c Caller, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
	switch {
	case req.Offset < 0:
		return tasks.DeltaResponse{}, fault.New(fault.Invalid, "offset is %d; an offset is not negative", req.Offset).WithField("offset")
	case len(req.Text) > tasks.MaxDelta:
		return tasks.DeltaResponse{}, fault.New(fault.TooLarge, "text is %d bytes; the limit is %d", len(req.Text), tasks.MaxDelta).
			WithField("text").With("limit", tasks.MaxDelta).With("size", len(req.Text))
	case !utf8.ValidString(req.Text):
		return tasks.DeltaResponse{}, fault.New(fault.Invalid, "text is not UTF-8").WithField("text").WithHint("cut the stream between characters")
	}
	l := s.lives.get(req.AttemptID)
	if l == nil {
		var err error
		if l, err = s.openLive(ctx, c, req.Ref); err != nil {
			return tasks.DeltaResponse{}, wrap("take delta", err)
		}
	}
	if err := l.check(c, req.Ref); err != nil {
		return tasks.DeltaResponse{}, err
	}
	if err := l.add(req.Offset, req.Text); err != nil {
		return tasks.DeltaResponse{}, err
	}
	if n, _ := l.pending(); n > maxPending {
		if err := s.save(ctx, l); err != nil {
			return tasks.DeltaResponse{}, err
		}
	}
	s.flushSoon(l)
	return l.answer(), nil
}

// openLive begins to hold a stream. The row is read again after it is held: an attempt that ended in
// between is thereby either seen here or closed by the hints of the operation that ended it.
func (s *Service) openLive(ctx context.Context, c Caller, ref tasks.Ref) (*live, error) {
	q := s.db.Reader(ctx)
	t, err := newest(q, c, ref)
	if err != nil {
		return nil, err
	}
	a, err := attemptByID(q, ref.AttemptID)
	if err != nil {
		return nil, err
	}
	l := s.lives.add(newLive(t, a))
	if t, err = newest(q, c, ref); err == nil && !t.state.Held() {
		err = stale(ref)
	}
	if err != nil {
		s.lives.close([]string{ref.AttemptID})
		return nil, err
	}
	s.hints.Publish(hints.Task(t.id)) // readers find the stream now
	return l, nil
}

// flushSoon makes sure that what is pending gets into the journal within chunkDelay.
func (s *Service) flushSoon(l *live) {
	n, closed := l.pending()
	if n >= chunkBytes {
		hint(l.full)
	}
	if n == 0 || closed {
		return
	}
	l.mu.Lock()
	began := !l.flushing
	l.flushing = true
	l.mu.Unlock()
	if !began {
		return
	}
	s.lives.mu.Lock()
	defer s.lives.mu.Unlock()
	if s.lives.stopped { // Close saves what is left
		return
	}
	s.lives.flushes.Go(func() { s.flushLoop(l) })
}

// flushLoop saves chunks of one stream until nothing is pending.
func (s *Service) flushLoop(l *live) {
	delay := untilTick(s.clock.Now())
	for {
		select {
		case <-s.clock.After(delay):
		case <-l.full:
		case <-s.lives.stop:
			return
		}
		delay = untilTick(s.clock.Now())
		if err := s.save(context.Background(), l); err != nil {
			if errors.Is(err, fault.StaleAttempt) {
				s.lives.close([]string{l.attempt})
				return
			}
			s.log.Warn("journalling an output stream", slog.String("task", l.task), slog.Any("cause", err))
			delay = flushRetry
		}
		l.mu.Lock()
		done := l.closed || l.held() == l.durable
		if done {
			l.flushing = false
		}
		l.mu.Unlock()
		if done {
			return
		}
	}
}

// untilTick is the time to the next tick, chunkDelay at most. All streams save at the same ticks, so that
// what comes in at once shares a commit.
func untilTick(now time.Time) time.Duration {
	return chunkDelay - time.Duration(now.UnixNano()%int64(chunkDelay))
}

// save journals what is pending of a stream.
func (s *Service) save(ctx context.Context, l *live) error {
	return s.write(ctx, store.LaneTelemetry, "journal output stream", func(o *op) error {
		t, err := taskByID(o.tx, l.task)
		if err != nil {
			return err
		}
		if t == nil || t.attemptID != l.attempt || !t.state.Held() {
			return stale(tasks.Ref{TaskID: l.task, AttemptID: l.attempt})
		}
		_, err = o.flush(t)
		return err
	})
}

// flush journals what memory holds of the newest attempt's stream and returns how long the durable
// stream is then. The journal's own count says where to go on, so that an operation that runs twice, or
// after a commit of unknown outcome, writes no byte twice.
func (o *op) flush(t *task) (durable int64, err error) {
	if err := o.tx.QueryRow("SELECT stream_bytes FROM attempts WHERE id = $1", t.attemptID).Scan(&durable); err != nil {
		return 0, fmt.Errorf("read attempt %s: %w", t.attemptID, err)
	}
	text := o.s.lives.beyond(t.attemptID, durable)
	if text != "" {
		if err := o.start(t); err != nil {
			return 0, err
		}
		if err := o.touch(t, nil, entry{tasks.EntryDelta, tasks.DeltaData{Offset: durable, Text: text}}); err != nil {
			return 0, err
		}
		durable += int64(len(text))
		if _, err := o.tx.Exec("UPDATE attempts SET stream_bytes = $1 WHERE id = $2", durable, t.attemptID); err != nil {
			return 0, fmt.Errorf("extend stream of attempt %s: %w", t.attemptID, err)
		}
	}
	if o.effects.durable == nil {
		o.effects.durable = map[string]int64{}
	}
	o.effects.durable[t.attemptID] = durable
	return durable, nil
}

// Close journals what is only in memory and ends the service's goroutines. Reports that still come are
// taken, but their deltas stay in memory, and their workers keep them.
func (s *Service) Close(ctx context.Context) error {
	s.lives.mu.Lock()
	if !s.lives.stopped {
		s.lives.stopped = true
		close(s.lives.stop)
	}
	var left []*live
	for _, l := range s.lives.all {
		left = append(left, l)
	}
	s.lives.mu.Unlock()
	s.lives.flushes.Wait()
	var errs []error
	for _, l := range left {
		if n, closed := l.pending(); n > 0 && !closed {
			if err := s.save(ctx, l); err != nil && !errors.Is(err, fault.StaleAttempt) {
				errs = append(errs, err)
			}
		}
	}
	return errors.Join(errs...)
}
