package supervise

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"interlock.sh/fault"
)

// Child is one supervised model server. Its methods may be called from any goroutine; each is a
// request to the one that owns the child, and returns when that has decided.
type Child struct {
	sup  *Supervisor
	name string
	file string // begins the names of its files
	out  *output

	inbox chan func(*owner)
	quit  chan struct{}
	done  chan struct{}
	once  sync.Once

	mu       sync.Mutex
	latest   Status
	watchers map[chan Status]bool
}

// Start wants the child to run, from now until Stop or Drain. A parked child stays parked.
func (c *Child) Start() { c.ask(func(o *owner) { o.m.start(o) }) }

// Stop wants it stopped, and returns when it is. It takes no longer than Policy.StopBound, whatever the
// child does. The error says that the process would not die.
func (c *Child) Stop(ctx context.Context) error {
	c.ask(func(o *owner) { o.m.halt(o.now(), o) })
	return c.awaitEnd(ctx)
}

// Drain gives no new leases, waits for those that are out, at most that long, and stops.
func (c *Child) Drain(ctx context.Context, within time.Duration) error {
	c.ask(func(o *owner) { o.m.drain(o.now(), o, o.now().Add(within)) })
	return c.awaitEnd(ctx)
}

// Retry ends backoff or park and starts now, with a clean record.
func (c *Child) Retry() { c.ask(func(o *owner) { o.m.retry(o) }) }

// Replace makes it another server: what runs is stopped, a park ends, and the new driver is started if
// the child is wanted.
func (c *Child) Replace(d Driver) {
	c.ask(func(o *owner) {
		o.driver = d
		o.m.replace(o.now(), o)
	})
}

// Doubt tells that a request was not answered as it should. The child is not used until a probe has
// answered, and started again when none does. Do not call it for a request that may only be slow: all
// slots busy, the probe waits too.
func (c *Child) Doubt(reason string) { c.ask(func(o *owner) { o.m.doubt(o.now(), reason) }) }

// Lease is the right to send one request to a ready child. Done must be called once it is over.
type Lease struct {
	At   Endpoint
	done func(answered bool)
	once sync.Once
}

// Done ends the lease. answered says that the server gave a whole answer: that is as good as a probe.
func (l *Lease) Done(answered bool) { l.once.Do(func() { l.done(answered) }) }

// Acquire leases a ready child; otherwise the error (fault.Unavailable) says its state and why.
func (c *Child) Acquire() (*Lease, error) {
	var lease *Lease
	c.ask(func(o *owner) {
		if !o.m.usable() {
			return
		}
		epoch := o.m.epoch
		o.m.leases++
		lease = &Lease{At: o.proc.at, done: func(answered bool) {
			c.ask(func(o *owner) { o.m.release(epoch, o.now(), answered) })
		}}
	})
	if lease != nil {
		return lease, nil
	}
	st := c.Status()
	reason := st.Reason
	if st.Draining {
		reason = "draining"
	}
	return nil, fault.New(fault.Unavailable, "the model server is %s", st.State).
		With("state", string(st.State)).WithHint("%s", orElse(reason, "try again when it is ready"))
}

// Status is the child now.
func (c *Child) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// Watch gives the status now and after each change, until the context ends and the channel closes. A
// slow reader misses what lies between and gets the newest.
func (c *Child) Watch(ctx context.Context) <-chan Status {
	ch := make(chan Status, 1)
	c.mu.Lock()
	defer c.mu.Unlock()
	ch <- c.latest
	c.watchers[ch] = true
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, ch)
		close(ch)
	})
	return ch
}

// Tail is the last n lines (at most 200) that the newest process wrote.
func (c *Child) Tail(n int) []string { return c.out.tail(n) }

// ask hands a request to the owner and returns when it has been dealt with; at once when the child is
// closed.
func (c *Child) ask(f func(*owner)) {
	dealt := make(chan struct{})
	request := func(o *owner) {
		f(o)
		o.afterwards = append(o.afterwards, dealt)
	}
	select {
	case c.inbox <- request:
		<-dealt
	case <-c.done:
	}
}

// tell hands news to the owner without waiting for more than its taking them.
func (c *Child) tell(f func(*owner)) {
	select {
	case c.inbox <- f:
	case <-c.done:
	}
}

// awaitEnd waits until the child neither drains nor stops.
func (c *Child) awaitEnd(ctx context.Context) error {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	for st := range c.Watch(watch) {
		switch {
		case st.State == Stopping || st.Draining:
		case st.State == Parked && st.PID != 0:
			return fmt.Errorf("stop %s: %s", c.name, st.Reason)
		default:
			return nil
		}
	}
	return fmt.Errorf("stop %s: %w", c.name, context.Cause(ctx))
}

// publish makes st the newest status.
func (c *Child) publish(st Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st == c.latest {
		return
	}
	c.latest = st
	for ch := range maps.Keys(c.watchers) {
		select {
		case <-ch: // not read yet, and old now
		default:
		}
		ch <- st
	}
}

// close ends the owner; the child must be stopped, or be given up.
func (c *Child) close() {
	c.once.Do(func() { close(c.quit) })
	<-c.done
}
