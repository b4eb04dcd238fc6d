package fleet

import "strings"

// State is a machine's or a deployment's state: a kind and, where the kind asks for one, a detail.
type State struct {
	Kind   StateKind `json:"kind"`
	Detail string    `json:"detail,omitempty" doc:"who paused it, or why it is blocked, parked or unsupported"`
}

// StateKind is the first word of a state.
type StateKind string

// The kinds of states.
const (
	StateEnrolling   StateKind = "enrolling"   // enrolled, never seen
	StateIdle        StateKind = "idle"        // nothing is assigned
	StateDownloading StateKind = "downloading" // fetching model files
	StateLoading     StateKind = "loading"     // the model server starts or loads
	StateReady       StateKind = "ready"       // serves, has a free slot
	StateFull        StateKind = "full"        // serves, every slot is busy: healthy
	StateDraining    StateKind = "draining"    // finishes its work, takes no more
	StatePaused      StateKind = "paused"      // detail: by server, by owner until …
	StateOffline     StateKind = "offline"     // not seen for 90 s
	StateBlocked     StateKind = "blocked"     // cannot go on until something changes; resumes by itself
	StateParked      StateKind = "parked"      // gave up after repeated failures; wants a person
	StateUnsupported StateKind = "unsupported" // this agent version cannot run it
)

// Paused states by who paused.
const (
	PausedByServer = "by server"
	PausedByOwner  = "by owner"
)

// String is the state in words, as shown everywhere: "ready", "paused (by server)", "blocked: disk".
func (s State) String() string {
	switch {
	case s.Detail == "":
		return string(s.Kind)
	case s.Kind == StatePaused:
		return "paused (" + s.Detail + ")"
	}
	return string(s.Kind) + ": " + strings.TrimSpace(s.Detail)
}

// Serving reports whether a model in s answers requests.
func (s State) Serving() bool { return s.Kind == StateReady || s.Kind == StateFull }

// precedence orders what a machine with several deployments says of itself: work beats trouble, since
// one served model makes the machine useful; trouble beats progress, since it wants a person.
var precedence = []StateKind{StateReady, StateFull, StateParked, StateBlocked, StateLoading, StateDownloading, StateUnsupported}

// Summary is the state of a machine that runs all of ds: idle with none.
func Summary(ds []DeploymentReport) State {
	for _, k := range precedence {
		for _, d := range ds {
			if d.State.Kind == k {
				return d.State
			}
		}
	}
	if len(ds) > 0 {
		return ds[0].State
	}
	return State{Kind: StateIdle}
}
