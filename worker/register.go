package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

// eventsRetry is how long the worker does without an event stream that was refused; polling goes on.
const eventsRetry = time.Minute

// registration is what the worker says of itself now.
func (w *Worker) registration() tasks.RegisterRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	req := tasks.RegisterRequest{
		WorkerID: w.o.WorkerID, Version: w.o.Version, Running: w.busy, Draining: w.drain || w.stopping,
		Returns:  w.drain && w.back && !w.stopping,
		Handlers: []tasks.Handler{}, Pools: []string{},
	}
	for k, h := range w.handlers {
		req.Handlers = append(req.Handlers, tasks.Handler{Type: k.typ, SchemaVersion: k.version, EffectSafety: h.safety})
	}
	slices.SortFunc(req.Handlers, func(a, b tasks.Handler) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.SchemaVersion, b.SchemaVersion))
	})
	for _, p := range w.pools {
		if p.listed {
			req.Pools = append(req.Pools, p.name)
			req.MaxConcurrent += p.slots
		}
	}
	slices.Sort(req.Pools)
	if len(req.Pools) == 0 { // a task-worker's empty list stands for the pool "default", which is not served then
		req.MaxConcurrent = 0
	}
	return req
}

// registerLoop keeps the registration fresh. first is called once, when it stands. The loop also probes
// for everybody: when a call fails it registers, and when that succeeds after it failed, all who wait
// before their next try are woken.
func (w *Worker) registerLoop(ctx context.Context, first func()) {
	back := retry.Backoff{Base: 200 * time.Millisecond, Cap: 5 * time.Second}
	for {
		var wait time.Duration
		doubted := w.doubted
		got, err := w.transport.RegisterWorker(ctx, w.registration())
		switch {
		case err == nil:
			if back.Tries() > 0 { // it is back: what waits need not wait on
				w.poke()
			}
			back.Reset()
			first()
			first = func() {}
			seen := cmp.Or(time.Duration(got.SeenMs)*time.Millisecond, tasks.RegisterGap)
			wait = seen*2/3 - time.Duration(rand.Int64N(int64(seen/10)+1))
		case ctx.Err() != nil:
			return
		case judge(err) == expelled, judge(err) == refused && !poolRefused(err):
			w.giveUp(err)
			return
		default:
			w.log.Warn("register worker", slog.Any("cause", err))
			wait, doubted = back.Next(client.RetryAfter(err)), nil
		}
		select {
		case <-w.again:
		case <-doubted:
		case <-w.clock.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// poolRefused is true when the control plane does not let this worker serve one of its pools yet, or
// any more: the two sides learn of a change at different times, so that passes.
func poolRefused(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == fault.ScopeDenied && f.Field == "pools"
}

// followHints passes hints on. Everything is correct without a single one.
func (w *Worker) followHints(ctx context.Context) {
	if w.o.Wake != nil {
		for {
			select {
			case _, ok := <-w.o.Wake:
				if !ok {
					return
				}
				w.poke()
			case <-ctx.Done():
				return
			}
		}
	}
	for {
		err := w.transport.Follow(ctx, client.WorkerEventsPath, "", func(client.Event) error {
			w.poke()
			return nil
		}, client.WithParam("worker", w.o.WorkerID))
		if err == nil || ctx.Err() != nil {
			return
		}
		w.log.Debug("follow worker events", slog.Any("cause", err))
		if retry.Sleep(ctx, w.clock, eventsRetry) != nil {
			return
		}
	}
}

// poke ends the waits between tries and renews soon, which is how a cancel request is learned.
func (w *Worker) poke() {
	w.mu.Lock()
	close(w.poked)
	w.poked = make(chan struct{})
	w.mu.Unlock()
	hint(w.hinted)
}

// pause waits before the next try after err, or until a hint says that the control plane is there.
func (w *Worker) pause(ctx context.Context, back *retry.Backoff, err error) {
	w.mu.Lock()
	poked := w.poked
	w.mu.Unlock()
	if err != nil {
		hint(w.doubted)
	}
	floor := client.RetryAfter(err)
	if floor > 0 {
		poked = nil // who was told to wait does
	}
	select {
	case <-poked:
	case <-w.clock.After(back.Next(floor)):
	case <-ctx.Done():
	}
}
