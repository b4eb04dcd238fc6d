package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// idleTimeout is how long a stream or a download may stay silent; the server's heartbeats come each
// 25 s.
const idleTimeout = 60 * time.Second

// idleBody is a response body that is cut off once no byte arrived for the idle time: a half-open
// connection would else be read for ever.
type idleBody struct {
	io.ReadCloser
	clock  clock.Clock
	start  time.Time
	last   atomic.Int64 // nanoseconds since start
	ctx    context.Context
	cancel context.CancelCauseFunc
	once   sync.Once
	stop   chan struct{}
}

// watchIdle guards body. cancel must end the request that body belongs to, and ctx be its context.
func watchIdle(ctx context.Context, cancel context.CancelCauseFunc, clk clock.Clock, idle time.Duration, body io.ReadCloser) *idleBody {
	b := &idleBody{ReadCloser: body, clock: clk, start: clk.Now(), ctx: ctx, cancel: cancel, stop: make(chan struct{})}
	go b.watch(idle)
	return b
}

func (b *idleBody) watch(idle time.Duration) {
	wait := idle
	for {
		select {
		case <-b.stop:
			return
		case <-b.clock.After(wait):
		}
		quiet := b.clock.Now().Sub(b.start) - time.Duration(b.last.Load())
		if quiet >= idle {
			b.cancel(fault.New(fault.Unavailable, "the connection was silent for %s", idle).
				WithHint("check the network between here and the server"))
			return
		}
		wait = idle - quiet
	}
}

// Read notes that bytes arrived; after a cut it returns why.
func (b *idleBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.last.Store(int64(b.clock.Now().Sub(b.start)))
	}
	if err != nil && !errors.Is(err, io.EOF) && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	return n, err
}

// Close ends the request and the watch.
func (b *idleBody) Close() error {
	b.once.Do(func() {
		close(b.stop)
		b.cancel(context.Canceled)
	})
	return b.ReadCloser.Close()
}
