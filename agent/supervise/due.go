package supervise

import (
	"fmt"
	"time"
)

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
