package supervise

import "fmt"

// Identity names one process for good: a pid alone is reused, a pid with its start time is not.
type Identity struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // opaque; made by startOf on the same system
}

// identify is the identity of the living process pid.
func identify(pid int) (Identity, error) {
	start, err := startOf(pid)
	if err != nil {
		return Identity{}, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	return Identity{PID: pid, Start: start}, nil
}

// running reports whether this very process still runs. A process that has ended and waits for its
// parent does not.
func (id Identity) running() bool {
	if id.PID <= 1 || id.Start == "" {
		return false
	}
	start, err := startOf(id.PID)
	return err == nil && start == id.Start
}
