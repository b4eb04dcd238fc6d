package updater

import (
	"context"
	"fmt"
	"slices"
	"time"

	"interlock.sh/fleet/build"
	"interlock.sh/internal/retry"
)

// advance takes the update under way as far as it goes now. It returns with the update still under way
// when the machine is busy, or when the verdict has to wait for the control plane.
func (u *Updater) advance(ctx context.Context, st *state) error {
	for st.Pending != nil {
		if now, moved := u.movedByHand(st.Pending); moved {
			return u.drop(st, "current was moved to "+now+" by hand")
		}
		var on bool // to the next step
		var err error
		switch st.Pending.Step {
		case stepStaged:
			on, err = u.takeOver(ctx, st)
		case stepSwapping:
			on, err = u.swap(st)
		case stepWatching:
			on, err = u.watch(ctx, st)
		case stepReverting:
			on, err = u.revert(ctx, st)
		default:
			err = fmt.Errorf("the state names an unknown step %q", st.Pending.Step)
		}
		if err != nil || !on {
			return err
		}
	}
	return nil
}

// movedByHand is true when current names what this update did not make it name: whoever ran the install line
// meanwhile is right.
func (u *Updater) movedByHand(p *pending) (now string, moved bool) {
	now = u.folder.target(linkCurrent)
	switch p.Step {
	case stepStaged:
		return now, now != p.From
	case stepSwapping, stepWatching:
		return now, now != p.From && now != p.Version
	}
	return now, false
}

// takeOver waits for a busy machine, as long as this pass may, and for a service that is just being started:
// it may be one to be judged. Then it writes down which services are up: they are judged.
func (u *Updater) takeOver(ctx context.Context, st *state) (bool, error) {
	p := st.Pending
	if !u.folder.complete(p.Version, u.Program, st.Installed, true) {
		return true, u.drop(st, "its folder is not complete any more")
	}
	limit := u.BusyLimit
	if p.Security {
		limit = u.Urgent
	}
	drainAt := p.Since.Add(limit - limit/drainShare)
	until := u.clock.Now().Add(u.Patience)
	if p.Security { // there is no time to wait for another pass
		until = drainAt
	}
	for {
		b, err := u.before(ctx)
		if err != nil {
			return false, err
		}
		now := u.clock.Now()
		why := ""
		switch {
		case p.ByHand || !now.Before(drainAt):
		case b.busy != "":
			why = fmt.Sprintf("%s has work in hand; it takes over when that is done, at the latest %s", b.busy, p.Since.Add(limit).UTC().Format(time.DateTime))
		case len(b.failing) > 0 && now.Before(p.Since.Add(startWithin)):
			why = fmt.Sprintf("%s is being started; it takes over when that is done, at the latest %s", b.failing[0], p.Since.Add(startWithin).UTC().Format(time.DateTime))
		}
		if why == "" {
			if goOn, err := u.recheck(ctx, st); !goOn || err != nil {
				return st.Pending == nil, err
			}
			p.Subjects, p.Failing = b.up, b.failing
			p.Step = stepSwapping
			u.reached("before-swap")
			return true, u.folder.save(st)
		}
		if err := u.say(Waiting, p.Version, why); err != nil {
			return false, err
		}
		if !now.Before(until) {
			return false, nil
		}
		if err := retry.Sleep(ctx, u.clock, u.LookEvery); err != nil {
			return false, err
		}
	}
}

// before is how the services are before a swap.
type before struct {
	up      []subjectState
	failing []string // being started, and not up
	busy    string   // one that has work in hand
}

func (u *Updater) before(ctx context.Context) (b before, err error) {
	all, err := u.Services.Subjects(ctx)
	if err != nil {
		return b, fmt.Errorf("list the services: %w", err)
	}
	for _, s := range all {
		h, err := u.health(ctx, s)
		if err != nil || !h.Up {
			if h.Wanted {
				b.failing = append(b.failing, s.Name())
			}
			continue
		}
		b.up = append(b.up, subjectState{Name: s.Name(), Children: h.Children})
		if h.Busy && b.busy == "" {
			b.busy = s.Name()
		}
	}
	return b, nil
}

func (u *Updater) health(ctx context.Context, s Subject) (Health, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	return s.Health(ctx)
}

// swap makes current name the new version.
func (u *Updater) swap(st *state) (bool, error) {
	p := st.Pending
	if !u.folder.complete(p.Version, u.Program, st.Installed, true) {
		return true, u.condemn(st, "its folder is not complete any more")
	}
	// A version that was staged from here has the newest of what is beside it; an older one has not.
	older := build.Compare(p.Version, p.From) < 0
	if err := u.folder.moveAlong(p.From, p.Version, u.Program, older); err != nil {
		return false, err
	}
	if err := u.folder.point(linkCurrent, p.Version); err != nil {
		return false, err
	}
	u.reached("swapped")
	p.Step = stepWatching
	if p.Swapped.IsZero() {
		p.Swapped = u.clock.Now()
	}
	if err := u.folder.save(st); err != nil {
		return false, err
	}
	u.reached("watching")
	return true, u.say(Watching, p.Version, "")
}

// drop forgets an update without a verdict.
func (u *Updater) drop(st *state, why string) error {
	if err := u.say(Current, u.folder.target(linkCurrent), fmt.Sprintf("%s: %s", st.Pending.Version, why)); err != nil {
		return err
	}
	st.Pending = nil
	return u.folder.save(st)
}

// condemn decides against the new version: from here on it is never taken again by itself.
func (u *Updater) condemn(st *state, why string) error {
	p := st.Pending
	st.quarantine(p.Version, why)
	p.Step, p.Why = stepReverting, why
	if err := u.folder.save(st); err != nil {
		return err
	}
	u.reached("condemned")
	return nil
}

// revert brings the last good version back, and the services to it.
func (u *Updater) revert(ctx context.Context, st *state) (bool, error) {
	p := st.Pending
	back := p.goesBackTo()
	if !u.folder.complete(back, u.Program, st.Installed, true) {
		rest, err := u.folder.versions(u.Program)
		if err != nil {
			return false, err
		}
		for _, v := range append([]string{u.folder.target(linkUpdater), u.folder.target(linkPrevious)}, rest...) {
			if v != p.Version && st.Quarantined[v] == "" && u.folder.complete(v, u.Program, st.Installed, true) {
				back = v
				break
			}
		}
	}
	if !u.folder.complete(back, u.Program, st.Installed, true) {
		// A program that runs badly is better than none.
		if err := u.say(Stopped, p.Version, p.Why+"; there is no other complete version to go back to"); err != nil {
			return false, err
		}
		st.Pending = nil
		return false, u.folder.save(st)
	}
	if err := u.folder.moveAlong(p.Version, back, u.Program, true); err != nil { // no reason not to go back
		u.log.WarnContext(ctx, "what stands beside the program did not move along", "error", err)
	}
	if err := u.folder.point(linkCurrent, back); err != nil {
		return false, err
	}
	u.reached("swapped-back")
	if err := u.bringBack(ctx, p, back); err != nil {
		return false, err
	}
	u.reached("brought-back")
	if err := u.say(Reverted, p.Version, p.Why); err != nil {
		return false, err
	}
	u.reached("said")
	st.Pending = nil
	if st.Trial != nil && st.Trial.Version != back {
		st.Trial = nil
	}
	if err := u.folder.save(st); err != nil {
		return false, err
	}
	u.reached("reverted")
	if err := u.folder.prune(u.Program, st); err != nil {
		return false, err
	}
	return true, u.folder.save(st)
}

// bringBack restarts the services that do not run the good version.
func (u *Updater) bringBack(ctx context.Context, p *pending, version string) error {
	all, err := u.Services.Subjects(ctx)
	if err != nil {
		return fmt.Errorf("list the services: %w", err)
	}
	for _, s := range all {
		if !slices.ContainsFunc(p.Subjects, func(w subjectState) bool { return w.Name == s.Name() }) {
			continue
		}
		if h, err := u.health(ctx, s); err == nil && h.Up && h.Version == version {
			continue
		}
		if err := u.restart(ctx, s, restartAtOnce); err != nil {
			u.log.WarnContext(ctx, "a service was not told to go back; its service manager starts the good version", "service", s.Name(), "error", err)
		}
	}
	return ctx.Err()
}

// restart bounds a service that waits for its work itself.
func (u *Updater) restart(ctx context.Context, s Subject, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within+askWithin)
	defer cancel()
	return s.Restart(ctx, within)
}
