package updater

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// trial is a version that is current and has not proved itself whole: no service ran that could show that it
// works, or its own program does not run a pass of the updater. Until it has, the program of the last proven
// version goes on as the updater, and is what is gone back to.
type trial struct {
	Version string   `json:"version"`
	Works   bool     `json:"works,omitempty"`   // its services are well; its updater is not
	Failing []string `json:"failing,omitempty"` // services that are started in vain since before it took over: no proof against it
	Why     string   `json:"why"`
}

// proven is the last version whose services were well, seen from the one that is current.
func (u *Updater) proven(st *state) string {
	now := u.folder.target(linkCurrent)
	if t := st.Trial; t != nil && t.Version == now && !t.Works {
		return cmp.Or(u.folder.target(linkUpdater), now)
	}
	return now
}

// goesBackTo is the version that a failed update goes back to.
func (p *pending) goesBackTo() string { return cmp.Or(p.Proven, p.From) }

// unproven ends an update without a proof: nothing ran that could give one.
func (u *Updater) unproven(st *state, why string) error {
	return u.keep(st, &trial{Version: st.Pending.Version, Failing: st.Pending.Failing, Why: why}, "")
}

// settle ends an update well. Before the new version's program may run the updater it shows that it can: a
// machine whose agent works and whose updater does not would never be mended from afar.
func (u *Updater) settle(ctx context.Context, st *state, note string) error {
	p := st.Pending
	if why := u.prove(ctx, p.Version); why != "" {
		return u.keep(st, &trial{Version: p.Version, Works: true, Why: why}, note)
	}
	return u.keep(st, nil, note)
}

// prove has a program run a pass of the updater on a copy of the trust state, and says what it failed at.
func (u *Updater) prove(ctx context.Context, version string) string {
	if u.Prove == nil || version == u.folder.target(linkUpdater) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, proveWithin)
	defer cancel()
	if err := u.Prove(ctx, u.folder.program(version, u.Program)); err != nil {
		return fmt.Sprintf("its own updater does not work yet: %s", message(err))
	}
	return ""
}

// keep makes a version that took over the one that stays; with a trial, the updater's own program does not
// follow yet. The links move first: they are moved again when a kill comes between.
func (u *Updater) keep(st *state, t *trial, note string) error {
	p := st.Pending
	back := p.goesBackTo()
	if back != p.Version && st.Quarantined[back] == "" {
		if err := u.folder.point(linkPrevious, back); err != nil {
			return err
		}
	} else if u.folder.target(linkPrevious) == p.Version { // rolled back to: there is none before it
		if err := u.folder.unlink(linkPrevious); err != nil {
			return err
		}
	}
	u.reached("previous")
	if t == nil {
		if err := u.folder.point(linkUpdater, p.Version); err != nil {
			return err
		}
	}
	u.reached("updater")
	st.Trial = t
	if err := u.say(Current, p.Version, st.remark(note)); err != nil {
		return err
	}
	u.reached("said")
	st.Pending = nil
	if err := u.folder.save(st); err != nil {
		return err
	}
	u.reached("settled")
	if err := u.folder.prune(u.Program, st); err != nil {
		return err
	}
	return u.folder.save(st)
}

// remark adds to a note what the current version has not shown yet.
func (st *state) remark(note string) string {
	if st.Trial == nil {
		return note
	}
	if note != "" {
		note += "; "
	}
	return note + st.Trial.Why
}

// judgeTrial looks whether the version on trial can be judged now. A service that was started since begins a
// verdict like any other; what is left to show is tried again.
func (u *Updater) judgeTrial(ctx context.Context, st *state) error {
	t := st.Trial
	now := u.folder.target(linkCurrent)
	if now != t.Version { // mended, or moved by hand
		st.Trial = nil
		return u.folder.save(st)
	}
	if t.Works {
		if t.Why = u.prove(ctx, now); t.Why == "" {
			if err := u.folder.point(linkUpdater, now); err != nil {
				return err
			}
			st.Trial = nil
		}
		return u.folder.save(st)
	}
	was := u.proven(st)
	if was == now { // the updater's link was mended: there is no other version left
		st.Trial = nil
		return u.folder.save(st)
	}
	started, err := u.started(ctx, t.Failing)
	if err != nil || len(started) == 0 {
		return err
	}
	at := u.clock.Now()
	for i := range started {
		started[i].Asked, started[i].Within = at, "0s" // somebody started it: it is not restarted
	}
	st.Pending = &pending{Version: now, From: was, Step: stepWatching, Since: at, Swapped: at, Subjects: started, Failing: t.Failing}
	if err := u.folder.save(st); err != nil {
		return err
	}
	return nil
}

// started are the services that can speak for the current version or against it: those that are up, and
// those that somebody has started since it took over.
func (u *Updater) started(ctx context.Context, failing []string) (out []subjectState, err error) {
	all, err := u.Services.Subjects(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the services: %w", err)
	}
	for _, s := range all {
		h, err := u.health(ctx, s)
		if err == nil && h.Up || h.Wanted && !slices.Contains(failing, s.Name()) {
			out = append(out, subjectState{Name: s.Name()})
		}
	}
	return out, nil
}
