// Package localapi is the agent's door for the owner of its machine: HTTP over a unix socket that only
// the owner can open. It has the wire types, the client that the command line, the dashboard and the
// tray use, and the handler that the agent serves. It decides nothing.
package localapi

import (
	"time"

	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

// Status is an agent as its owner sees it.
type Status struct {
	Group     string          `json:"group"`
	GroupName string          `json:"groupName"`
	Role      fleet.Role      `json:"role"`
	Origin    string          `json:"origin"`
	Machine   string          `json:"machine"`
	Version   string          `json:"version"`
	Pid       int             `json:"pid"`
	Program   string          `json:"program,omitempty" doc:"what it goes on as when it is restarted"`
	State     fleet.State     `json:"state"`
	Words     string          `json:"words" doc:"the state as it is shown"`
	Owner     fleet.Mode      `json:"owner" doc:"what the owner wants now, by hours and by hand"`
	Server    fleet.Mode      `json:"server" doc:"what the control plane wants"`
	Report    fleet.Heartbeat `json:"report"`
	LastSeen  *time.Time      `json:"lastSeen,omitempty" doc:"newest heartbeat that the control plane accepted"`
	LastError string          `json:"lastError,omitempty" doc:"why the control plane could not be asked"`

	Wish   Wish                `json:"wish"`
	Hours  fleet.Hours         `json:"hours" doc:"what the wish allows now"`
	Awake  Awake               `json:"awake"`
	Update *fleet.UpdateReport `json:"update,omitempty"`
}

// KnowsHours says whether the agent is of a version that keeps hours: an older one sends none.
func (s Status) KnowsHours() bool { return s.Hours.Mode != "" }

// Wish is what the owner of the machine wants of one role. It is kept over restarts, updates and
// re-enrollment.
type Wish struct {
	schedule.Availability
	Before schedule.Mode  `json:"before,omitempty" doc:"of mode paused: the mode that resuming brings back"`
	Hold   *schedule.Hold `json:"hold,omitempty"`
}

// Awake says whether the machine is kept from sleeping while a task runs.
type Awake struct {
	Held    bool   `json:"held"`
	Refused string `json:"refused,omitempty" doc:"why the system does not let us"`
}

// Check is one line of doctor.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Warn   bool   `json:"warn,omitempty" doc:"ok, and could be better"`
	Fix    string `json:"fix,omitempty" doc:"what to do, when it is not ok or a warning"`
}

// Logs are the newest lines of a deployment's model server, or of the agent itself.
type Logs struct {
	Lines []string `json:"lines"`
}
