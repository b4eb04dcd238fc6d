// Package retry is backoff with full jitter and a cap: how long to wait before trying again. Poll waits for
// what has no way to say that it came about.
//
// It owns the waiting only. Whether to try again is the caller's decision.
package retry

import (
	"context"
	"math/rand/v2"
	"time"

	"interlock.sh/internal/clock"
)

// Backoff grows from Base, doubling, to Cap. The zero value is not usable.
type Backoff struct {
	Base, Cap time.Duration
	// Jitter gives a number in [0,1); nil is the process's random source.
	Jitter func() float64
	n      int
}

// Next is the wait before the next try: a random part of the current step (full jitter), never less
// than floor. Pass a peer's Retry-After as floor.
func (b *Backoff) Next(floor time.Duration) time.Duration {
	step := b.Base
	for i := 0; i < b.n && step < b.Cap; i++ {
		step *= 2
	}
	step = min(step, b.Cap)
	b.n++
	j := rand.Float64
	if b.Jitter != nil {
		j = b.Jitter
	}
	return max(floor, time.Duration(j()*float64(step)))
}

// Tries is how many waits were handed out since the last Reset.
func (b *Backoff) Tries() int { return b.n }

// Reset starts over after a success.
func (b *Backoff) Reset() { b.n = 0 }

// Sleep waits d on the clock, or returns the context's cause when that ends first.
func Sleep(ctx context.Context, c clock.Clock, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.After(d):
		return nil
	}
}
