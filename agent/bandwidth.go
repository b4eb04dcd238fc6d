package agent

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"interlock.sh/client"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

const (
	paceEvery = 2 * time.Second // between two looks whether downloads may go on
	pieces    = 4               // a second of bytes comes in so many pieces: a new limit is felt at once
)

// bandwidth keeps all downloads of the role together within the owner's limit, which may change while
// they go on.
type bandwidth struct {
	clock clock.Clock
	limit func() (bytesPerSecond int64, limited bool)

	mu  sync.Mutex
	lim *rate.Limiter
}

var _ client.Pace = (*bandwidth)(nil)

func newBandwidth(c clock.Clock, limit func() (int64, bool)) *bandwidth {
	return &bandwidth{clock: c, limit: limit, lim: rate.NewLimiter(rate.Inf, 1)}
}

// stopped says whether nothing may be downloaded now.
func (b *bandwidth) stopped() bool {
	n, limited := b.limit()
	return limited && n <= 0
}

// Await returns when something may be downloaded.
func (b *bandwidth) Await(ctx context.Context) error {
	for b.stopped() {
		if err := retry.Sleep(ctx, b.clock, paceEvery); err != nil {
			return err
		}
	}
	return nil
}

// Piece is a part of a second's bytes.
func (b *bandwidth) Piece(n int) int {
	switch r, limited := b.limit(); {
	case !limited:
		return n
	case r <= 0:
		return 0
	default:
		return min(n, piece(r))
	}
}

func piece(bytesPerSecond int64) int { return int(max(bytesPerSecond/pieces, 1)) }

// Spend waits until the limit has room for n bytes more.
func (b *bandwidth) Spend(ctx context.Context, n int) error {
	for n > 0 {
		r, limited := b.limit()
		if !limited || r <= 0 {
			return nil // Piece has the say
		}
		part := min(n, piece(r))
		if err := retry.Sleep(ctx, b.clock, b.reserve(r, part)); err != nil {
			return err
		}
		n -= part
	}
	return nil
}

// reserve takes n bytes and says how long they last.
func (b *bandwidth) reserve(bytesPerSecond int64, n int) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	if want := rate.Limit(bytesPerSecond); b.lim.Limit() != want {
		b.lim = rate.NewLimiter(want, piece(bytesPerSecond))
		b.lim.AllowN(now, piece(bytesPerSecond)) // a new limit begins with nothing saved up
	}
	return b.lim.ReserveN(now, n).DelayFrom(now)
}
