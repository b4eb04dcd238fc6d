package supervise

import "time"

// State is where a child is in its life; doc.go draws the ways between them.
type State string

// The states.
const (
	Stopped   State = "stopped"   // nothing runs, nothing is wanted
	Starting  State = "starting"  // a process is being made
	Loading   State = "loading"   // it runs and is not ready
	Probing   State = "probing"   // loaded and verified; the first probe is out
	Ready     State = "ready"     // it may be used
	Unhealthy State = "unhealthy" // a probe failed; it is asked again, and not used
	Stopping  State = "stopping"  // it was told to end
	Backoff   State = "backoff"   // it failed and is started again at RetryAt
	Parked    State = "parked"    // it failed too often; Reason says how, Retry or a new Driver goes on
)

// Status is a child as others see it.
type Status struct {
	Name     string
	State    State
	Since    time.Time // when it came into the state
	Reason   string    // why it is unhealthy, stopping, in backoff or parked
	Draining bool      // no new leases; it stops when the last one ends
	Leases   int       // requests in flight, by Acquire
	PID      int       // of the process that was started; 0 when none runs
	Port     int       // where it listens; 0 when none runs
	Starts   int       // processes started since the supervisor was made
	Failures int       // that count towards the park
	// LastFailure is how it last failed, also while it runs again; "" after Retry or Replace.
	LastFailure string
	RetryAt     time.Time // in backoff
	Progress    time.Time // last sign of life while loading
}
