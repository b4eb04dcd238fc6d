package hostfacts

import (
	"context"
	"sync"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
)

// gpusEvery is the least time between two questions to the vendors' tools: each one starts a process and
// wakes the accelerator.
const gpusEvery = 30 * time.Second

// Gauge reads a computer's facts again and again. It is safe for concurrent use.
type Gauge struct {
	disk  string
	clock clock.Clock
	ask   func(ctx context.Context) []fleet.GPU

	mu    sync.Mutex
	facts fleet.HostFacts // what does not change, and the accelerators as they were last seen
	asked time.Time
}

// NewGauge reads everything once; disk is a folder on the disk where models are kept.
func NewGauge(ctx context.Context, disk string, c clock.Clock) *Gauge {
	return &Gauge{disk: disk, clock: c, ask: askGPUs, facts: Collect(ctx, disk), asked: c.Now()}
}

// Read is the computer now; its accelerators as they were at most 30 s ago. The caller must not change
// what the GPUs point at.
func (g *Gauge) Read(ctx context.Context) fleet.HostFacts {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.clock.Now(); now.Sub(g.asked) >= gpusEvery {
		// Not the caller's end: half an answer would stand for the next 30 s.
		g.asked, g.facts.GPUs = now, g.ask(context.WithoutCancel(ctx))
	}
	f := g.facts
	refreshHost(ctx, &f, g.disk)
	return f
}

// Again makes the next Read ask for the accelerators, whenever they were asked last: after a sleep one
// may be gone.
func (g *Gauge) Again() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = time.Time{}
}
