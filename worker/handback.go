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

// HandBack gives up what the worker has in hand, since its owner wants the machine back now. It ends the
// context of every handler with ErrStopping and the reason, and returns once the control plane has answered
// for every attempt. Pure and idempotent attempts are queued again and do not count; one that must not
// repeat ends with an unknown outcome. A handler that has its result all the same completes. One that does
// not stop within 5 s is handed back without its word, and what it returns later is dropped.
//
// Drain first: a worker that does not drain claims on. Until Resume, an attempt that a claim under way
// still brings goes back before its handler begins.
//
// When ctx ends first, the error says how many ends were not answered yet. They are in the spool and are
// reported on.
func (w *Worker) HandBack(ctx context.Context, reason string) error {
	why := &givenBack{reason}
	w.mu.Lock()
	if w.drain { // else Resume came in between, and nobody would lift it
		w.given = why
	}
	w.mu.Unlock()
	all := w.attempts()
	for _, at := range all {
		at.stop(why)
	}
	w.awaitQuiet(ctx, stopWait)
	for _, at := range all {
		at.abandon()
	}
	for i, at := range all {
		select {
		case <-at.gone:
		case <-ctx.Done():
			return w.unanswered(all[i:], context.Cause(ctx))
		}
	}
	return nil
}

// unanswered is the error for a hand-back that ended too early; nil when that was in the same moment.
func (w *Worker) unanswered(all []*attempt, cause error) error {
	left := 0
	for _, at := range all {
		select {
		case <-at.gone:
		default:
			left++
		}
	}
	if left == 0 {
		return nil
	}
	return fmt.Errorf("hand back: the ends of %d attempts are not answered yet: %w", left, cause)
}

// abandon stops waiting for a handler that does not stop.
func (at *attempt) abandon() { at.abandoned.Do(func() { close(at.desert) }) }
