package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/atomicfile"
)

// Owner is what the machine's owner wants of this role. It is kept over restarts and re-enrollment, and
// wins over the control plane in the stricter direction.
type Owner struct {
	Mode fleet.Mode `json:"mode"`
}

func ownerPath(dir string) string { return filepath.Join(dir, "owner.json") }

func loadOwner(dir string) (Owner, error) {
	o := Owner{Mode: fleet.Active}
	b, err := os.ReadFile(ownerPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("read what the owner wants: %w", err)
	}
	if err := json.Unmarshal(b, &o); err != nil || !(o.Mode == fleet.Active || o.Mode == fleet.Paused || o.Mode == fleet.Draining) {
		// What the owner said cannot be read: the cautious reading is a pause.
		return Owner{Mode: fleet.Paused}, nil
	}
	return o, nil
}

// SetOwner changes what the owner wants, durably.
func (a *Agent) SetOwner(mode fleet.Mode) error {
	if mode != fleet.Active && mode != fleet.Paused && mode != fleet.Draining {
		return fault.New(fault.Invalid, "mode %q is none of active, paused, draining", mode).WithField("mode")
	}
	a.owning.Lock() // of two wishes at once, the one that is kept on disk is the one that holds
	defer a.owning.Unlock()
	b, err := json.Marshal(Owner{Mode: mode})
	if err != nil {
		return err
	}
	if err := atomicfile.Write(ownerPath(a.Enrollment.Dir()), append(b, '\n'), 0o600); err != nil {
		return err
	}
	a.mu.Lock()
	a.owner.Mode = mode
	a.mu.Unlock()
	a.poke()
	return nil
}
