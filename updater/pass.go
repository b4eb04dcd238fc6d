package updater

import (
	"context"
	"errors"
	"fmt"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// Run is one pass of the timer: mend what a crash left, go on with the update under way, else look for a
// newer release and bring it in. What keeps it from updating is in the report; the error is for a folder
// that cannot be worked in.
func (u *Updater) Run(ctx context.Context) (News, error) {
	return u.locked(ctx, func(st *state) error {
		if done, err := u.underWay(ctx, st); done || err != nil {
			return err
		}
		if since := u.clock.Now().Sub(st.Tried); since >= 0 && since < u.MinEvery {
			u.log.InfoContext(ctx, "the mirrors were asked a short time ago", "ago", since.Round(time.Second))
			return u.advanceStaged(ctx, st)
		}
		o, err := u.fetch(ctx, st)
		switch {
		case err == nil:
		case ctx.Err() == nil && st.Pending != nil && (away(err) || st.Pending.Step != stepStaged):
			return u.advanceStaged(ctx, st)
		default:
			return u.stopped(ctx, st, err)
		}
		if st.Pending != nil && st.Pending.Step == stepWatching {
			err = u.reconsiderOpen(ctx, st, o)
		} else {
			err = u.reconsider(ctx, st, o, false)
		}
		if err != nil {
			return err
		}
		if st.Pending != nil {
			return u.advanceStaged(ctx, st)
		}
		t, found, err := u.pick(st, o, "")
		if err != nil {
			return err
		}
		if err := u.refreshBeside(ctx, st, o); err != nil {
			return err
		}
		if !found {
			return nil
		}
		if err := u.bring(ctx, st, o, t, false); err != nil {
			return u.stopped(ctx, st, err)
		}
		return u.advance(ctx, st)
	})
}

// advanceStaged goes on with a version that is staged; one whose verdict is open waits for the next pass.
func (u *Updater) advanceStaged(ctx context.Context, st *state) error {
	if st.Pending == nil || st.Pending.Step != stepStaged {
		return nil
	}
	return u.advance(ctx, st)
}

// Check looks for a newer release and changes no program.
func (u *Updater) Check(ctx context.Context) (News, error) {
	newest := ""
	n, err := u.locked(ctx, func(st *state) error {
		o, err := u.fetch(ctx, st)
		if err != nil {
			return errors.Join(err, u.stopped(ctx, st, err))
		}
		if err := u.reconsider(ctx, st, o, false); err != nil {
			return err
		}
		if st.Pending != nil {
			newest = st.Pending.Version
			if next, _, ok := u.overtaking(st, o, newest); ok {
				newest = next.Version
			}
			return nil
		}
		t, found, err := u.pick(st, o, "")
		if found {
			newest = t.Version
		}
		return err
	})
	n.Newest = newest
	return n, err
}

// pick chooses what this machine should run next, and reports when that is what it has.
func (u *Updater) pick(st *state, o *offer, version string) (build.Target, bool, error) {
	now, want := u.folder.target(linkCurrent), u.wants(st)
	want.Version = version
	t, why, ok := build.Pick(o.best.targets(), want)
	switch {
	case ok && t.Version != now:
		return t, true, u.say(Available, t.Version, why)
	case version != "" && !ok:
		return t, false, fault.New(fault.NotFound, "version %s is not for this machine: %s", version, why)
	case version != "": // asked for what it has: the bytes may be wrong
		return t, !u.intact(o, t), nil
	}
	// A version that failed here is news until a newer one works.
	if r := LastReport(string(u.folder)); r != nil && r.State == Reverted && st.Quarantined[r.Version] != "" {
		return t, false, nil
	}
	return t, false, u.say(Current, now, st.remark(why))
}

// intact is true when the program on disk is what was signed.
func (u *Updater) intact(o *offer, t build.Target) bool {
	file, err := o.best.file(t.Path())
	if err != nil {
		return false
	}
	have, err := digest(u.folder.program(t.Version, u.Program))
	return err == nil && have.Length == file.Length && have.SHA256 == file.Hashes["sha256"].String()
}

// bring stages a target and writes down that it is to take over.
func (u *Updater) bring(ctx context.Context, st *state, o *offer, t build.Target, byHand bool) error {
	if err := u.stage(ctx, st, o, t); err != nil {
		return err
	}
	now := u.folder.target(linkCurrent)
	if err := u.try(ctx, u.folder.program(t.Version, u.Program)); err != nil {
		if ctx.Err() != nil {
			return err
		}
		if !faulty(err) {
			return fmt.Errorf("version %s waits, since this machine could not try it: %w", t.Version, err)
		}
		st.quarantine(t.Version, err.Error())
		return errors.Join(u.folder.save(st), u.say(Reverted, t.Version, err.Error()+"; it never took over"))
	}
	st.Pending = &pending{Version: t.Version, From: now, Step: stepStaged, Security: t.Security || u.urgent(o, now, t.Version), ByHand: byHand, Since: u.clock.Now()}
	if was := u.proven(st); was != now {
		st.Pending.Proven = was
	}
	if err := u.folder.save(st); err != nil {
		return err
	}
	u.reached("staged")
	return u.say(Staged, t.Version, "")
}

func (st *state) quarantine(version, why string) {
	if st.Quarantined == nil {
		st.Quarantined = map[string]string{}
	}
	if len(why) > maxQuarantineText {
		why = why[:maxQuarantineText]
	}
	if _, ok := st.Quarantined[version]; !ok {
		st.Quarantined[version] = why
	}
}

// stopped reports why nothing is updated. A control plane that is away for less than a day is no news.
func (u *Updater) stopped(ctx context.Context, st *state, cause error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	code := fault.CodeOf(cause)
	if code == fault.CaptivePortal { // no control plane answered either
		code = fault.Unavailable
	}
	if errors.Is(cause, errUnoffered) && st.Reached.IsZero() {
		u.log.InfoContext(ctx, "nobody offers signed releases", "error", cause)
		return u.say(Unoffered, u.folder.target(linkCurrent), message(cause))
	}
	u.log.WarnContext(ctx, "no update", "error", cause)
	if code == fault.Unavailable && u.clock.Now().Sub(st.Reached) < 24*time.Hour {
		return nil
	}
	if r := LastReport(string(u.folder)); r != nil && r.State == Reverted && st.Quarantined[r.Version] != "" && code == fault.Unavailable {
		return nil
	}
	why := cause.Error()
	if code == fault.Unavailable && !st.Reached.IsZero() {
		why = fmt.Sprintf("no control plane answered since %s: %s", st.Reached.UTC().Format(time.DateTime), why)
	}
	return u.say(Stopped, u.folder.target(linkCurrent), why)
}
