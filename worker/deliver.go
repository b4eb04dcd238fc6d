package worker

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

const (
	// batchBytes bounds the results in one request, so that it passes a proxy that allows 1 MiB.
	batchBytes = 600 << 10
	// replaysAtOnce bounds how many records of an earlier process are sent side by side.
	replaysAtOnce = 8
)

// deliver reports how an attempt ended until the control plane has answered.
func (w *Worker) deliver(at *attempt, e ending) {
	left := at.stream.finish()
	if e.kind == endNothing || at.silent() {
		w.count(endNothing, e)
		return
	}
	r := newRecord(w.o.WorkerID, at.Ref, e, left)
	if w.spool != nil {
		if err := w.spool.put(r); err != nil { // better sent without than not at all
			w.log.Error("spool the end of an attempt", slog.String("task", r.ref().TaskID), slog.Any("cause", err))
		}
	}
	at.ending.Store(true)
	at.chatter.lastWords(at.alive)
	if w.settle(at.alive, r, at.stream) {
		w.count(e.kind, e)
	} else if at.silent() {
		w.count(endNothing, e)
	}
}

// replay sends what an earlier process could not.
func (w *Worker) replay(ctx context.Context) {
	if w.spool == nil {
		return
	}
	slots := make(chan struct{}, replaysAtOnce)
	for _, r := range w.spool.load() {
		w.work.Go(func() {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
				w.settle(ctx, r, newStream(ctx, w, r.ref(), r.Tail, nil))
			case <-ctx.Done():
			}
		})
	}
}

// settle sends a record until the answer is definitive, and then drops it. It is true when the report
// was taken.
func (w *Worker) settle(ctx context.Context, r *record, s *stream) (taken bool) {
	back := retry.Backoff{Base: 200 * time.Millisecond, Cap: 15 * time.Second}
	for {
		if s.flushed(ctx) != nil {
			return false // stale, or the worker ends: a spooled record is there at the next start
		}
		r.setStreamBytes(s.length())
		err := w.send(ctx, r)
		switch {
		case err == nil:
			w.dropRecord(r)
			return true
		case isStale(err):
			w.dropRecord(r)
			if s.at != nil {
				s.at.hush(ErrStale)
			}
			return false
		case ctx.Err() != nil:
			return false
		case errors.Is(err, fault.StreamGap):
			s.rewind(err) // when the bytes are gone, the end is sent without them
			if back.Tries() == 0 {
				back.Next(0)
				continue
			}
		}
		switch judge(err) {
		case expelled:
			w.giveUp(err)
			return false
		case refused:
			if errors.Is(err, fault.StreamGap) {
				break
			}
			w.log.Error("the end of an attempt was refused for good", slog.String("task", r.ref().TaskID), slog.Any("cause", err))
			w.dropRecord(r)
			return false
		case tryAgain:
			w.log.Debug("report the end of an attempt", slog.String("task", r.ref().TaskID), slog.Any("cause", err))
		}
		w.pause(ctx, &back, err)
	}
}

func (w *Worker) dropRecord(r *record) {
	if w.spool == nil {
		return
	}
	if err := w.spool.drop(r); err != nil { // it is sent again at the next start, and answered again
		w.log.Warn("drop a spool record", slog.Any("cause", err))
	}
}

// send makes the report that r is.
func (w *Worker) send(ctx context.Context, r *record) error {
	switch r.Kind {
	case endComplete:
		return w.complete(ctx, *r.Completion)
	case endUnknown:
		o, err := w.transport.ReportUnknown(ctx, *r.Unknown)
		return errors.Join(err, answerErr(o.Error))
	default:
		o, err := w.transport.FailTask(ctx, *r.Fail)
		return errors.Join(err, answerErr(o.Error))
	}
}

// sending is a completion on its way to the batcher.
type sending struct {
	completion tasks.Completion
	answer     chan error // holds one
}

// complete sends a completion along with the others that wait.
func (w *Worker) complete(ctx context.Context, c tasks.Completion) error {
	s := sending{c, make(chan error, 1)}
	select {
	case w.completions <- s:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-s.answer:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// batchLoop sends completions: one request at a time, with all that piled up behind the one before.
func (w *Worker) batchLoop(ctx context.Context) {
	var carried *sending
	for {
		var batch []sending
		if carried != nil {
			batch = append(batch, *carried)
		} else {
			select {
			case s := <-w.completions:
				batch = append(batch, s)
			case <-ctx.Done():
				return
			}
		}
		batch, carried = w.gather(batch)
		w.sendBatch(ctx, batch)
	}
}

// gather adds what waits, up to the limits of a request. What is too much for it is carried over.
func (w *Worker) gather(batch []sending) (full []sending, carried *sending) {
	size := len(batch[0].completion.Result)
	for len(batch) < tasks.MaxBatch {
		select {
		case s := <-w.completions:
			if size += len(s.completion.Result); size > batchBytes {
				return batch, &s
			}
			batch = append(batch, s)
		default:
			return batch, nil
		}
	}
	return batch, nil
}

func (w *Worker) sendBatch(ctx context.Context, batch []sending) {
	req := tasks.CompleteRequest{Completions: make([]tasks.Completion, 0, len(batch))}
	for _, s := range batch {
		req.Completions = append(req.Completions, s.completion)
	}
	got, err := w.transport.CompleteTasks(ctx, req)
	if err == nil && len(got.Outcomes) != len(batch) {
		err = fault.New(fault.Internal, "%d completions were sent, the answer has %d", len(batch), len(got.Outcomes))
	}
	if err != nil && len(batch) > 1 && judge(err) == refused {
		for i := range batch { // one of them spoils it for all
			w.sendBatch(ctx, batch[i:i+1])
		}
		return
	}
	for i, s := range batch {
		if err != nil {
			s.answer <- err
			continue
		}
		s.answer <- answerErr(got.Outcomes[i].Error)
	}
}
