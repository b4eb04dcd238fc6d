// Package awake keeps the machine from sleeping while a task runs, and only then. It asks the system
// for a lock against sleep; the display is left alone. A lock that the system refuses is no reason not to
// work: the refusal is kept in words, and asked again while there is work.
package awake

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

const (
	takeWithin = 5 * time.Second // a bus that hangs is given up
	againFirst = 10 * time.Second
	againLast  = 5 * time.Minute
	steady     = time.Minute // a lock that held so long is taken anew at once
)

// State is how the machine is kept awake now.
type State struct {
	Held    bool
	Refused string // why the system does not let us, or not wholly; "" when it does, or was never asked
}

// Lock is what keeps the machine awake until it is released.
type Lock struct {
	Release func()
	Lost    <-chan struct{} // closes when the lock may not hold any more
	Less    string          // what of the lock was refused, in words
}

// Options say how a Keeper works. The zero value is right for the machine.
type Options struct {
	Take    func(ctx context.Context) (Lock, error) // takes the system's lock; nil is the system's way
	Clock   clock.Clock
	Logger  *slog.Logger
	Changed func() // the state is another one
}

// Keeper holds one lock for all tasks that run. It is safe for concurrent use.
type Keeper struct {
	o    Options
	poke chan struct{}

	mu    sync.Mutex
	count int
	state State
}

// New makes a keeper; Run must run for it to do anything.
func New(o Options) *Keeper {
	if o.Take == nil {
		o.Take = takeSystem
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Keeper{o: o, poke: make(chan struct{}, 1)}
}

// Hold says that a task runs until the function is called. It does not wait for the lock.
func (k *Keeper) Hold() (release func()) {
	k.add(1)
	return sync.OnceFunc(func() { k.add(-1) })
}

func (k *Keeper) add(n int) {
	k.mu.Lock()
	k.count += n
	edge := k.count == 0 || k.count == n
	k.mu.Unlock()
	if edge {
		select {
		case k.poke <- struct{}{}:
		default:
		}
	}
}

// State is how the machine is kept awake now.
func (k *Keeper) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Run takes and releases the lock until ctx ends, and leaves none.
func (k *Keeper) Run(ctx context.Context) error {
	var lock *Lock
	var given time.Time
	back := retry.Backoff{Base: againFirst, Cap: againLast}
	release := func() {
		if lock == nil {
			return
		}
		lock.Release()
		lock = nil
		if k.o.Clock.Now().Sub(given) >= steady {
			back.Reset()
		}
	}
	defer func() {
		release()
		k.show(func(s *State) { s.Held = false })
	}()
	var notBefore time.Time // however often tasks begin: what was refused is not asked again at each
	for {
		var lost <-chan struct{}
		var again <-chan time.Time
		switch wanted := k.wanted(); {
		case wanted && lock == nil && k.o.Clock.Now().Before(notBefore):
			again = k.o.Clock.After(notBefore.Sub(k.o.Clock.Now()))
		case wanted && lock == nil:
			asked := k.o.Clock.Now()
			got, err := k.take(ctx)
			if err != nil {
				wait := back.Next(againFirst)
				notBefore, again = k.o.Clock.Now().Add(wait), k.o.Clock.After(wait)
				break
			}
			lock, lost, given = &got, got.Lost, asked
		case wanted:
			lost = lock.Lost
		default:
			release()
			k.show(func(s *State) { s.Held = false })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.poke:
		case <-again:
		case <-lost:
			k.o.Logger.Warn("the lock against sleep was lost")
			release()
			if now := k.o.Clock.Now(); now.Sub(given) < steady { // one that is lost at once would be taken again and again
				notBefore = now.Add(back.Next(againFirst))
			}
			k.show(func(s *State) { s.Held, s.Refused = false, "the lock against sleep was lost" })
		}
	}
}

func (k *Keeper) wanted() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.count > 0
}

func (k *Keeper) take(ctx context.Context) (Lock, error) {
	bound, cancel := context.WithTimeout(ctx, takeWithin)
	defer cancel()
	got, err := k.o.Take(bound)
	if err != nil {
		if ctx.Err() == nil {
			k.show(func(s *State) { s.Refused = err.Error() })
		}
		return got, err
	}
	k.show(func(s *State) { s.Held, s.Refused = true, got.Less })
	return got, nil
}

// show changes the state; a refusal is logged when it is another one than before.
func (k *Keeper) show(change func(s *State)) {
	k.mu.Lock()
	before := k.state
	change(&k.state)
	after := k.state
	k.mu.Unlock()
	if after.Refused != before.Refused && after.Refused != "" {
		k.o.Logger.Warn("keep the machine awake", slog.String("refused", after.Refused))
	}
	if after != before {
		k.o.Changed()
	}
}
