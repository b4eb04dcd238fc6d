package supervise

import (
	"errors"
	"fmt"
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

	failures   []time.Time // within the window
	portFaults int         // in a row
	retryAt    time.Time

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
	m.failures, m.portFaults = nil, 0
	m.backoff.Reset()
}

// spawned: the process runs.
func (m *machine) spawned(epoch int, now time.Time, loadDeadline time.Duration) {
	if epoch != m.epoch {
		return
	}
	m.alive, m.loadDeadline, m.startedAt, m.progressAt, m.checkAt = true, loadDeadline, now, now, now
	m.to(Loading, "")
}

// spawnFailed: there is no process.
func (m *machine) spawnFailed(epoch int, now time.Time, err error) {
	if epoch == m.epoch && m.state == Starting {
		m.fail(now, fmt.Sprintf("could not be started: %v", err))
	}
}

// exited: the process of that epoch is reaped and its group is gone.
func (m *machine) exited(epoch int, now time.Time, fx Effects, reason string, portTaken bool) {
	if epoch != m.epoch || !m.alive {
		return
	}
	m.alive, m.checking, m.draining = false, false, false
	switch m.state {
	case Stopping:
		m.ended(now, fx)
	case Parked: // it did outlive SIGKILL, and is gone at last
	case Loading:
		if portTaken {
			m.portTaken(now, fx, reason)
			return
		}
		fallthrough
	default:
		m.fail(now, reason)
	}
}

// progress: the child wrote a line at that time.
func (m *machine) progress(at time.Time) {
	if at.After(m.progressAt) {
		m.progressAt = at
	}
}

// readyResult is the answer of CheckReady.
func (m *machine) readyResult(epoch int, now time.Time, fx Effects, err error) {
	if epoch != m.epoch || m.state != Loading {
		return
	}
	m.checking, m.checkAt = false, now.Add(m.policy.ReadyEvery)
	switch {
	case err == nil:
		m.to(Probing, "")
		m.checkAt = now
	case errors.Is(err, ErrForeign):
		m.end(now, fx, thenPort, err.Error())
	case errors.Is(err, ErrUnusable):
		m.end(now, fx, thenPark, err.Error())
	case errors.Is(err, ErrLoading):
		m.progress(now)
		fallthrough
	default:
		m.notYet = err.Error()
	}
}

// aliveResult is the answer of CheckAlive.
func (m *machine) aliveResult(epoch int, now time.Time, fx Effects, err error) {
	if epoch != m.epoch || m.state != Probing && m.state != Ready && m.state != Unhealthy {
		return
	}
	m.checking = false
	if err == nil {
		m.probeFails, m.portFaults = 0, 0
		m.checkAt = now.Add(m.policy.ProbeEvery)
		m.to(Ready, "")
		return
	}
	if m.state == Ready && m.leases > 0 {
		// A request came while the probe was out; behind it the probe may only have waited its turn.
		m.checkAt = now.Add(m.policy.ProbeEvery)
		return
	}
	m.probeFails++
	m.checkAt = now.Add(m.policy.ProbeAgain)
	reason := fmt.Sprintf("the one-token probe failed %d of %d times: %v", m.probeFails, m.policy.ProbeFails, err)
	switch {
	case m.probeFails >= m.policy.ProbeFails:
		m.end(now, fx, thenFail, reason)
	case m.state == Probing:
		m.reason = reason
	default:
		m.to(Unhealthy, reason)
	}
}

// doubt: a user of the child saw it not answering; probes decide, busy or not.
func (m *machine) doubt(now time.Time, reason string) {
	if m.state == Ready {
		m.checkAt = now
		m.to(Unhealthy, reason)
	}
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

// tick does what is due.
func (m *machine) tick(now time.Time, fx Effects) {
	switch m.state {
	case Loading:
		if due := m.loadEnds(); !now.Before(due) {
			m.end(now, fx, thenFail, fmt.Sprintf("not ready after %s, of %s allowed for its size, %s after its last sign of life (%s)",
				round(now.Sub(m.startedAt)), round(m.loadDeadline), round(now.Sub(m.progressAt)), orElse(m.notYet, "no answer yet")))
		} else if !m.checking && !now.Before(m.checkAt) {
			m.checking = true
			fx.CheckReady(m.epoch)
		}
	case Probing, Ready, Unhealthy:
		if m.draining && (m.leases == 0 || !now.Before(m.drainUntil)) {
			m.halt(now, fx)
		} else if m.mayProbe() && !now.Before(m.checkAt) {
			m.checking = true
			fx.CheckAlive(m.epoch)
		}
	case Backoff:
		if !now.Before(m.retryAt) {
			m.begin(fx)
		}
	case Stopping:
		m.stopTick(now, fx)
	}
}

// wakeAt is when tick is next due; zero when only news can change something.
func (m *machine) wakeAt() time.Time {
	var at time.Time
	sooner := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	switch m.state {
	case Loading:
		sooner(m.loadEnds())
		if !m.checking {
			sooner(m.checkAt)
		}
	case Probing, Ready, Unhealthy:
		if m.draining {
			sooner(m.drainUntil)
		}
		if m.mayProbe() {
			sooner(m.checkAt)
		}
	case Backoff:
		sooner(m.retryAt)
	case Stopping:
		sooner(m.stop.next)
	}
	return at
}

// mayProbe: a probe of a busy child would wait behind its requests and prove nothing.
func (m *machine) mayProbe() bool {
	return !m.checking && (m.leases == 0 || m.state != Ready)
}

// loadEnds is when a start has taken too long: past its deadline and silent, or far past it.
func (m *machine) loadEnds() time.Time {
	deadline := m.startedAt.Add(m.loadDeadline)
	last := m.startedAt.Add(m.loadDeadline * time.Duration(m.policy.LoadFactor))
	if silent := m.progressAt.Add(m.policy.LoadStall); silent.After(deadline) {
		deadline = silent
	}
	if deadline.After(last) {
		return last
	}
	return deadline
}

// begin makes a process.
func (m *machine) begin(fx Effects) {
	m.epoch++
	m.checking, m.draining = false, false
	m.probeFails, m.leases, m.notYet = 0, 0, ""
	m.to(Starting, "")
	fx.Spawn(m.epoch)
}

// again is begin, if it is still wanted.
func (m *machine) again(fx Effects) {
	if m.want {
		m.begin(fx)
		return
	}
	m.to(Stopped, "")
}

// fail counts a failure: wait and start again, or park.
func (m *machine) fail(now time.Time, reason string) {
	recent := m.failures[:0]
	for _, at := range m.failures {
		if now.Sub(at) < m.policy.ParkWindow {
			recent = append(recent, at)
		}
	}
	if len(recent) == 0 {
		m.backoff.Reset()
	}
	m.failures = append(recent, now)
	switch {
	case len(m.failures) >= m.policy.ParkFails:
		m.to(Parked, fmt.Sprintf("failed %d times within %s, the last time: %s", len(m.failures), round(m.policy.ParkWindow), reason))
	case !m.want:
		m.to(Stopped, reason)
	default:
		m.retryAt = now.Add(m.backoff.Next(0))
		m.to(Backoff, reason)
	}
}

// portTaken tries another port at once; a machine where that does not help is a failure like any.
func (m *machine) portTaken(now time.Time, fx Effects, reason string) {
	m.portFaults++
	if m.portFaults <= m.policy.PortTries {
		m.again(fx)
		return
	}
	m.portFaults = 0
	m.fail(now, fmt.Sprintf("%d ports in a row were taken by others before it could listen: %s", m.policy.PortTries+1, reason))
}

func (m *machine) to(s State, reason string) { m.state, m.reason = s, reason }

func round(d time.Duration) time.Duration {
	if d >= 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
