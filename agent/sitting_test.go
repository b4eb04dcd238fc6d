package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"interlock.sh/agent/awake"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/power"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
)

// sitting is what an agent under test measures of its machine: the zone, the power, who sits there, and
// how long it slept. It keeps no machine awake.
type sitting struct {
	mu     sync.Mutex
	zone   *hostfacts.Zone // nil: the machine's own
	mains  *bool
	idle   *time.Duration
	needs  []power.Need
	locks  int
	refuse error         // the lock against sleep
	slept  time.Duration // on the fake clock
	update *fleet.UpdateReport
}

func newSitting() *sitting { return &sitting{} }

// tell makes o ask s.
func (s *sitting) tell(o *Options, fake *clock.Fake) {
	o.Power = func(_ context.Context, n power.Need) schedule.Facts {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.needs = append(s.needs, n)
		return schedule.Facts{Mains: s.mains, Idle: s.idle}
	}
	o.Zone = func() hostfacts.Zone {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.zone == nil {
			return hostfacts.LocalZone()
		}
		return *s.zone
	}
	o.Awake = func(context.Context) (awake.Lock, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refuse != nil {
			return awake.Lock{}, s.refuse
		}
		s.locks++
		return awake.Lock{Release: func() { s.mu.Lock(); s.locks--; s.mu.Unlock() }}, nil
	}
	o.Update = func() *fleet.UpdateReport { return s.update }
	if fake != nil {
		began := fake.Now()
		o.Steady = func() time.Duration {
			s.mu.Lock()
			defer s.mu.Unlock()
			return fake.Now().Sub(began) - s.slept
		}
	}
}

// set changes what is measured.
func (s *sitting) set(change func(s *sitting)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// sleep lets the machine sleep for d.
func (s *sitting) sleep(fake *clock.Fake, d time.Duration) {
	s.mu.Lock()
	s.slept += d
	s.mu.Unlock()
	fake.Advance(d)
}

var errNoLock = errors.New("logind says no")
