package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/atomicfile"
)

// wishSchema is the version of owner.json. Files from before schedules have none, and a mode of the fleet.
const wishSchema = 2

// ownerFile is owner.json: what the machine's owner wants of this role. It is kept over restarts, updates
// and re-enrollment, and wins over the control plane in the stricter direction.
type ownerFile struct {
	Schema int `json:"schema"`
	localapi.Wish
}

func ownerPath(dir string) string { return filepath.Join(dir, "owner.json") }

// asidePath is where a file that could not be read is kept when new hours take its place.
func asidePath(dir string) string { return ownerPath(dir) + ".damaged" }

// loadWish reads what the owner wants. What cannot be read is taken for a pause, the cautious reading;
// the problem says why.
func loadWish(dir string) (w localapi.Wish, problem string) {
	b, err := os.ReadFile(ownerPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		if _, aside := os.Lstat(asidePath(dir)); aside != nil {
			return localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}}, ""
		}
		err = errors.New("it was set aside as owner.json.damaged, and none were set since")
	}
	if err == nil {
		w, err = parseWish(b)
	}
	if err != nil {
		return localapi.Wish{Availability: schedule.Availability{Mode: schedule.Paused}}, "the hours in owner.json cannot be read: " + said(err) + "; set them again"
	}
	return w, ""
}

// saveWish keeps what the owner wants. With aside, what could not be read is kept beside it; a machine that
// loses power in between finds that, and stays paused.
func saveWish(dir string, w localapi.Wish, aside bool) error {
	b, err := json.Marshal(ownerFile{wishSchema, w})
	if err != nil {
		return err
	}
	if aside {
		if err := os.Rename(ownerPath(dir), asidePath(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the damaged hours aside: %w", err)
		}
	}
	return atomicfile.Write(ownerPath(dir), append(b, '\n'), 0o600)
}

func parseWish(b []byte) (localapi.Wish, error) {
	var f ownerFile
	if err := json.Unmarshal(b, &f); err != nil {
		return f.Wish, err
	}
	switch f.Schema {
	case 0:
		return oldWish(fleet.Mode(f.Mode))
	case wishSchema:
		f.Mode = cmp.Or(f.Mode, schedule.Always)
		return f.Wish, f.Check()
	}
	return f.Wish, fmt.Errorf("schema %d is of another version, this one reads %d", f.Schema, wishSchema)
}

// oldWish is what the file said before there were hours.
func oldWish(mode fleet.Mode) (localapi.Wish, error) {
	w := localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}}
	switch mode {
	case fleet.Active:
	case fleet.Paused:
		w.Hold = &schedule.Hold{}
	case fleet.Draining:
		w.Hold = &schedule.Hold{Drain: true}
	default:
		return w, fmt.Errorf("mode %q is unknown", mode)
	}
	return w, nil
}

// SetOwner pauses, drains or resumes in the owner's name. Resuming lifts what was paused by hand: of the mode
// paused, it brings back the mode from before. Hours and other ceilings stay.
func (a *Agent) SetOwner(mode fleet.Mode) error {
	switch mode {
	case fleet.Paused:
		return a.byHand(&schedule.Hold{})
	case fleet.Draining:
		return a.byHand(&schedule.Hold{Drain: true})
	case fleet.Active:
		return a.wishes(func(w *localapi.Wish, damaged string) error {
			if damaged != "" {
				return fault.New(fault.Conflict, "%s", damaged).WithHint(setHoursHint)
			}
			w.Hold = nil
			return takeUp(w)
		})
	}
	return fault.New(fault.Invalid, "mode %q is none of active, paused, draining", mode).WithField("mode")
}

const setHoursHint = "interlock agent hours always, or night, or window; a file that cannot be read is kept as owner.json.damaged"

// takeUp ends the mode paused. Hours that nobody knows any more are not made up: that would be to work when the
// owner may not want it.
func takeUp(w *localapi.Wish) error {
	if w.Mode != schedule.Paused {
		return nil
	}
	was := w.Availability
	was.Mode = w.Before
	if was.Mode == "" || was.Mode == schedule.Paused || was.Check() != nil {
		return fault.New(fault.Conflict, "the machine is set to paused, and the hours from before are not known").WithHint(setHoursHint)
	}
	w.Availability, w.Before = was, ""
	return nil
}

// Pause pauses beside the hours, for d; until it is resumed when d is 0.
func (a *Agent) Pause(d time.Duration) error {
	if d <= 0 {
		return a.SetOwner(fleet.Paused)
	}
	until := a.clock.Now().Add(d).UTC().Round(0).Truncate(time.Second)
	return a.byHand(&schedule.Hold{Until: &until})
}

// byHand puts a hold beside the hours.
func (a *Agent) byHand(h *schedule.Hold) error {
	return a.wishes(func(w *localapi.Wish, _ string) error {
		w.Hold = h
		return nil
	})
}

// SetAvailability sets the owner's hours and other ceilings. A pause by hand stays beside them, until its
// time or until it is resumed.
func (a *Agent) SetAvailability(ctx context.Context, want schedule.Availability) error {
	if err := want.Check(); err != nil {
		return err
	}
	want.Mode = cmp.Or(want.Mode, schedule.Always)
	facts := a.measured(ctx, want) // before it counts: what was not asked yet is not unknown
	return a.setHours(func(w *localapi.Wish, _ string) error {
		switch {
		case want.Mode != schedule.Paused:
			w.Before = ""
		case w.Mode != schedule.Paused:
			w.Before = w.Mode
		}
		w.Availability = want
		a.mu.Lock()
		a.ceiling.facts = facts
		a.mu.Unlock()
		return nil
	})
}

// wishChange changes a wish; damaged is why the wish could not be read.
type wishChange func(w *localapi.Wish, damaged string) error

// wishes changes what the owner wants beside the hours, durably, and heeds it. Where the hours could not be
// read, the machine stays paused and the file as it is: only new hours take its place.
func (a *Agent) wishes(change wishChange) error { return a.change(change, false) }

// setHours changes the hours, likewise. A file that could not be read is set aside.
func (a *Agent) setHours(change wishChange) error { return a.change(change, true) }

func (a *Agent) change(change wishChange, hours bool) error {
	a.owning.Lock() // of two wishes at once, the one that is kept on disk is the one that holds
	defer a.owning.Unlock()
	a.mu.Lock()
	w, damaged := a.ceiling.wish, a.ceiling.damaged
	a.mu.Unlock()
	if !w.Hold.Active(a.clock.Now()) {
		w.Hold = nil
	}
	if err := change(&w, damaged); err != nil {
		return err
	}
	if hours || damaged == "" {
		if err := saveWish(a.Enrollment.Dir(), w, damaged != ""); err != nil {
			return err
		}
		damaged = ""
	}
	a.mu.Lock()
	a.ceiling.wish, a.ceiling.damaged = w, damaged
	a.mu.Unlock()
	a.judge()
	signal(a.ceiling.again)
	a.poke()
	return nil
}
