package agent

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/retry"
	"interlock.sh/worker"
)

const (
	pollEvery = time.Minute     // the desired state, when no hint came
	settle    = 5 * time.Second // between two reconciles when nothing changed
)

// desiredLoop reads the desired state whenever a hint, a heartbeat or the time says so.
func (a *Agent) desiredLoop(ctx context.Context) error {
	back := retry.Backoff{Base: time.Second, Cap: pollEvery}
	for {
		d, err := a.control.DesiredState(ctx)
		wait := pollEvery
		if err == nil {
			back.Reset()
			a.want(d)
		} else if ctx.Err() == nil {
			a.note(err)
			wait = back.Next(client.RetryAfter(err))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.refresh:
		case <-a.clock.After(wait):
		}
	}
}

func (a *Agent) want(d fleet.Desired) {
	a.mu.Lock()
	changed := d.Version != a.desired.Version || !reflect.DeepEqual(d, a.desired)
	a.desired = d
	a.mu.Unlock()
	if changed {
		a.log.Info("desired state", slog.Int64("version", d.Version), slog.String("mode", string(d.Mode)), slog.Int("deployments", len(d.Deployments)))
		a.poke()
	}
}

// note remembers why the control plane could not be asked. A revoked machine stops for good.
func (a *Agent) note(err error) {
	e := fault.Of(err)
	a.log.Warn("ask the control plane", slog.Any("cause", err))
	a.mu.Lock()
	a.lastErr = e.Error()
	if errors.Is(err, fault.Revoked) {
		a.blocked = "this machine was revoked"
		a.desired.Deployments = nil
	}
	a.mu.Unlock()
	if errors.Is(err, fault.Revoked) {
		a.poke()
	}
}

// listenLoop holds the stream of hints open: low latency when it works, nothing lost when it does not.
func (a *Agent) listenLoop(ctx context.Context) error {
	for ctx.Err() == nil {
		err := a.control.Follow(ctx, client.WorkerEventsPath, "", func(e client.Event) error {
			if e.Event == "desired" {
				signal(a.refresh)
			}
			return nil
		})
		if ctx.Err() != nil {
			return nil
		}
		a.log.Debug("hint stream ended", slog.Any("cause", err))
		if retry.Sleep(ctx, a.clock, pollEvery) != nil {
			return nil
		}
	}
	return nil
}

// reconcileLoop brings what runs to what is wanted until ctx ends, and then stops everything.
func (a *Agent) reconcileLoop(ctx context.Context) error {
	defer a.stopAll()
	for {
		a.reconcile(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-a.due:
		case <-a.clock.After(settle):
		}
	}
}

// reconcile compares the whole wanted document with what runs.
func (a *Agent) reconcile(ctx context.Context) {
	a.mu.Lock()
	wanted := map[string]fleet.DesiredDeployment{}
	if a.effectiveMode() != fleet.Paused && a.blocked == "" && a.supported() == nil {
		for _, d := range a.desired.Deployments {
			wanted[d.ID] = d
		}
	}
	var gone []*serving
	for id, s := range a.serves {
		if want, ok := wanted[id]; !ok || !reflect.DeepEqual(want, s.want) {
			gone = append(gone, s)
		}
	}
	a.mu.Unlock()
	// No new work for what is to stop, then it drains and stops.
	a.offer(gone)
	for _, s := range gone {
		s.end()
		a.mu.Lock()
		delete(a.serves, s.want.ID)
		a.mu.Unlock()
	}
	a.mu.Lock()
	for id, d := range wanted {
		if a.serves[id] == nil && ctx.Err() == nil {
			s := newServing(d, a.host, a.log)
			sctx, stop := context.WithCancel(ctx)
			s.stop = stop
			a.serves[id] = s
			go s.run(sctx)
		}
	}
	a.mu.Unlock()
	a.offer(nil)
}

// offer tells the worker what it may claim: the pools of the models that are ready, but for those that
// are about to stop. Draining claims nothing and finishes what is in hand.
func (a *Agent) offer(without []*serving) {
	a.mu.Lock()
	draining := a.effectiveMode() != fleet.Active || a.blocked != ""
	var pools []worker.Pool
	for id, s := range a.serves {
		s.mu.Lock()
		ready := s.report.State.Serving()
		slots := s.report.Slots
		s.mu.Unlock()
		for _, g := range without {
			ready = ready && g != s
		}
		if ready {
			pools = append(pools, worker.Pool{Name: fleet.Pool(id), Slots: slots})
		}
	}
	a.mu.Unlock()
	if err := a.worker.SetPools(pools); err != nil {
		a.log.Error("offer models", slog.Any("cause", err))
	}
	if draining {
		a.worker.Drain()
	} else {
		a.worker.Resume()
	}
}

// stopAll drains and stops every model server, all at the same time.
func (a *Agent) stopAll() {
	a.mu.Lock()
	all := make([]*serving, 0, len(a.serves))
	for _, s := range a.serves {
		all = append(all, s)
		s.stop()
	}
	a.mu.Unlock()
	for _, s := range all {
		<-s.done
	}
}

// effectiveMode is the stricter of what the control plane and the owner want. Callers hold mu.
func (a *Agent) effectiveMode() fleet.Mode {
	for _, m := range []fleet.Mode{fleet.Paused, fleet.Draining} {
		if a.desired.Mode == m || a.owner.Mode == m {
			return m
		}
	}
	return fleet.Active
}
