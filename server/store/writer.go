package store

import (
	"context"
	"sync"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// op is one operation on its way through the writer.
type op struct {
	ctx  context.Context
	lane Lane
	fn   func(*Tx) error
	at   time.Time
	err  error      // the answer, until the commit lets it out
	done chan error // holds one
}

// groupWriter is the one writer of a SQLite database: callers queue, one goroutine commits.
type groupWriter struct {
	conn  *writeConn
	path  string
	base  clock.Clock // for waiting times
	clock *storeClock

	wake    chan struct{}            // holds one: something was queued, or stopping began
	stop    chan struct{}            // closed when stopping begins
	stopped chan struct{}            // closed when the loop has ended
	slots   [laneCount]chan struct{} // bound each lane
	mu      sync.Mutex               // guards the two below
	queue   [laneCount][]*op
	closing bool

	// The rest belongs to the loop.
	mark    time.Time     // the high-water mark that is durable
	took    time.Duration // the last batch
	running *op           // whose function runs now
	closed  error
}

func newGroupWriter(conn *writeConn, path string, base clock.Clock, sc *storeClock, mark time.Time) *groupWriter {
	w := &groupWriter{
		conn: conn, path: path, base: base, clock: sc, mark: mark,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), stopped: make(chan struct{}),
	}
	for i := range w.slots {
		w.slots[i] = make(chan struct{}, maxQueued)
	}
	return w
}

func errClosed() error {
	return fault.New(fault.Unavailable, "the database is closing").WithHint("try again when the server is up again")
}

func (w *groupWriter) write(ctx context.Context, lane Lane, fn func(*Tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case w.slots[lane] <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-w.stop:
		return errClosed()
	}
	o := &op{ctx: ctx, lane: lane, fn: fn, at: w.base.Now(), done: make(chan error, 1)}
	if !w.enqueue(o) {
		<-w.slots[lane]
		return errClosed()
	}
	select {
	case err := <-o.done:
		return err
	case <-ctx.Done():
	}
	if w.withdraw(o) {
		return context.Cause(ctx)
	}
	return <-o.done // its batch has begun: only the true outcome will do
}

func (w *groupWriter) enqueue(o *op) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closing {
		return false
	}
	w.queue[o.lane] = append(w.queue[o.lane], o)
	w.signal()
	return true
}

func (w *groupWriter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// withdraw takes a queued operation back; false when its batch has begun.
func (w *groupWriter) withdraw(o *op) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	lane := w.queue[o.lane]
	for i := range lane {
		if lane[i] == o {
			w.queue[o.lane] = append(lane[:i:i], lane[i+1:]...)
			<-w.slots[o.lane]
			return true
		}
	}
	return false
}

// take removes the next batch from the queue; last is true when there will be no other.
func (w *groupWriter) take() (batch []*op, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var load [laneCount]laneLoad
	left := 0
	for i, lane := range w.queue {
		if load[i].queued = len(lane); len(lane) > 0 {
			load[i].oldest = lane[0].at
		}
	}
	for i, n := range shares(load, w.base.Now().Add(w.took), maxBatch) {
		for _, o := range w.queue[i][:n] {
			<-w.slots[i]
			if o.ctx.Err() != nil {
				o.done <- context.Cause(o.ctx)
				continue
			}
			batch = append(batch, o)
		}
		if w.queue[i] = w.queue[i][n:]; len(w.queue[i]) == 0 {
			w.queue[i] = nil // lets the array go
		}
		left += len(w.queue[i])
	}
	if left > 0 {
		w.signal()
	}
	return batch, w.closing && left == 0
}

// loop commits batches until the writer is closed. batch is what an earlier loop left behind.
func (w *groupWriter) loop(batch []*op) {
	clean := false
	defer func() {
		if !clean { // fn ended this goroutine (runtime.Goexit, as testing.T.Fatal does)
			w.conn.abort()
			w.running.err = fault.New(fault.Internal, "the operation ended the writer's goroutine")
			w.running.done <- w.running.err
			w.signal() // a close may have used up its signal
			go w.loop(without(batch, w.running))
		}
	}()
	for last := false; ; {
		if len(batch) > 0 {
			start := w.base.Now()
			w.run(batch)
			w.took = w.base.Now().Sub(start)
		}
		if last {
			break
		}
		<-w.wake
		batch, last = w.take()
	}
	clean = true
	w.closed = w.finish()
	close(w.stopped)
}

func (w *groupWriter) close(ctx context.Context) error {
	w.mu.Lock()
	if !w.closing {
		w.closing = true
		close(w.stop)
		w.signal()
	}
	w.mu.Unlock()
	select {
	case <-w.stopped:
		return w.closed
	case <-ctx.Done():
	}
	w.mu.Lock()
	for i, lane := range w.queue {
		for _, o := range lane {
			<-w.slots[i]
			o.done <- errClosed()
		}
		w.queue[i] = nil
	}
	w.mu.Unlock()
	return context.Cause(ctx)
}

func without(batch []*op, gone *op) []*op {
	rest := make([]*op, 0, len(batch))
	for _, o := range batch {
		if o != gone {
			rest = append(rest, o)
		}
	}
	return rest
}
