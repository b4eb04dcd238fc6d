package supervise

import (
	"time"

	"interlock.sh/internal/retry"
)

// Effects is what a decision may do to the world. None of them answers: what comes of it is told to
// the machine later, with the epoch it was asked for, so that news of an earlier process are known.
type Effects interface {
	Spawn(epoch int)        // → spawned or spawnFailed, before any other news; later exited
	CheckReady(epoch int)   // → readyResult
	CheckAlive(epoch int)   // → aliveResult
	CloseStreams(epoch int) // → streamsClosed
	Terminate()             // SIGTERM to the group
	Kill()                  // SIGKILL to the group
}

// machine decides. It holds a child's state and no resource, reads no clock, and is owned by one
// goroutine. Every method takes the time and may call effects; tick must follow each of them, and is
// called at the time that wakeAt names.
type machine struct {
	policy  Policy
	backoff retry.Backoff

	state  State
	reason string
	want   bool // it should run
	epoch  int  // counts starts
	alive  bool // the process of this epoch is not reaped

	loadDeadline time.Duration
	startedAt    time.Time
	progressAt   time.Time
	notYet       string // the last answer of a readiness check

	checking   bool // a check of this epoch is out
	checkAt    time.Time
	probeFails int

	failures    []time.Time // that count: see fail
	readyAt     time.Time   // when it last became ready
	lastFailure string
	portFaults  int // in a row
	retryAt     time.Time

	stop stopping

	leases     int
	draining   bool
	drainUntil time.Time
}

// usable reports whether new leases are given.
func (m *machine) usable() bool { return m.state == Ready && !m.draining }

// start wants the child to run. A parked one stays parked.
func (m *machine) start(fx Effects) {
	m.want, m.draining = true, false
	if m.state == Stopped {
		m.begin(fx)
	}
}

// halt wants the child stopped, at once. A parked one runs no process and stays parked, so that
// stopping and starting it is no way around the park.
func (m *machine) halt(now time.Time, fx Effects) {
	m.want, m.draining = false, false
	switch m.state {
	case Loading, Probing, Ready, Unhealthy:
		m.end(now, fx, thenNothing, "")
	case Backoff:
		m.to(Stopped, "")
	}
}

// drain wants the child stopped when its last lease ends, or at the given time.
func (m *machine) drain(now time.Time, fx Effects, until time.Time) {
	if m.leases == 0 || m.state != Ready && m.state != Unhealthy {
		m.halt(now, fx)
		return
	}
	m.want, m.draining, m.drainUntil = false, true, until
}

// retry starts a waiting or parked child now, with a clean record.
func (m *machine) retry(fx Effects) {
	if m.state != Backoff && m.state != Parked || m.alive {
		return
	}
	m.forgive()
	m.again(fx)
}

// replace starts over with another driver; the record of the old one does not count.
func (m *machine) replace(now time.Time, fx Effects) {
	switch m.state {
	case Backoff, Parked:
		m.retry(fx)
	case Loading, Probing, Ready, Unhealthy:
		m.forgive()
		m.end(now, fx, thenAgain, "another version was asked for")
	case Stopping:
		m.forgive()
		m.stop.then = thenAgain
	}
}

func (m *machine) forgive() {
	m.failures, m.lastFailure, m.portFaults = nil, "", 0
	m.backoff.Reset()
}

// release ends a lease. An answer is as good as a probe.
func (m *machine) release(epoch int, now time.Time, answered bool) {
	if epoch != m.epoch {
		return
	}
	m.leases--
	if answered && m.state == Ready {
		m.checkAt = now.Add(m.policy.ProbeEvery)
	}
}

func (m *machine) to(s State, reason string) { m.state, m.reason = s, reason }
