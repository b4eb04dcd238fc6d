package updater

import "time"

// jumpLimit is how far the wall clock may move against the steady one before the machine counts as having
// slept, or its clock as having been set.
const jumpLimit = 5 * time.Second

// betweenPasses is the longest time between two passes of a machine that is on.
const betweenPasses = time.Hour

// sleepWatch finds sleeps: the steady clock stands still in them and the wall clock does not.
type sleepWatch struct {
	last   time.Time
	steady func(from, to time.Time) time.Duration
}

func (u *Updater) sleepWatch() sleepWatch { return sleepWatch{u.clock.Now(), u.steady} }

// look says how far the wall clock jumped since the last look; back is negative.
func (w *sleepWatch) look(now time.Time) (jump time.Duration, jumped bool) {
	wall := now.Round(0).Sub(w.last.Round(0)) // without the steady reading, which would hide the jump
	jump = wall - w.steady(w.last, now)
	w.last = now
	return jump, jump.Abs() >= jumpLimit
}

// resume begins the deadlines anew: while nobody looked, the machine may have been off.
func (p *pending) resume(now time.Time) {
	for i := range p.Subjects {
		if w := &p.Subjects[i]; !w.Left.IsZero() {
			w.Left, w.Reached = now, time.Time{}
		}
	}
}

// stillOpen is for how long the verdict has been open. A machine that was off in between did not wait.
func (p *pending) stillOpen(now time.Time) time.Duration {
	if p.Opened.IsZero() {
		p.Opened = p.Swapped
	}
	p.Open += min(max(now.Sub(p.Opened), 0), betweenPasses)
	p.Opened = now
	return p.Open
}

// slept takes a jump of the clock out of all times: a service that woke up a moment ago, without a network
// yet, is not late.
func (p *pending) slept(now time.Time, jump time.Duration) {
	for _, at := range []*time.Time{&p.Since, &p.Swapped} {
		if !at.IsZero() {
			*at = at.Add(jump)
		}
	}
	for i := range p.Subjects {
		if w := &p.Subjects[i]; !w.Asked.IsZero() {
			w.Asked = w.Asked.Add(jump)
		}
	}
	p.resume(now)
}

// heard keeps the newest heartbeat that is not the new version's. Which one came later is never told by
// comparing times: the clock may be set in between.
func (w *subjectState) heard(h Health, p *pending) {
	if h.Up && h.Version != p.Version {
		w.Heard = h.Heartbeat
	}
}
