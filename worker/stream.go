package worker

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"
	"unicode/utf8"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

const (
	// maxUnacked is how much of a stream is kept until it is durable; a writer waits beyond it.
	maxUnacked = 1 << 20
	// askGap is how long a waiting writer gives the control plane's journal before asking how far it is.
	askGap = 50 * time.Millisecond
	// brisk is how many reports leave without any pace: the begin of an answer is what people wait for.
	brisk = 4
	// plenty is enough to leave whatever the pace.
	plenty = 16 << 10
)

// tail is the part of a stream that is not known to be durable.
type tail struct {
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// stream is an attempt's output. Bytes leave at once, one report at a time; what is written while one
// is on its way goes with the next. They are kept until they are durable.
type stream struct {
	ctx context.Context // of the reports
	w   *Worker
	ref tasks.Ref
	at  *attempt // nil for one that an earlier process began

	mu      sync.Mutex
	buf     []byte // valid UTF-8, from base on
	base    int64
	sent    int64  // the next byte to send, counted from the stream's begin
	partial []byte // the begin of a character whose rest was not written yet
	gaps    int    // in a row
	waiting int    // writers without room
	pumping bool
	closed  bool
	broken  error         // why nothing more can be sent
	changed chan struct{} // when set, closes at the next change

	reports int           // sent so far
	last    time.Time     // when the newest one left
	hurry   chan struct{} // closed with the stream: the rest leaves at once
}

func newStream(ctx context.Context, w *Worker, ref tasks.Ref, t tail, at *attempt) *stream {
	return &stream{ctx: ctx, w: w, ref: ref, at: at, buf: []byte(t.Text), base: t.Offset, sent: t.Offset + int64(len(t.Text)), hurry: make(chan struct{})}
}

// write appends p; ctx ends a wait for room.
func (s *stream) write(ctx context.Context, p []byte) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n < len(p) {
		for len(s.buf) >= maxUnacked && s.broken == nil && !s.closed {
			s.waiting++
			s.pump()
			err = s.await(ctx)
			s.waiting--
			if err != nil {
				return n, err
			}
		}
		switch {
		case s.closed:
			return n, io.ErrClosedPipe
		case s.broken != nil:
			return n, s.broken
		}
		piece := p[n:min(len(p), n+tasks.MaxDelta)]
		s.append(piece)
		n += len(piece)
		s.pump()
	}
	return n, nil
}

// append keeps buf valid UTF-8, wherever the writer cut. The caller holds mu.
func (s *stream) append(p []byte) {
	if len(s.partial) > 0 {
		p = append(s.partial, p...)
		s.partial = nil
	}
	whole := wholeRunes(p)
	if whole < len(p) {
		s.partial = bytes.Clone(p[whole:])
	}
	if p = p[:whole]; !utf8.Valid(p) {
		p = bytes.ToValidUTF8(p, []byte("\uFFFD"))
	}
	s.buf = append(s.buf, p...)
}

// wholeRunes is where an unfinished character begins at the end of p, or len(p).
func wholeRunes(p []byte) int {
	for i := len(p) - 1; i >= 0 && i > len(p)-utf8.UTFMax; i-- {
		if utf8.RuneStart(p[i]) {
			if !utf8.FullRune(p[i:]) {
				return i
			}
			break
		}
	}
	return len(p)
}

// finish ends the writing and returns what is not known to be durable.
func (s *stream) finish() tail {
	s.close()
	s.mu.Lock()
	defer s.mu.Unlock()
	return tail{Offset: s.base, Text: string(s.buf)}
}

func (s *stream) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.closed = true
	close(s.hurry)
	if len(s.partial) > 0 {
		s.buf = append(s.buf, "\uFFFD"...)
		s.partial = nil
	}
	s.broadcast()
	s.pump()
}

// length is what the control plane must hold for the end to be taken; 0 when it cannot be had.
func (s *stream) length() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return 0
	}
	return s.total()
}

func (s *stream) total() int64 { return s.base + int64(len(s.buf)) }

// flushed waits until everything was sent, be it durable or not.
func (s *stream) flushed(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.pumping || (s.broken == nil && s.sent < s.total()) {
		s.pump()
		if err := s.await(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rewind goes back to what is durable; false when the bytes from there on are gone.
func (s *stream) rewind(gap error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rewindLocked(gap)
}

func (s *stream) rewindLocked(gap error) bool {
	to, ok := durableTo(gap)
	if !ok || to < s.base || to > s.total() {
		s.fail(gap)
		return false
	}
	s.sent = to
	s.trim(to)
	s.pump()
	return true
}

// fail ends the sending for good; the attempt goes on without it.
func (s *stream) fail(err error) {
	s.broken = err
	s.w.log.Warn("send output stream", slog.String("task", s.ref.TaskID), slog.Any("cause", err))
	s.broadcast()
}

// pump begins to send, unless somebody does. The caller holds mu.
func (s *stream) pump() {
	if s.pumping || s.broken != nil || s.ctx.Err() != nil || (s.sent == s.total() && s.waiting == 0) {
		return
	}
	s.pumping = true
	s.w.work.Go(s.send)
}

func (s *stream) send() {
	back := retry.Backoff{Base: 100 * time.Millisecond, Cap: 5 * time.Second}
	for {
		s.breathe()
		offset, text, more := s.next()
		if !more {
			return
		}
		if text == "" && retry.Sleep(s.ctx, s.w.clock, askGap) != nil {
			continue
		}
		got, err := s.w.transport.ReportDelta(s.ctx, tasks.DeltaReport{Ref: s.ref, Offset: offset, Text: text})
		if got.Cancel && s.at != nil {
			s.at.cancelled("")
		}
		if again := s.took(offset+int64(len(text)), got, err); again {
			s.w.pause(s.ctx, &back, err) // next sees that the context ended
		} else if err == nil {
			back.Reset()
		}
	}
}

// breathe waits until the next report may leave, so that tokens which come one by one share a report.
func (s *stream) breathe() {
	if s.w.o.Pace <= 0 {
		return
	}
	hands := time.Duration(s.w.inHand())
	s.mu.Lock()
	wait := time.Duration(0)
	if s.reports >= brisk && !s.closed && s.waiting == 0 && s.total()-s.sent < plenty {
		wait = s.w.o.Pace*max(hands, 1) - s.w.clock.Now().Sub(s.last)
	}
	s.mu.Unlock()
	if wait <= 0 {
		return
	}
	select {
	case <-s.w.clock.After(wait):
	case <-s.hurry:
	case <-s.ctx.Done():
	}
}

// next is what to send: bytes, or none to ask how far the journal is. more is false when that was all.
func (s *stream) next() (offset int64, text string, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := s.buf[s.sent-s.base:]
	if s.broken != nil || s.ctx.Err() != nil || (len(rest) == 0 && s.waiting == 0) {
		s.pumping = false
		s.broadcast()
		return 0, "", false
	}
	s.reports, s.last = s.reports+1, s.w.clock.Now()
	return s.sent, string(rest[:cutAt(rest)]), true
}

// cutAt is how much of rest goes into one report: between characters, after a line if one ends there.
func cutAt(rest []byte) int {
	if len(rest) <= tasks.MaxDelta {
		return len(rest)
	}
	end := tasks.MaxDelta
	for !utf8.RuneStart(rest[end]) {
		end--
	}
	if line := bytes.LastIndexByte(rest[end/2:end], '\n'); line >= 0 {
		return end/2 + line + 1
	}
	return end
}

// took notes the answer to a report that ended at end; again is true when the next has to wait.
func (s *stream) took(end int64, got tasks.DeltaResponse, err error) (again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		s.gaps = 0
		s.sent = end
		s.trim(got.DurableTo)
		return false
	case s.ctx.Err() != nil:
		return false
	case errors.Is(err, fault.StreamGap):
		s.rewindLocked(err)
		s.gaps++
		return s.gaps > 1
	case isStale(err) && s.at != nil:
		s.at.silence()
		s.broken = err // the end, when it is on its way, goes without the rest and is answered for itself
		s.broadcast()
		return false
	}
	switch judge(err) {
	case expelled:
		s.broken = err
		s.w.giveUp(err)
	case refused:
		s.fail(err)
	case tryAgain:
		return true
	}
	return false
}

// trim drops what is durable. The caller holds mu.
func (s *stream) trim(to int64) {
	n := min(to, s.sent) - s.base
	if n <= 0 {
		return
	}
	s.buf = append(s.buf[:0], s.buf[n:]...)
	s.base += n
	s.broadcast()
}

// await waits for a change, without mu.
func (s *stream) await(ctx context.Context) error {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed := s.changed
	s.mu.Unlock()
	defer s.mu.Lock()
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *stream) broadcast() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func durableTo(err error) (int64, bool) {
	var f *fault.Error
	if !errors.As(err, &f) {
		return 0, false
	}
	switch v := f.Details["durableTo"].(type) {
	case float64:
		return int64(v), true
	case int64:
		return v, true
	case int:
		return int64(v), true
	}
	return 0, false
}
