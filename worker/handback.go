package worker

import (
	"context"
	"fmt"
)

// givenBack is why an attempt is handed back while the worker goes on: ErrStopping, in words that say more.
type givenBack struct{ reason string }

// Error is the reason.
func (e *givenBack) Error() string { return e.reason }

// Unwrap makes it an ErrStopping.
func (e *givenBack) Unwrap() error { return ErrStopping }

// HandBack gives up what the worker has in hand, since its owner wants the machine back now. It drains the
// worker as Drain does, ends the context of every handler with ErrStopping and the reason, and returns
// once the control plane has answered for every attempt. Pure and idempotent attempts are queued again and
// do not count; one that must not repeat ends with an unknown outcome. A handler that has its result all
// the same completes. One that does not stop within 5 s is handed back without its word, and what it
// returns later is dropped.
//
// Until Resume, an attempt that a claim under way still brings goes back before its handler begins.
//
// When ctx ends first, the error says how many ends were not answered yet. They are in the spool and are
// reported on.
func (w *Worker) HandBack(ctx context.Context, reason string) error {
	why := &givenBack{reason}
	w.mu.Lock()
	w.given, w.drain = why, true
	w.wakeLoops()
	w.move()
	hint(w.again)
	w.mu.Unlock()
	for _, at := range w.attempts() {
		at.stop(why)
	}
	w.awaitQuiet(ctx, stopWait)
	for _, at := range w.attempts() {
		at.abandon()
	}
	return w.awaitEmpty(ctx)
}

// awaitEmpty waits until nothing is held.
func (w *Worker) awaitEmpty(ctx context.Context) error {
	w.mu.Lock()
	if len(w.held) == 0 {
		w.mu.Unlock()
		return nil
	}
	if w.empty == nil {
		w.empty = make(chan struct{})
	}
	empty := w.empty
	w.mu.Unlock()
	select {
	case <-empty:
		return nil
	case <-ctx.Done():
	}
	if left := len(w.attempts()); left > 0 {
		return fmt.Errorf("hand back: the ends of %d attempts are not answered yet: %w", left, context.Cause(ctx))
	}
	return nil
}

// abandon stops waiting for a handler that does not stop.
func (at *attempt) abandon() { at.abandoned.Do(func() { close(at.desert) }) }
