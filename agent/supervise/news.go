package supervise

import (
	"errors"
	"fmt"
	"time"
)

// What the machine is told. News of an earlier process are dropped by their epoch, and news that the
// state no longer waits for by the state.

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
	case Parked: // it outlived SIGKILL, and is gone at last
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
		m.checkAt, m.readyAt = now.Add(m.policy.ProbeEvery), now
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
