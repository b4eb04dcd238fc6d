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

// loadWish reads what the owner wants. What cannot be read is taken for a pause, the cautious reading;
// the problem says why.
func loadWish(dir string) (w localapi.Wish, problem string) {
	b, err := os.ReadFile(ownerPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}}, ""
	}
	if err == nil {
		w, err = parseWish(b)
	}
	if err != nil {
		return localapi.Wish{Availability: schedule.Availability{Mode: schedule.Paused}}, "the hours in owner.json cannot be read: " + said(err) + "; set them again"
	}
	return w, ""
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

// SetOwner pauses, drains or resumes in the owner's name. Resuming lifts what was paused by hand, also
// the mode paused; hours stay.
func (a *Agent) SetOwner(mode fleet.Mode) error {
	var change func(w *localapi.Wish)
	switch mode {
	case fleet.Paused:
		change = func(w *localapi.Wish) { w.Hold = &schedule.Hold{} }
	case fleet.Draining:
		change = func(w *localapi.Wish) { w.Hold = &schedule.Hold{Drain: true} }
	case fleet.Active:
		change = func(w *localapi.Wish) {
			if w.Hold = nil; w.Mode == schedule.Paused {
				w.Mode = schedule.Always
			}
		}
	default:
		return fault.New(fault.Invalid, "mode %q is none of active, paused, draining", mode).WithField("mode")
	}
	return a.wishes(change)
}

// Pause pauses beside the hours, for d; until it is resumed when d is 0.
func (a *Agent) Pause(d time.Duration) error {
	if d <= 0 {
		return a.SetOwner(fleet.Paused)
	}
	until := a.clock.Now().Add(d).UTC().Round(0).Truncate(time.Second)
	return a.wishes(func(w *localapi.Wish) { w.Hold = &schedule.Hold{Until: &until} })
}

// SetAvailability sets the owner's hours and other ceilings. A pause by hand stays beside them, until its
// time or until it is resumed.
func (a *Agent) SetAvailability(ctx context.Context, want schedule.Availability) error {
	if err := want.Check(); err != nil {
		return err
	}
	want.Mode = cmp.Or(want.Mode, schedule.Always)
	facts := a.measured(ctx, want) // before it counts: what was not asked yet is not unknown
	return a.wishes(func(w *localapi.Wish) {
		w.Availability = want
		a.mu.Lock()
		a.ceiling.facts = facts
		a.mu.Unlock()
	})
}

// wishes changes what the owner wants, durably, and heeds it.
func (a *Agent) wishes(change func(w *localapi.Wish)) error {
	a.owning.Lock() // of two wishes at once, the one that is kept on disk is the one that holds
	defer a.owning.Unlock()
	a.mu.Lock()
	w := a.ceiling.wish
	a.mu.Unlock()
	if !w.Hold.Active(a.clock.Now()) {
		w.Hold = nil
	}
	change(&w)
	b, err := json.Marshal(ownerFile{wishSchema, w})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(ownerPath(a.Enrollment.Dir()), append(b, '\n'), 0o600); err != nil {
		return err
	}
	a.mu.Lock()
	a.ceiling.wish, a.ceiling.damaged = w, ""
	a.mu.Unlock()
	a.judge()
	signal(a.ceiling.again)
	a.poke()
	return nil
}
