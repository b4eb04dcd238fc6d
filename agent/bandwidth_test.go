package agent

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/internal/clock"
)

// meter is a download on fake time: it counts what it was allowed to read.
func meter(ctx context.Context, b *bandwidth, read *atomic.Int64) error {
	for {
		if err := b.Await(ctx); err != nil {
			return err
		}
		for {
			n := b.Piece(256 << 10)
			if n == 0 {
				break
			}
			read.Add(int64(n))
			if err := b.Spend(ctx, n); err != nil {
				return err
			}
		}
	}
}

func TestDownloadsTogetherStayWithinALimitThatChanges(t *testing.T) {
	t.Parallel()
	const minute = 60
	fake := clock.NewFake(time.Now())
	var limit, read atomic.Int64
	limit.Store(1 << 20)
	b := newBandwidth(fake, func() (int64, bool) { return limit.Load(), true })
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _ = meter(ctx, b, &read) })
	}
	within := func(perSecond int64) {
		t.Helper()
		before := read.Load()
		for range minute * 10 {
			fake.AwaitWaiters(2) // both wait for their share
			fake.Advance(100 * time.Millisecond)
		}
		fake.AwaitWaiters(2)
		got, want := read.Load()-before, perSecond*minute
		if slack := want/20 + 2*perSecond; got > want+slack || got < want-slack {
			t.Errorf("%d bytes in a minute at %d a second", got, perSecond)
		}
	}
	within(1 << 20)
	limit.Store(64 << 10)
	within(64 << 10)
	limit.Store(0)
	for range 4 {
		fake.AwaitWaiters(2)
		fake.Advance(paceEvery)
	}
	stopped := read.Load()
	for range 10 {
		fake.AwaitWaiters(2)
		fake.Advance(paceEvery)
	}
	if got := read.Load(); got != stopped || !b.stopped() {
		t.Errorf("%d bytes came while downloads were stopped", got-stopped)
	}
	limit.Store(8 << 20)
	within(8 << 20)
	fake.AwaitWaiters(2)
	cancel()
	all.Wait()
}

func TestWithoutALimitNothingIsHeldUp(t *testing.T) {
	t.Parallel()
	b := newBandwidth(clock.NewFake(time.Now()), func() (int64, bool) { return 0, false })
	if err := b.Await(t.Context()); err != nil || b.Piece(1<<20) != 1<<20 || b.Spend(t.Context(), 1<<30) != nil || b.stopped() {
		t.Error("held up:", err)
	}
}

func TestADownloadThatWaitsEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := newBandwidth(clock.NewFake(time.Now()), func() (int64, bool) { return 0, true })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Await(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
