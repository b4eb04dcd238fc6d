package tray

import (
	"strings"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

// Key names one agent of this machine.
type Key struct {
	Group string // the modelId
	Role  fleet.Role
}

// String is the key as one word, as ParseKey reads it.
func (k Key) String() string { return k.Group + "/" + string(k.Role) }

// ParseKey reads what String wrote; the zero Key for anything else.
func ParseKey(s string) Key {
	group, role, ok := strings.Cut(s, "/")
	if !ok || group == "" || role == "" {
		return Key{}
	}
	return Key{Group: group, Role: fleet.Role(role)}
}

// Reach says whether an agent can be asked.
type Reach string

// The kinds of reach.
const (
	Asking  Reach = "asking"  // not answered yet, nor refused
	Answers Reach = "answers" // Status is what it said
	Stopped Reach = "stopped" // nobody listens
	Silent  Reach = "silent"  // somebody listens and does not answer well
	Foreign Reach = "foreign" // the socket is another user's: it is not asked
)

// Agent is one group and role of this machine, and what its agent said last.
type Agent struct {
	Key       Key
	GroupName string
	Origin    string
	Reach     Reach
	Why       string          // of silent and foreign
	Status    localapi.Status // of answers
}

// Older reports an agent from before the owner's hours: it knows pause and resume only.
func (a Agent) Older() bool { return a.Reach == Answers && a.Status.Hours.Mode == "" }

// Choice is the availability that the owner chose; for an older agent, the closest there is.
func (a Agent) Choice() schedule.Mode {
	switch {
	case a.Reach != Answers:
		return ""
	case !a.Older():
		return a.Status.Wish.Mode
	case a.Status.Owner == fleet.Paused:
		return schedule.Paused
	}
	return schedule.Always
}

// Held is the pause beside the hours, nil for none.
func (a Agent) Held() *schedule.Hold {
	if a.Reach != Answers || a.Older() {
		return nil
	}
	return a.Status.Wish.Hold
}

// Clock is a time by the clock of the machine. The agent knows its zone: a process keeps the one it began in.
func (a Agent) Clock(t time.Time) time.Time {
	if name := a.Status.Report.Host.Zone; name != "" {
		if zone, err := time.LoadLocation(name); err == nil {
			return t.In(zone)
		}
	}
	return t.Local()
}

// Snapshot is this machine at one moment.
type Snapshot struct {
	Loaded bool     // the machine was looked at
	Agents []Agent  // by group name, then role
	Broken []string // enrollments that are there and cannot be read, each in words
}

// Find is the agent of a key.
func (s Snapshot) Find(k Key) (Agent, bool) {
	for _, a := range s.Agents {
		if a.Key == k {
			return a, true
		}
	}
	return Agent{}, false
}

// Update is the newest news of the updater that any agent passed on.
func (s Snapshot) Update() (fleet.UpdateReport, bool) {
	var newest *fleet.UpdateReport
	for _, a := range s.Agents {
		if u := a.Status.Update; a.Reach == Answers && u != nil && (newest == nil || u.At.After(newest.At)) {
			newest = u
		}
	}
	if newest == nil {
		return fleet.UpdateReport{}, false
	}
	return *newest, true
}
