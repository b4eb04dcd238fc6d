package worker

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

const (
	maxPools = 64     // of a registration, as the control plane has it
	maxSlots = 10_000 // likewise, of all pools together

	claimBase = 100 * time.Millisecond
	claimCap  = 15 * time.Second
)

// Pool is a pool that the worker serves.
type Pool struct {
	Name  string
	Slots int // attempts of this pool at once; 0 claims none
}

// pool is a Pool at work. Worker.mu guards it.
type pool struct {
	name    string
	slots   int
	busy    int
	listed  bool // false once SetPools left it out
	looping bool // its claim loop runs
	wake    chan struct{}
}

func checkPools(pools []Pool) error {
	if len(pools) > maxPools {
		return fault.New(fault.Invalid, "%d pools; the limit is %d", len(pools), maxPools).WithField("pools")
	}
	seen, sum := map[string]bool{}, 0
	for _, p := range pools {
		if err := tasks.CheckLabel("pools", p.Name, true); err != nil {
			return err
		}
		if p.Slots < 0 || seen[p.Name] {
			return fault.New(fault.Invalid, "pool %q has %d slots or is listed twice", p.Name, p.Slots).
				WithField("pools").WithHint("list each pool once, with 0 or more slots")
		}
		seen[p.Name] = true
		sum += p.Slots
	}
	if sum > maxSlots {
		return fault.New(fault.Invalid, "%d slots in all; the limit is %d", sum, maxSlots).WithField("pools")
	}
	return nil
}

// SetPools replaces what the worker serves and registers that at once. Attempts that run go on. The same
// pools again change nothing, so a caller may repeat itself as often as it likes.
func (w *Worker) SetPools(pools []Pool) error {
	if err := checkPools(pools); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.serves(pools) {
		return nil
	}
	w.arrange(pools)
	if w.claiming != nil {
		w.startLoops()
	}
	hint(w.again)
	return nil
}

// serves reports whether pools are the listed ones. The caller holds mu.
func (w *Worker) serves(pools []Pool) bool {
	listed := 0
	for _, p := range w.pools {
		if p.listed {
			listed++
		}
	}
	return listed == len(pools) && !slices.ContainsFunc(pools, func(want Pool) bool {
		p := w.pools[want.Name]
		return p == nil || !p.listed || p.slots != want.Slots
	})
}

// Drain claims nothing more and keeps what is held until it ends.
func (w *Worker) Drain() { w.setDrain(true, false) }

// DrainToReturn drains a worker that is about to be replaced by another version of itself, and says so: new
// work waits for it instead of being told that nobody is there.
func (w *Worker) DrainToReturn() { w.setDrain(true, true) }

// Resume ends Drain and HandBack.
func (w *Worker) Resume() {
	w.mu.Lock()
	w.given = nil
	w.mu.Unlock()
	w.setDrain(false, false)
}

func (w *Worker) setDrain(on, back bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.drain == on && w.back == back {
		return
	}
	w.drain, w.back = on, back
	w.wakeLoops()
	w.move()
	hint(w.again)
}

// arrange makes pools the listed ones. The caller holds mu, or is New.
func (w *Worker) arrange(pools []Pool) {
	for _, p := range w.pools {
		p.listed, p.slots = false, 0
	}
	for _, want := range pools {
		p := w.pools[want.Name]
		if p == nil {
			p = &pool{name: want.Name, wake: make(chan struct{}, 1)}
			w.pools[want.Name] = p
		}
		p.listed, p.slots = true, want.Slots
	}
	w.wakeLoops()
}

func (w *Worker) wakeLoops() {
	for _, p := range w.pools {
		hint(p.wake)
	}
}

// startLoops gives each listed pool its claim loop. The caller holds mu.
func (w *Worker) startLoops() {
	if w.stopping {
		return
	}
	for _, p := range w.pools {
		if p.listed && !p.looping {
			p.looping = true
			w.claims.Go(func() { w.claimLoop(w.claiming, p) })
		}
	}
}

// room waits until a pool may take attempts and returns how many, with a claim counted as out; false ends
// the pool's loop.
func (w *Worker) room(ctx context.Context, p *pool) (int, bool) {
	for {
		w.mu.Lock()
		if !p.listed || w.stopping || ctx.Err() != nil {
			p.looping = false
			if !p.listed && p.busy == 0 {
				delete(w.pools, p.name)
			}
			w.mu.Unlock()
			return 0, false
		}
		n := p.slots - p.busy
		if w.drain {
			n = 0
		}
		if n > 0 {
			w.out++
		}
		w.mu.Unlock()
		if n > 0 {
			return min(n, tasks.MaxClaim), true
		}
		select {
		case <-p.wake:
		case <-ctx.Done():
		}
	}
}

// claimLoop keeps one claim in flight while its pool has room.
func (w *Worker) claimLoop(ctx context.Context, p *pool) {
	back := retry.Backoff{Base: claimBase, Cap: claimCap}
	for {
		n, ok := w.room(ctx, p)
		if !ok {
			return
		}
		asked := w.clock.Now()
		got, err := w.transport.ClaimTasks(ctx, tasks.ClaimRequest{
			WorkerID: w.o.WorkerID, Max: n, WaitMs: tasks.LongPoll.Milliseconds(), Pools: []string{p.name},
		})
		for _, a := range got.Attempts {
			w.take(p, a)
		}
		w.answered()
		switch {
		case err == nil && (len(got.Attempts) > 0 || w.clock.Now().Sub(asked) >= tasks.LongPoll/2):
			back.Reset()
			continue
		case err == nil: // ended early with nothing: the control plane goes down, or knows us no longer
		case ctx.Err() != nil:
			continue
		case judge(err) == expelled:
			w.giveUp(err)
			<-ctx.Done()
			continue
		}
		w.pause(ctx, &back, err) // which also registers again, in case that it forgot this worker
		if err != nil {
			w.log.Debug("claim", slog.String("pool", p.name), slog.Any("cause", err))
		}
	}
}

// take begins an attempt.
func (w *Worker) take(p *pool, a tasks.Attempt) {
	if a.Pool == "" {
		a.Pool = p.name
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	p.busy++
	w.busy++
	at := w.newAttempt(p, a)
	if w.given != nil {
		at.stop(w.given)
	}
	w.held[a.AttemptID] = at
	w.expect(at)
	w.work.Go(at.run)
}

// release frees the slot of a handler that returned.
func (w *Worker) release(p *pool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.busy--
	w.busy--
	if !p.listed && !p.looping && p.busy == 0 {
		delete(w.pools, p.name)
	}
	hint(p.wake)
	if w.busy == 0 && w.quiet != nil {
		close(w.quiet)
		w.quiet = nil
	}
}
