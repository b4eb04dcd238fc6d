// Package clock is time as a dependency: the real clock, and a fake one that a test moves by hand.
//
// It owns no policy. Durations use the monotonic reading that time.Time carries.
package clock

import (
	"sort"
	"sync"
	"time"
)

// Clock tells the time and makes timers.
type Clock interface {
	Now() time.Time
	// After delivers the time once, d from now. A timer that is no longer wanted needs no stopping.
	After(d time.Duration) <-chan time.Time
}

// System is the machine's own clock.
var System Clock = system{}

type system struct{}

func (system) Now() time.Time                         { return time.Now() }
func (system) After(d time.Duration) <-chan time.Time { return time.After(d) }

// Fake is a clock that stands still until it is moved. The zero value is not usable; see NewFake.
type Fake struct {
	mu      sync.Mutex
	now     time.Time
	waiters []waiter
	added   chan struct{}
}

type waiter struct {
	at time.Time
	ch chan time.Time
}

// NewFake is a fake clock that reads start.
func NewFake(start time.Time) *Fake {
	return &Fake{now: start, added: make(chan struct{})}
}

// Now is the time the clock was last moved to.
func (f *Fake) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.now
}

// After fires when Advance moves the clock past now+d; at once when d is not positive.
func (f *Fake) After(d time.Duration) <-chan time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- f.now
		return ch
	}
	f.waiters = append(f.waiters, waiter{f.now.Add(d), ch})
	close(f.added)
	f.added = make(chan struct{})
	return ch
}

// Advance moves the clock and fires every timer that is due, in order.
func (f *Fake) Advance(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now = f.now.Add(d)
	sort.SliceStable(f.waiters, func(i, j int) bool { return f.waiters[i].at.Before(f.waiters[j].at) })
	n := 0
	for n < len(f.waiters) && !f.waiters[n].at.After(f.now) {
		f.waiters[n].ch <- f.now
		n++
	}
	f.waiters = append([]waiter(nil), f.waiters[n:]...)
}

// Waiters is how many timers are pending.
func (f *Fake) Waiters() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiters)
}

// AwaitWaiters blocks until at least n timers are pending, so that a test can advance without racing
// the code under test.
func (f *Fake) AwaitWaiters(n int) {
	for {
		f.mu.Lock()
		if len(f.waiters) >= n {
			f.mu.Unlock()
			return
		}
		added := f.added
		f.mu.Unlock()
		<-added
	}
}
