package updater

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
)

// verdict is what one look at a service says.
type verdict int

const (
	unclear verdict = iota // not well yet, and there is time
	well
	bad
	open // past the deadline, and only the control plane could tell
	gone // it cannot be asked any more, and says nothing
)

// watch restarts the services and judges them. One that is bad reverts the update; all well for a while
// ends it; none that can be judged proves nothing; else the verdict stays open for the next pass.
func (u *Updater) watch(ctx context.Context, st *state) (bool, error) {
	p := st.Pending
	if u.folder.target(linkCurrent) != p.Version { // mended meanwhile
		return true, u.condemn(st, "its program was not complete any more")
	}
	if err := u.restartAll(ctx, st); err != nil {
		return false, err
	}
	p.resume(u.clock.Now())
	asleep := u.sleepWatch()
	var since time.Time // all well
	for {
		worst, why, err := u.look(ctx, st)
		if err != nil {
			return false, err
		}
		now := u.clock.Now()
		if jump, jumped := asleep.look(now); jumped { // nothing of that look counts
			u.log.InfoContext(ctx, "the clock jumped: the machine slept, or was set", "by", jump)
			p.slept(now, jump)
			since = time.Time{}
			if err := u.folder.save(st); err != nil {
				return false, err
			}
			continue
		}
		if worst != well {
			since = time.Time{}
		} else if since.IsZero() {
			since = now
		}
		switch {
		case worst == bad:
			return true, u.condemn(st, why)
		case worst == gone:
			return true, u.unproven(st, "no service ran that could show that it works, so "+orNothing(u.folder.target(linkUpdater))+" goes on as the updater")
		case worst == well && now.Sub(since) >= u.Steady:
			return true, u.settle(ctx, st, "")
		case worst == open:
			if p.stillOpen(now) >= u.OpenLimit {
				return true, u.settle(ctx, st, fmt.Sprintf("kept without a heartbeat: %s for %v", why, u.OpenLimit))
			}
			if err := u.folder.save(st); err != nil {
				return false, err
			}
			return false, u.say(Watching, p.Version, "the verdict is open: "+why)
		}
		if err := retry.Sleep(ctx, u.clock, u.LookEvery); err != nil {
			return false, err
		}
	}
}

// restartAll asks each service, once, to make way.
func (u *Updater) restartAll(ctx context.Context, st *state) error {
	p := st.Pending
	all, err := u.Services.Subjects(ctx)
	if err != nil {
		return fmt.Errorf("list the services: %w", err)
	}
	limit := u.BusyLimit
	if p.Security {
		limit = u.Urgent
	}
	for i := range p.Subjects {
		w := &p.Subjects[i]
		if !w.Asked.IsZero() {
			continue
		}
		within := max(p.Since.Add(limit).Sub(u.clock.Now()), restartAtOnce)
		w.Asked, w.Within = u.clock.Now(), within.String()
		if s := find(all, w.Name); s != nil {
			if h, err := u.health(ctx, s); err == nil {
				w.heard(h, p)
			}
			if err := u.restart(ctx, s, within); err != nil {
				u.log.WarnContext(ctx, "a service did not take the restart", "service", w.Name, "error", err)
				w.Within = "0s" // it will not finish anything first
			}
		}
		u.reached("restarted")
		if err := u.folder.save(st); err != nil {
			return err
		}
		u.reached("asked")
	}
	return nil
}

func find(all []Subject, name string) Subject {
	for _, s := range all {
		if s.Name() == name {
			return s
		}
	}
	return nil
}

// look judges all services once. The worst counts, with its reason; gone is when there is none to judge.
func (u *Updater) look(ctx context.Context, st *state) (verdict, string, error) {
	p := st.Pending
	all, err := u.Services.Subjects(ctx)
	if err != nil {
		return unclear, "", fmt.Errorf("list the services: %w", err)
	}
	worst, why, changed := gone, "", false
	for i := range p.Subjects {
		w := &p.Subjects[i]
		was := *w
		v, reason := u.judge(ctx, p, w, find(all, w.Name))
		changed = changed || !was.Left.Equal(w.Left) || !was.Reached.Equal(w.Reached)
		if worse(v, worst) {
			worst, why = v, w.Name+" "+reason
		}
	}
	if changed {
		return worst, why, u.folder.save(st)
	}
	return worst, why, nil
}

// worse orders verdicts: bad, unclear, open, well, gone.
func worse(a, b verdict) bool {
	rank := []int{gone: 0, well: 1, open: 2, unclear: 3, bad: 4}
	return rank[a] > rank[b]
}

// judge looks at one service. Its time starts when it is first seen not to run the old version: until then
// it finishes its work.
func (u *Updater) judge(ctx context.Context, p *pending, w *subjectState, s Subject) (verdict, string) {
	now := u.clock.Now()
	if s == nil {
		return gone, "" // its enrollment was removed meanwhile
	}
	h, err := u.health(ctx, s)
	if err == nil {
		w.heard(h, p)
	}
	within, _ := time.ParseDuration(w.Within) // ours; 0 when a hand changed it
	finishing := err == nil && h.Up && h.Version == p.From && p.From != p.Version
	if w.Left.IsZero() && (!finishing || now.Sub(w.Asked) >= within) {
		w.Left = now
	}
	if w.Left.IsZero() {
		return unclear, "finishes its work"
	}
	late := now.Sub(w.Left) >= u.Deadline
	fail := func(format string, args ...any) (verdict, string) {
		if !late {
			return unclear, fmt.Sprintf(format, args...)
		}
		return bad, fmt.Sprintf(format, args...) + fmt.Sprintf(", %v after its restart", u.Deadline)
	}
	switch {
	case err != nil:
		return fail("does not answer: %s", message(err))
	case !h.Up:
		return fail("is not up%s", because(h.Why))
	case h.Version != p.Version:
		return fail("runs version %s", orNothing(h.Version))
	}
	if gone := both(w.Children, h.Lost); len(gone) > 0 {
		return fail("does not serve %s any more%s", strings.Join(gone, ", "), because(h.Why))
	}
	if !h.Heartbeat.IsZero() && !h.Heartbeat.Equal(w.Heard) {
		return well, ""
	}
	if !late {
		return unclear, "sent no heartbeat yet"
	}
	return u.silent(ctx, w, s, h)
}

// silent decides about a service that is well but for its heartbeat: only when the control plane can be
// reached from here does that speak against it.
func (u *Updater) silent(ctx context.Context, w *subjectState, s Subject, h Health) (verdict, string) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if err := s.Reach(ctx); err != nil {
		w.Reached = time.Time{}
		return open, fmt.Sprintf("sent no heartbeat, and its control plane cannot be reached from this machine: %s", message(err))
	}
	now := u.clock.Now()
	if w.Reached.IsZero() {
		w.Reached = now
	}
	if now.Sub(w.Reached) < u.ReachGrace {
		return unclear, "sent no heartbeat yet"
	}
	return bad, fmt.Sprintf("sent no heartbeat%s, while its control plane answers this machine", because(h.Why))
}

// message leaves out what a coded error hints at: it is for whoever asked, and nobody did.
func message(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return err.Error()
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return " (" + why + ")"
}

// both are the children that were there before and are lost now. One that is not meant to be there any
// more, because somebody paused it or took it away meanwhile, is not lost.
func both(before, lost []string) []string {
	return slices.DeleteFunc(slices.Clone(lost), func(c string) bool { return !slices.Contains(before, c) })
}
