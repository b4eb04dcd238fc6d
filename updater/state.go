package updater

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
)

// The states of a report, as fleet.UpdateReport has them.
const (
	Current   = "current"   // the newest that is for this machine
	Available = "available" // a newer one was found
	Waiting   = "waiting"   // it is downloaded, and the machine is busy
	Staged    = "staged"    // it is downloaded and takes over now
	Watching  = "watching"  // it runs, and the verdict is open
	Reverted  = "reverted"  // it failed, and the last good version runs again
	Stopped   = "stopped"   // updating has stopped; what is installed goes on
	Unoffered = "none"      // no control plane has ever offered signed releases here
)

const stateSchema = 1

// state is what the updater must not forget. It is written whole, durably, before a step is taken.
type state struct {
	Schema      int                  `json:"schema"`
	Channel     string               `json:"channel,omitempty"` // the owner's choice; "" goes by lot
	Floors      map[string]floor     `json:"floors,omitempty"`  // by role: the highest version of its metadata
	Quarantined map[string]string    `json:"quarantined,omitempty"`
	Unfit       map[string]string    `json:"unfit,omitempty"`     // by program beside: its version that does not start here
	Installed   map[string]installed `json:"installed,omitempty"` // by version: what was verified when it was staged
	Pending     *pending             `json:"pending,omitempty"`
	Trial       *trial               `json:"trial,omitempty"`
	Tried       time.Time            `json:"tried,omitzero"`   // newest look at the mirrors
	Reached     time.Time            `json:"reached,omitzero"` // newest look that found a valid set
	Mirrors     []MirrorNews         `json:"mirrors,omitempty"`
}

// floor is the highest version seen of one role's metadata. It holds while the same keys sign that role:
// when the root changes them, their old versions mean nothing, which is the way out of a stolen key that
// pushed the numbers up.
type floor struct {
	Version int64  `json:"version"`
	Keys    string `json:"keys"`
}

// installed is what one program's file was when it was verified.
type installed struct {
	SHA256 string `json:"sha256"`
	Length int64  `json:"length"`
}

// The steps of an update under way.
const (
	stepStaged    = "staged"    // the folder of the version is complete
	stepSwapping  = "swapping"  // current may name either version
	stepWatching  = "watching"  // current names the new version
	stepReverting = "reverting" // current may name either version; the new one is quarantined
)

// pending is the update under way.
type pending struct {
	Version  string         `json:"version"`
	From     string         `json:"from"`
	Proven   string         `json:"proven,omitempty"` // gone back to when the new one fails; "" is From
	Step     string         `json:"step"`
	Security bool           `json:"security,omitempty"`
	ByHand   bool           `json:"byHand,omitempty"`
	Rollback bool           `json:"rollback,omitempty"` // it is there since before: no mirror is asked about it
	Since    time.Time      `json:"since"`              // staged
	Swapped  time.Time      `json:"swapped,omitzero"`   // took over
	Open     time.Duration  `json:"open,omitempty"`     // for how long its verdict was open while the machine was on
	Opened   time.Time      `json:"opened,omitzero"`    // newest look that found it open
	Subjects []subjectState `json:"subjects,omitempty"`
	Failing  []string       `json:"failing,omitempty"` // services that were being started before the swap, in vain
	Why      string         `json:"why,omitempty"`     // of reverting
}

// subjectState is one service that was up before the swap.
type subjectState struct {
	Name     string    `json:"name"`
	Children []string  `json:"children,omitempty"` // what it served
	Asked    time.Time `json:"asked,omitzero"`     // to restart
	Within   string    `json:"within,omitempty"`   // how long it may finish its work
	Left     time.Time `json:"left,omitzero"`      // first seen not to run the old version
	Heard    time.Time `json:"heard,omitzero"`     // newest heartbeat of the version before
	Reached  time.Time `json:"reached,omitzero"`   // past the deadline, first time the control plane answered the updater
}

// MirrorNews is what became of asking one mirror.
type MirrorNews struct {
	Name string    `json:"name"`
	OK   bool      `json:"ok"`
	Why  string    `json:"why,omitempty"`
	At   time.Time `json:"at"`
}

// load reads the state. One that a crash or a bad disk damaged is set aside; what it knew comes back as far as
// other files tell. The note then says so.
func (f folder) load() (st state, note string, err error) {
	st = state{Schema: stateSchema}
	b, err := os.ReadFile(f.stateFile())
	if errors.Is(err, fs.ErrNotExist) {
		return f.remembered(), "", nil
	}
	if err != nil {
		return st, "", fmt.Errorf("read the updater's state: %w", err)
	}
	if err := json.Unmarshal(b, &st); err == nil && st.Schema == stateSchema {
		return st, "", nil
	} else if err == nil && st.Schema > stateSchema {
		return st, "", fmt.Errorf("%s has schema %d; this version reads %d: a newer updater wrote it", f.stateFile(), st.Schema, stateSchema)
	}
	aside := f.stateFile() + ".damaged"
	if err := os.Rename(f.stateFile(), aside); err != nil {
		return st, "", fmt.Errorf("set the damaged state aside: %w", err)
	}
	return f.remembered(), "the updater's state was damaged and is set aside as " + aside, nil
}

func (f folder) save(st *state) error {
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.stateFile(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the updater's state: %w", err)
	}
	return nil
}

// report leaves the newest news for whoever passes it on.
func (f folder) report(r fleet.UpdateReport) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(f.reportFile(), append(b, '\n'), 0o600); err != nil {
		return fmt.Errorf("write the update report: %w", err)
	}
	return nil
}

// LastReport is the newest report of an app folder; nil when there is none, or none that can be read.
func LastReport(app string) *fleet.UpdateReport {
	b, err := os.ReadFile(folder(app).reportFile())
	if err != nil {
		return nil
	}
	var r fleet.UpdateReport
	if json.Unmarshal(b, &r) != nil || r.State == "" {
		return nil
	}
	return &r
}

// peek reads the state without mending anything; one that cannot be read knows nothing.
func (f folder) peek() (state, error) {
	st := state{Schema: stateSchema}
	b, err := os.ReadFile(f.stateFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return st, fmt.Errorf("read the updater's state: %w", err)
	}
	if json.Unmarshal(b, &st) != nil {
		return state{Schema: stateSchema}, nil
	}
	return st, nil
}
