package supervise

import (
	"fmt"
	"slices"
	"time"
)

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

// fail counts a failure: wait and start again, or park. A failure stops counting when it is older than
// the window and the child was ready since; a start that takes longer than the window to fail is no
// way around the park.
func (m *machine) fail(now time.Time, reason string) {
	m.failures = slices.DeleteFunc(m.failures, func(at time.Time) bool {
		return now.Sub(at) >= m.policy.ParkWindow && m.readyAt.After(at)
	})
	if len(m.failures) == 0 {
		m.backoff.Reset()
	}
	m.failures, m.lastFailure = append(m.failures, now), reason
	switch n := len(m.failures); {
	case n >= m.policy.ParkFails && now.Sub(m.failures[0]) < m.policy.ParkWindow:
		m.to(Parked, fmt.Sprintf("failed %d times within %s, the last time: %s", n, m.policy.ParkWindow, reason))
	case n >= m.policy.ParkFails:
		m.to(Parked, fmt.Sprintf("failed %d times in a row, the last time: %s", n, reason))
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
