package agents

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

// Choose sets the mode of a role and keeps its hours and other limits. A pause beside the hours ends with
// it: who chooses means now.
func (w *Watcher) Choose(ctx context.Context, k tray.Key, mode schedule.Mode) error {
	a, err := w.find(k)
	if err != nil {
		return err
	}
	if a.Older() {
		return w.chooseOlder(ctx, k, mode)
	}
	want := a.Status.Wish.Availability
	want.Mode = mode
	return w.SetAvailability(ctx, k, want)
}

// chooseOlder says to an agent that knows no hours what it does know.
func (w *Watcher) chooseOlder(ctx context.Context, k tray.Key, mode schedule.Mode) error {
	owner, ok := map[schedule.Mode]fleet.Mode{schedule.Always: fleet.Active, schedule.Paused: fleet.Paused}[mode]
	if !ok {
		return needsNewer()
	}
	return w.wish(k, func(d Door) (localapi.Status, error) { return d.SetOwner(ctx, owner) })
}

// SetAvailability sets mode, hours and limits of a role.
func (w *Watcher) SetAvailability(ctx context.Context, k tray.Key, want schedule.Availability) error {
	if err := want.Check(); err != nil {
		return err
	}
	return w.wish(k, func(d Door) (localapi.Status, error) {
		st, err := d.SetAvailability(ctx, want)
		if err == nil && st.Wish.Hold != nil && want.Mode != schedule.Paused {
			st, err = d.SetOwner(ctx, fleet.Active)
		}
		if errors.Is(err, fault.NotFound) || errors.Is(err, fault.WrongMethod) {
			err = needsNewer()
		}
		return st, err
	})
}

func needsNewer() error {
	return fault.New(fault.Invalid, "hours and limits need a newer agent").WithHint("update it: interlock agent update --now")
}

// PauseAll pauses every role for d. An older agent is left alone, since it would pause for ever; with none
// but older ones that is said.
func (w *Watcher) PauseAll(ctx context.Context, d time.Duration) error {
	n, err := w.each(func(a tray.Agent) bool { return a.Reach == tray.Answers && !a.Older() },
		func(door Door) (localapi.Status, error) { return door.Pause(ctx, d) })
	if n == 0 {
		return fault.New(fault.Invalid, "no agent here can be paused for a time").WithHint("start or update the agents")
	}
	return err
}

// ResumeAll ends the pauses beside the hours. Roles that the owner chose to pause stay so.
func (w *Watcher) ResumeAll(ctx context.Context) error {
	_, err := w.each(func(a tray.Agent) bool { return a.Held() != nil && a.Choice() != schedule.Paused },
		func(door Door) (localapi.Status, error) { return door.SetOwner(ctx, fleet.Active) })
	return err
}

// Logs are the newest lines of a role's agent.
func (w *Watcher) Logs(ctx context.Context, k tray.Key, n int) ([]string, error) {
	if _, err := w.find(k); err != nil {
		return nil, err
	}
	socket, err := w.home.Socket(k.Group, k.Role)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	door := w.door(k, socket)
	w.mu.Unlock()
	logs, err := door.Logs(ctx, "", n)
	return logs.Lines, err
}

// find is an agent that can be asked.
func (w *Watcher) find(k tray.Key) (tray.Agent, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.snap.Find(k)
	switch {
	case !ok:
		return a, fault.New(fault.NotFound, "this machine is no longer in group %q as %s", k.Group, k.Role)
	case a.Reach != tray.Answers:
		return a, fault.New(fault.Unavailable, "%s: %s", w.snap.Title(a), a.Words())
	}
	return a, nil
}

// each has every agent that is meant carry out the same, side by side, and says for how many.
func (w *Watcher) each(meant func(tray.Agent) bool, do func(Door) (localapi.Status, error)) (int, error) {
	all := slices.DeleteFunc(w.Snapshot().Agents, func(a tray.Agent) bool { return !meant(a) })
	errs := make([]error, len(all))
	var wait sync.WaitGroup
	for i, a := range all {
		wait.Go(func() { errs[i] = w.wish(a.Key, do) })
	}
	wait.Wait()
	return len(all), errors.Join(errs...)
}

// wish asks one agent for a change and keeps its answer, which is newer than any look that was under way.
func (w *Watcher) wish(k tray.Key, do func(Door) (localapi.Status, error)) error {
	socket, err := w.home.Socket(k.Group, k.Role)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.wrote[k]++
	door := w.door(k, socket)
	w.mu.Unlock()
	st, err := do(door)
	w.mu.Lock()
	w.wrote[k]++
	if err == nil {
		w.put(k, st, nil)
	}
	w.mu.Unlock()
	w.Eager(settling) // refused or not, what holds now is asked for
	return err
}
