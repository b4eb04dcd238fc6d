package store

import (
	"sync"
	"time"

	"interlock.sh/internal/clock"
)

const (
	jumpLimit = 5 * time.Second
	// markStep is how far ahead of its time a commit writes the high-water mark, so that only a few
	// commits a second pay for it. A restart after a kill starts at most that far ahead.
	markStep = 250 * time.Millisecond
)

// storeClock never goes back. It shows the machine's wall clock, unless that one is behind what was
// already shown: then it runs a tenth slower than real time until the wall has caught up, so leases
// end late rather than early and the difference does not stay for ever.
type storeClock struct {
	sample func() (wall time.Time, mono time.Duration) // mono counts from any fixed moment
	jumped func(by time.Duration)

	mu    sync.Mutex
	shown time.Time
	wall  time.Time
	mono  time.Duration
	epoch uint64
}

// newStoreClock starts at the later one of the machine's time and mark.
func newStoreClock(c clock.Clock, mark time.Time, jumped func(time.Duration)) *storeClock {
	start := c.Now()
	s := &storeClock{jumped: jumped, epoch: 1, sample: func() (time.Time, time.Duration) {
		t := c.Now()
		return t.Round(0), t.Sub(start) // Round strips the monotonic reading, Sub uses it
	}}
	s.wall, s.mono = s.sample()
	s.shown = s.wall
	if mark.After(s.shown) {
		s.shown = mark
	}
	return s
}

func (s *storeClock) read() (now time.Time, epoch uint64) {
	s.mu.Lock()
	wall, mono := s.sample()
	passed := mono - s.mono
	by := wall.Sub(s.wall) - passed
	s.wall, s.mono = wall, mono
	jump := by > jumpLimit || by < -jumpLimit
	if jump {
		s.epoch++
	}
	if slow := s.shown.Add(passed - passed/10); wall.After(slow) {
		s.shown = wall
	} else {
		s.shown = slow
	}
	now, epoch = s.shown.UTC().Truncate(time.Millisecond), s.epoch
	s.mu.Unlock()
	if jump {
		s.jumped(by)
	}
	return now, epoch
}
