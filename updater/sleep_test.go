package updater

import (
	"context"
	"testing"
	"time"
)

// sleeper is a machine whose wall clock jumps at a look, once: by hours when it slept, back when the clock is set.
type sleeper struct {
	*world
	leap  *leap
	look  int // the one in which it jumps
	jump  time.Duration
	slept time.Duration // not told yet
	then  func()
}

func (s *sleeper) Subjects(ctx context.Context) ([]Subject, error) {
	if s.look--; s.look == 0 {
		s.leap.Advance(s.jump)
		s.slept += s.jump
		s.then()
	}
	return s.world.Subjects(ctx)
}

func (s *sleeper) steady(from, to time.Time) time.Duration {
	d := to.Sub(from) - s.slept
	s.slept = 0
	return d
}

// A sleep, or a clock that is set, in the middle of a verdict decides nothing: the deadline is time in which
// the machine is awake.
func TestAJumpOfTheClockDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"a night's sleep": 8 * time.Hour, "set forward": 10 * time.Minute, "set back": -3 * time.Hour} {
		for _, look := range []int{3, 8, 40} { // from the swap until late in the deadline
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.release("1.1.0", "late")
				r.world.ready = r.clock.Now().Add(DefaultMinEvery + time.Hour)
				s := &sleeper{world: r.world, leap: r.clock, look: look, jump: jump, then: func() {
					r.world.ready = r.clock.Now().Add(DefaultDeadline - time.Minute) // it needs a while
				}}
				r.Services = s
				r.clock.Advance(DefaultMinEvery)
				u := r.updater()
				u.steady = s.steady
				n, err := u.Run(t.Context())
				must(t, err)
				r.want(n, Current, "1.1.0")
				r.updaterIs("1.1.0")
			})
			t.Run(name+", and it is bad", func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.release("1.1.0", "dead")
				s := &sleeper{world: r.world, leap: r.clock, look: look, jump: jump, then: func() {}}
				r.Services = s
				u := r.updater()
				u.steady = s.steady
				n, err := u.Run(t.Context())
				must(t, err)
				r.want(n, Reverted, "1.0.0")
			})
		}
	}
}

// The same for a machine that was off, or an updater that was killed, while it watched.
func TestTheTimeInWhichNobodyWatchesDecidesNothing(t *testing.T) {
	t.Parallel()
	for name, off := range map[string]time.Duration{"off for a night": 8 * time.Hour, "a clock that lost its time": -400 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "late")
			r.world.ready = r.clock.Now().Add(100 * time.Hour)
			ctx, cut := context.WithCancel(t.Context())
			u, waits := r.updater(), 0
			u.clock = &ticking{leap: r.clock, each: func() {
				if waits++; waits == 60 { // two minutes into the deadline
					cut()
				}
			}}
			if _, err := u.Run(ctx); err == nil {
				t.Fatal("the pass was not cut off")
			}
			r.clock.Advance(off)
			r.world.ready = r.clock.Now().Add(DefaultMinEvery + DefaultDeadline - time.Minute)
			r.want(r.run(), Current, "1.1.0")
		})
	}
}
