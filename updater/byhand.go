package updater

import (
	"context"
	"errors"
	"fmt"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// NowOptions say what Now brings in.
type NowOptions struct {
	Version string  // "" is the newest; a lower one is allowed, and keeps the higher ones out
	Force   bool    // take a version that failed here before
	Channel *string // stable, canary or "" for the lot: kept from now on; nil leaves it
}

// Now brings in a release at once: no waiting for a busy machine beyond the work in hand.
func (u *Updater) Now(ctx context.Context, opts NowOptions) (News, error) {
	return u.locked(ctx, func(st *state) error {
		if opts.Channel != nil {
			if c := *opts.Channel; c != "" && c != build.Stable && c != build.Canary {
				return fault.New(fault.Invalid, "channel is %q; it is %s or %s", c, build.Stable, build.Canary).WithField("channel")
			}
			st.Channel = *opts.Channel
			if err := u.folder.save(st); err != nil {
				return err
			}
		}
		if p := st.Pending; p != nil {
			if opts.Version != "" && opts.Version != p.Version {
				return fault.New(fault.Conflict, "the update to %s is under way", p.Version).WithHint("let it end first: interlock agent update --now")
			}
			p.ByHand = true
		}
		if done, err := u.underWay(ctx, st); done || err != nil || st.Pending != nil && st.Pending.Step != stepStaged {
			return err
		}
		o, err := u.fetch(ctx, st)
		switch {
		case err == nil:
			if err := u.reconsider(ctx, st, o, opts.Version == ""); err != nil {
				return err
			}
			if st.Pending != nil {
				return u.advanceStaged(ctx, st)
			}
		case ctx.Err() == nil && st.Pending != nil && away(err):
			return u.advanceStaged(ctx, st)
		default:
			return errors.Join(err, u.stopped(ctx, st, err))
		}
		o.rate = nil
		if err := u.refreshBeside(ctx, st, o); err != nil {
			return err
		}
		if why, bad := st.Quarantined[opts.Version]; bad {
			if !opts.Force {
				return fault.New(fault.Conflict, "version %s is kept out of this machine: %s", opts.Version, why).WithHint("--force takes it all the same")
			}
			delete(st.Quarantined, opts.Version)
		}
		t, found, err := u.pick(st, o, opts.Version)
		if err != nil || !found {
			return err
		}
		if t.Version == u.folder.target(linkCurrent) {
			return u.reinstall(ctx, st, o, t)
		}
		u.keepOut(st, o, t)
		if err := u.bring(ctx, st, o, t, true); err != nil {
			return errors.Join(err, u.stopped(ctx, st, err))
		}
		return u.advance(ctx, st)
	})
}

// reinstall brings back the signed bytes of the version that is current. There is nothing to judge.
func (u *Updater) reinstall(ctx context.Context, st *state, o *offer, t build.Target) error {
	if err := u.stage(ctx, st, o, t); err != nil {
		return err
	}
	all, err := u.Services.Subjects(ctx)
	if err != nil {
		return fmt.Errorf("list the services: %w", err)
	}
	for _, s := range all {
		if h, err := u.health(ctx, s); err != nil || !h.Up {
			continue
		}
		if err := u.restart(ctx, s, u.BusyLimit); err != nil {
			return fmt.Errorf("restart %s: %w", s.Name(), err)
		}
	}
	return u.say(Current, t.Version, "")
}

// keepOut quarantines what is higher than a version that was chosen by hand: else the next pass of the
// timer would undo the choice.
func (u *Updater) keepOut(st *state, o *offer, chosen build.Target) {
	if build.Compare(chosen.Version, u.folder.target(linkCurrent)) >= 0 {
		return
	}
	for _, t := range o.best.targets() {
		if t.Program == u.Program && build.Compare(t.Version, chosen.Version) > 0 {
			st.quarantine(t.Version, "left by hand for "+chosen.Version)
		}
	}
}

// Rollback goes back to the previous version by hand. The version that it leaves is not taken again by
// itself.
func (u *Updater) Rollback(ctx context.Context) (News, error) {
	return u.locked(ctx, func(st *state) error {
		now, back := u.folder.target(linkCurrent), u.folder.target(linkPrevious)
		if p := st.Pending; p != nil {
			switch p.Step {
			case stepStaged:
				return u.drop(st, "called off by hand")
			case stepReverting:
			default:
				if err := u.condemn(st, "rolled back by hand"); err != nil {
					return err
				}
			}
			return u.advance(ctx, st)
		}
		if back == "" || back == now || !u.folder.complete(back, u.Program, st.Installed, true) {
			return fault.New(fault.NotFound, "there is no previous version to go back to").
				WithHint("`interlock agent update --now --version <version>` brings in one that is still offered")
		}
		st.quarantine(now, "rolled back by hand to "+back)
		delete(st.Quarantined, back)
		st.Pending = &pending{Version: back, From: now, Step: stepStaged, ByHand: true, Rollback: true, Since: u.clock.Now()}
		if err := u.folder.save(st); err != nil {
			return err
		}
		return u.advance(ctx, st)
	})
}
