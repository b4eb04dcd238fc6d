package updater

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// An update under way may wait for hours: for a busy machine, or for a verdict. What is released meanwhile is
// held against it at each pass, so that it is neither brought in after it was withdrawn nor keeps a security
// release out.

// reconsider holds a staged version against the newest set: one that was withdrawn, or that is overtaken by a
// security release, is dropped, and one that became urgent hurries. With newest, any newer version overtakes.
func (u *Updater) reconsider(ctx context.Context, st *state, o *offer, newest bool) error {
	p := st.Pending
	if p == nil || p.Step != stepStaged || p.Rollback {
		return nil
	}
	switch t, offered := u.offered(o, p.Version); {
	case !offered:
		return u.drop(st, "it is not offered any more")
	case t.Yanked != "":
		return u.drop(st, "it was withdrawn: "+t.Yanked)
	}
	if next, security, ok := u.overtaking(st, o, p.Version); ok && (security || newest) {
		return u.drop(st, "it makes way for "+next.Version)
	}
	if p.Security || !u.urgent(o, p.From, p.Version) {
		return nil
	}
	u.log.InfoContext(ctx, "the staged version is a security release", "version", p.Version)
	end := u.clock.Now().Add(u.Urgent) // the work in hand gets the time of a security release, and no more than it had
	if had := p.Since.Add(u.BusyLimit); had.Before(end) {
		end = had
	}
	p.Security, p.Since = true, end.Add(-u.Urgent)
	return u.folder.save(st)
}

// reconsiderOpen does the same for a version whose verdict is open: one that was withdrawn is reverted, and
// one that is overtaken by a security release makes way unproven.
func (u *Updater) reconsiderOpen(ctx context.Context, st *state, o *offer) error {
	p := st.Pending
	if t, offered := u.offered(o, p.Version); offered && t.Yanked != "" {
		if err := u.condemn(st, "it was withdrawn: "+t.Yanked); err != nil {
			return err
		}
		return u.advance(ctx, st)
	}
	if _, security, ok := u.overtaking(st, o, p.Version); !ok || !security {
		return nil
	}
	st.Trial = &trial{Version: p.Version, Failing: p.Failing, Why: "its verdict was open when a security release came"}
	st.Pending = nil
	return u.folder.save(st)
}

// recheck looks at the mirrors again before a version takes over that has waited. go on is false when it may
// not: it was dropped, or the releases are not valid any more. A control plane that is away stops nothing:
// what is staged was valid when it was.
func (u *Updater) recheck(ctx context.Context, st *state) (goOn bool, err error) {
	if since := u.clock.Now().Sub(st.Tried); st.Pending.Rollback || since >= 0 && since < u.MinEvery {
		return true, nil
	}
	o, err := u.fetch(ctx, st)
	if err != nil {
		if ctx.Err() == nil && away(err) {
			return true, nil
		}
		return false, u.stopped(ctx, st, err)
	}
	err = u.reconsider(ctx, st, o, false)
	return err == nil && st.Pending != nil, err
}

// away is true for an error that only says that no control plane could be asked.
func away(err error) bool {
	return errors.Is(err, fault.Unavailable) || errors.Is(err, fault.CaptivePortal)
}

// offered is the target of a version for this machine.
func (u *Updater) offered(o *offer, version string) (build.Target, bool) {
	all := o.best.targets()
	i := slices.IndexFunc(all, func(t build.Target) bool { return u.fits(t) && t.Version == version })
	if i < 0 {
		return build.Target{}, false
	}
	return all[i], true
}

func (u *Updater) fits(t build.Target) bool {
	return t.Program == u.Program && t.OS == u.OS && t.Arch == u.Arch
}

// overtaking is the version that this machine would go to after one that is not proven yet, and whether what
// lies between the two is urgent.
func (u *Updater) overtaking(st *state, o *offer, version string) (next build.Target, security, ok bool) {
	next, _, ok = build.Pick(o.best.targets(), u.wants(st))
	if !ok || build.Compare(next.Version, version) <= 0 {
		return next, false, false
	}
	return next, u.urgent(o, version, next.Version), true
}

// urgent is true when a security release lies on the way from one version to another, the end included.
func (u *Updater) urgent(o *offer, from, to string) bool {
	return slices.ContainsFunc(o.best.targets(), func(t build.Target) bool {
		return u.fits(t) && t.Security && t.Yanked == "" && build.Compare(t.Version, from) > 0 && build.Compare(t.Version, to) <= 0
	})
}

// wants is what this machine asks for.
func (u *Updater) wants(st *state) build.Want {
	return build.Want{
		Program: u.Program, OS: u.OS, Arch: u.Arch, Current: u.folder.target(linkCurrent), Channel: st.Channel, Machine: u.Machine,
		Quarantined: st.Quarantined,
	}
}

// underWay goes on with what an earlier pass began. done is true when that is all there is to do in this pass.
func (u *Updater) underWay(ctx context.Context, st *state) (done bool, err error) {
	if st.Pending == nil && st.Trial != nil {
		if err := u.judgeTrial(ctx, st); err != nil {
			return true, fmt.Errorf("judge the version on trial: %w", err)
		}
	}
	if p := st.Pending; p == nil || p.Step == stepStaged && !p.Rollback {
		return false, nil
	}
	err = u.advance(ctx, st)
	return err != nil || st.Pending == nil, err
}
