package agent

import (
	"log/slog"
	"time"
)

// jumpLimit is how far the wall clock may move against the steady one before the machine counts as having
// slept, or its clock as having been set.
const jumpLimit = 5 * time.Second

// sleepWatch finds sleeps: the steady clock stands still in them and the wall clock does not.
type sleepWatch struct {
	wall   time.Time
	steady time.Duration
}

// look says how far the wall clock jumped since the last look; back is negative.
func (w *sleepWatch) look(wall time.Time, steady time.Duration) (jump time.Duration, jumped bool) {
	wall = wall.Round(0) // without the steady reading, which would hide the jump
	jump = wall.Sub(w.wall) - (steady - w.steady)
	w.wall, w.steady = wall, steady
	return jump, jump.Abs() >= jumpLimit
}

// clocks reads both clocks at one moment, as far as the system lets us: a process that was stopped between the two
// readings would take that for a sleep.
func (a *Agent) clocks() (wall time.Time, steady time.Duration) {
	for {
		steady = a.steady()
		wall = a.clock.Now()
		if a.steady()-steady < jumpLimit/5 {
			return wall, steady
		}
	}
}

// woke looks again at all that a sleep may have changed. An accelerator may be gone, and a model server
// may have lost it without knowing: each is asked for a token, and started anew when it does not answer.
func (a *Agent) woke(slept time.Duration) {
	a.log.Info("the clock jumped: the machine slept, or was set", slog.Duration("by", slept))
	a.gauge.Again()
	a.host.program.forget()
	a.mu.Lock()
	all := make([]*serving, 0, len(a.serves))
	for _, s := range a.serves {
		all = append(all, s)
	}
	a.mu.Unlock()
	for _, s := range all {
		s.woke()
	}
	signal(a.refresh)
	signal(a.wake)
	a.poke()
}

// woke has the model server asked, or what blocks it looked at again. One that is answering speaks for
// itself: a probe would wait behind the answers, and a silent answer is found by who waits for it.
func (s *serving) woke() {
	signal(s.again)
	s.mu.Lock()
	child := s.child
	s.mu.Unlock()
	if child != nil && child.Status().Leases == 0 {
		child.Doubt("the machine woke up")
	}
}

// forget makes the next find ask the program anew.
func (p *program) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = nil
}
