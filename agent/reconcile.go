package agent

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/worker"
)

// settle is the time between two reconciles when nothing changed.
const settle = 5 * time.Second

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

// reconcile compares the whole wanted document with what runs. It waits for nothing: what is to stop
// drains by itself, and a deployment that is to start does not wait for another's drain. One that
// changed waits for its own: the same name is served once.
func (a *Agent) reconcile(ctx context.Context) {
	a.judge()
	a.offering.Lock()
	a.mu.Lock()
	wanted := a.wanted()
	for id, s := range a.serves {
		if want, ok := wanted[id]; !ok || !reflect.DeepEqual(want, s.want) {
			s.ending = true
		}
	}
	pools, drain := a.offerable()
	a.mu.Unlock()
	a.offer(pools, drain) // no new work for what is to stop comes first
	a.offering.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, s := range a.serves {
		switch {
		case s.over():
			delete(a.serves, id)
			a.spaceFreed()
		case s.ending:
			s.stop()
		}
	}
	for id, d := range wanted {
		if a.serves[id] == nil && ctx.Err() == nil {
			s := newServing(d, a.host, a.log)
			sctx, stop := context.WithCancel(ctx)
			s.stop = stop
			a.serves[id] = s
			go s.run(sctx)
		}
	}
	a.prune()
}

// wanted is what should run now. Callers hold mu.
func (a *Agent) wanted() map[string]fleet.DesiredDeployment {
	out := map[string]fleet.DesiredDeployment{}
	if a.effectiveMode() != fleet.Paused && a.trouble == (trouble{}) && a.supported() == nil {
		for _, d := range a.desired.Deployments {
			out[d.ID] = d
		}
	}
	return out
}

// spaceFreed lets what is blocked look again at once: something gave memory back. Callers hold mu.
func (a *Agent) spaceFreed() {
	for _, s := range a.serves {
		signal(s.again)
	}
}

// prune removes the folders of deployments that this machine is no longer to serve. They hold links;
// the files stay in the cache. Callers hold mu.
func (a *Agent) prune() {
	if !a.known || a.trouble != (trouble{}) || a.supported() != nil {
		return
	}
	dir := a.host.home.Version(a.host.group, "")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.Warn("list deployments on disk", slog.Any("cause", err))
	}
	for _, e := range entries {
		named := func(d fleet.DesiredDeployment) bool { return d.ID == e.Name() }
		if a.serves[e.Name()] != nil || slices.ContainsFunc(a.desired.Deployments, named) {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			a.log.Warn("remove the folder of a deployment that is gone", slog.Any("cause", err))
		}
	}
}

// offer is what the worker was last told that it may claim.
type offer struct {
	pools []worker.Pool
	drain bool
	made  bool
}

// offerable is what the worker may claim: the pools of the models that are ready, but for those that
// are about to stop. Draining claims nothing and finishes what is in hand. Callers hold mu.
func (a *Agent) offerable() ([]worker.Pool, bool) {
	pools := []worker.Pool{}
	for id, s := range a.serves {
		if state, slots := s.now(); state.Serving() && !s.ending {
			pools = append(pools, worker.Pool{Name: fleet.Pool(id), Slots: slots})
		}
	}
	slices.SortFunc(pools, func(x, y worker.Pool) int { return strings.Compare(x.Name, y.Name) })
	return pools, a.leaving || !a.going.by.IsZero() || a.effectiveMode() != fleet.Active || a.trouble != (trouble{})
}

// offer tells the worker, if it is anything new: each telling is a registration. Only reconcile calls it.
func (a *Agent) offer(pools []worker.Pool, drain bool) {
	a.mu.Lock()
	again, returns := a.ceiling.tell, !a.leaving && !a.going.by.IsZero() && a.effectiveMode() == fleet.Active
	a.ceiling.tell = false
	a.mu.Unlock()
	if !again && a.offered.made && a.offered.drain == drain && slices.Equal(a.offered.pools, pools) {
		return
	}
	if err := a.worker.SetPools(pools); err != nil {
		a.log.Error("offer models", slog.Any("cause", err))
	}
	switch {
	case !drain:
		a.worker.Resume()
	case returns:
		a.worker.DrainToReturn()
	default:
		a.worker.Drain()
	}
	a.offered = offer{pools, drain, true}
	if !drain && len(pools) > 0 {
		a.welcome()
		select {
		case <-a.shown:
		default:
			close(a.shown)
		}
	}
}

// stopAll drains and stops every model server, all at the same time.
func (a *Agent) stopAll() {
	a.mu.Lock()
	all := make([]*serving, 0, len(a.serves))
	for _, s := range a.serves {
		all = append(all, s)
		s.ending = true
		s.stop()
	}
	a.mu.Unlock()
	for _, s := range all {
		<-s.done
	}
	a.mu.Lock()
	clear(a.serves)
	a.mu.Unlock()
}

// effectiveMode is the stricter of what the control plane and the owner want. Callers hold mu.
func (a *Agent) effectiveMode() fleet.Mode {
	for _, m := range []fleet.Mode{fleet.Paused, fleet.Draining} {
		if a.desired.Mode == m || a.ownerMode() == m {
			return m
		}
	}
	return fleet.Active
}
