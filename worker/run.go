package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"interlock.sh/fault"
)

const (
	pollEnd   = time.Second      // for a parked claim to be answered once the worker drains
	stopWait  = 5 * time.Second  // for handlers to notice that they must stop
	flushWait = 10 * time.Second // for reports to be answered
	farewell  = 3 * time.Second  // for one registration while stopping
)

// expulsion carries an error after which the worker cannot go on.
type expulsion struct{ err error }

// Error is why the worker cannot go on.
func (e *expulsion) Error() string { return e.err.Error() }

// Unwrap is the cause.
func (e *expulsion) Unwrap() error { return e.err }

// Run registers, claims and carries out tasks until ctx ends, then drains: it claims nothing more,
// gives handlers the grace, stops those that remain with ErrStopping, hands their attempts back and
// waits a little for the reports to be answered. It returns nil then, or why it had to end before:
// a credential that was revoked, or a registration that is refused for good. It runs once.
func (w *Worker) Run(ctx context.Context) error {
	w.mu.Lock()
	if w.began {
		w.mu.Unlock()
		return fault.New(fault.Conflict, "worker %s runs, or ran, already", w.o.WorkerID).WithHint("make a new one")
	}
	w.began = true
	running, expel := context.WithCancelCause(ctx)
	defer expel(nil)
	w.expel = func(err error) { expel(&expulsion{err}) }
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	w.life = life
	w.mu.Unlock()

	house, closeHouse := context.WithCancel(life)
	defer closeHouse()
	var loops sync.WaitGroup
	registered := make(chan struct{})
	loops.Go(func() { w.registerLoop(house, func() { close(registered) }) })
	loops.Go(func() { w.followHints(house) })
	loops.Go(func() { w.renewLoop(life) })
	loops.Go(func() { w.batchLoop(life) })
	w.replay(life)

	stopClaims := func() {}
	select {
	case <-registered:
		stopClaims = w.claim()
		<-running.Done()
	case <-running.Done():
	}
	var out *expulsion
	gone := errors.As(context.Cause(running), &out)
	closeHouse()
	w.wind(stopClaims, gone)
	end()
	w.work.Wait()
	loops.Wait()
	if gone {
		return fmt.Errorf("worker %s: %w", w.o.WorkerID, out.err)
	}
	w.announce(ctx)
	return nil
}

// claim starts the claim loops.
func (w *Worker) claim() (stop func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var cancel context.CancelFunc
	w.claiming, cancel = context.WithCancel(w.life)
	w.startLoops()
	return cancel
}

// wind brings the work to its end. Leases are renewed and ends reported meanwhile.
func (w *Worker) wind(stopClaims func(), expelled bool) {
	grace := w.o.Grace
	if expelled {
		grace = -1 // nothing that they do could be reported
	}
	w.mu.Lock()
	w.stopping = true
	w.wakeLoops()
	w.mu.Unlock()
	if !expelled {
		w.announce(w.life)
		w.wait(&w.claims, pollEnd) // the polls end by themselves, with what was leased last
	}
	stopClaims()
	w.claims.Wait()

	w.awaitQuiet(w.life, grace)
	for _, at := range w.attempts() {
		at.stop(ErrStopping)
	}
	w.awaitQuiet(w.life, stopWait)
	for _, at := range w.attempts() {
		at.abandon()
	}
	if !expelled && !w.wait(&w.work, flushWait) {
		w.log.Warn("the worker ends before every report was answered", slog.Bool("spooled", w.spool != nil))
	}
}

func (w *Worker) attempts() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*attempt, 0, len(w.held))
	for _, at := range w.held {
		all = append(all, at)
	}
	return all
}

// announce says once that the worker drains, and what it still does.
func (w *Worker) announce(ctx context.Context) {
	try, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
	defer cancel()
	if _, err := w.transport.RegisterWorker(try, w.registration()); err != nil {
		w.log.Debug("register as draining", slog.Any("cause", err))
	}
}

// awaitQuiet waits until no handler runs, at most d or until ctx ends.
func (w *Worker) awaitQuiet(ctx context.Context, d time.Duration) {
	w.mu.Lock()
	if w.busy == 0 || d < 0 {
		w.mu.Unlock()
		return
	}
	if w.quiet == nil {
		w.quiet = make(chan struct{})
	}
	quiet := w.quiet
	w.mu.Unlock()
	select {
	case <-quiet:
	case <-w.clock.After(d):
	case <-ctx.Done():
	}
}

// wait waits for a group, at most d; false when that was not enough.
func (w *Worker) wait(group *sync.WaitGroup, d time.Duration) bool {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-w.clock.After(d):
		return false
	}
}
