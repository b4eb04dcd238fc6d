package supervise

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"
)

// owner is the goroutine that has a child's state: the machine, the process, and the effects by which
// the one acts on the other. Nothing of it is touched from elsewhere.
type owner struct {
	*Child
	m      *machine
	driver Driver   // of the next start
	proc   *process // of the newest start; nil before the first and after a failed one
	starts int
	since  time.Time

	news       []func()        // what effects found out at once, for after the decision that caused them
	afterwards []chan struct{} // callers to wake when all is decided and published
	working    sync.WaitGroup  // goroutines that will tell us something
}

var _ Effects = (*owner)(nil)

func (o *owner) now() time.Time { return o.sup.clock.Now() }

// run serves requests, news and the clock until the child is closed.
func (o *owner) run() {
	defer o.working.Wait()
	defer close(o.done)
	var armed time.Time
	var timer <-chan time.Time
	for {
		if wake := o.m.wakeAt(); !wake.Equal(armed) {
			armed, timer = wake, nil
			if !wake.IsZero() {
				timer = o.sup.clock.After(wake.Sub(o.now()))
			}
		}
		select {
		case f := <-o.inbox:
			f(o)
		case <-timer:
			armed = time.Time{}
		case <-o.quit:
			if o.m.alive { // started behind the back of who closes us, or held by the kernel
				o.Kill()
			}
			return
		}
		o.settle()
	}
}

// settle does what is due and publishes each state passed on the way.
func (o *owner) settle() {
	for {
		if o.m.state == Loading {
			o.m.progress(o.out.wroteAt())
		}
		o.m.tick(o.now(), o)
		o.publish()
		if len(o.news) == 0 {
			break
		}
		first := o.news[0]
		o.news = o.news[1:]
		first()
	}
	for _, ch := range o.afterwards {
		close(ch)
	}
	o.afterwards = nil
}

// publish tells the watchers, and the log when the state is another.
func (o *owner) publish() {
	was := o.Status()
	if was.State != o.m.state {
		o.since = o.now()
	}
	st := Status{
		Name: o.name, State: o.m.state, Since: o.since, Reason: o.m.reason, Draining: o.m.draining, Leases: o.m.leases,
		Starts: o.starts, Failures: len(o.m.failures), LastFailure: o.m.lastFailure, Progress: o.m.progressAt,
	}
	if o.m.alive {
		st.PID, st.Port = o.proc.PID, o.proc.at.Port
	}
	if st.State == Backoff {
		st.RetryAt = o.m.retryAt
	}
	if st.State != Loading {
		st.Progress = time.Time{}
	}
	if was.State != st.State && was.State != "" {
		level := slog.LevelInfo
		if st.State == Backoff || st.State == Parked || st.State == Unhealthy {
			level = slog.LevelWarn
		}
		o.sup.logger.Log(context.Background(), level, "model server", "name", o.name, "state", string(st.State),
			"was", string(was.State), "reason", st.Reason, "pid", st.PID)
	}
	o.Child.publish(st)
}

// Spawn starts a process with the newest driver, or takes over one that runs already. That is checked and
// probed like a new one before it counts as ready, and ended when it is not what the driver would start.
func (o *owner) Spawn(epoch int) {
	p, starts, fits := o.sup.adopt(o.Child, o.driver)
	if p != nil {
		o.starts = starts
		o.sup.step("adopted")
	} else {
		var err error
		if p, err = o.sup.launch(o.Child, o.driver); err != nil {
			o.proc = nil
			o.news = append(o.news, func() { o.m.spawnFailed(epoch, o.now(), err) })
			return
		}
		o.starts++
		fits = true
	}
	o.proc = p
	o.news = append(o.news, func() {
		o.m.spawned(epoch, o.now(), p.driver.LoadDeadline())
		if !fits {
			o.m.replace(o.now(), o)
		}
	})
	o.working.Go(func() {
		p.reap()
		end := p.exit(o.out.tail(tailLines))
		if err := o.sup.table.remove(p.Identity); err != nil {
			// The row is stale then, which the next Sweep sees by the start time.
			o.sup.logger.Warn("model server", "name", o.name, "error", err)
		}
		o.tell(func(o *owner) { o.m.exited(epoch, o.now(), o, end.reason, end.portTaken) })
	})
}

// CheckReady asks the driver once.
func (o *owner) CheckReady(epoch int) {
	p := o.proc
	o.check(p, p.driver.Ready, o.sup.policy.ReadyWithin, func(o *owner, err error) { o.m.readyResult(epoch, o.now(), o, err) })
}

// CheckAlive asks the driver for one probe.
func (o *owner) CheckAlive(epoch int) {
	p := o.proc
	o.check(p, p.driver.Alive, o.sup.policy.ProbeWithin, func(o *owner, err error) { o.m.aliveResult(epoch, o.now(), o, err) })
}

// check runs one of the driver's checks beside us and tells the result, in time even when the driver
// does not come back.
func (o *owner) check(p *process, ask func(context.Context, Endpoint) error, within time.Duration, then func(*owner, error)) {
	ctx, cancel := context.WithTimeoutCause(p.ctx, within, fmt.Errorf("no answer within %s", within))
	result := make(chan error, 1)
	go func() { result <- ask(ctx, p.at) }() // ends with the context, as Driver requires
	o.working.Go(func() {
		defer cancel()
		var err error
		select {
		case err = <-result:
			if err != nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		o.tell(func(o *owner) { then(o, err) })
	})
}

// CloseStreams asks the driver beside us; the machine does not wait for longer than its policy.
func (o *owner) CloseStreams(epoch int) {
	p := o.proc
	go func() {
		p.driver.CloseStreams(p.at)
		o.tell(func(o *owner) { o.m.streamsClosed(epoch, o.now()) })
	}()
}

// Terminate asks the group to end.
func (o *owner) Terminate() { o.proc.signal(syscall.SIGTERM) }

// Kill ends the group.
func (o *owner) Kill() { o.proc.signal(syscall.SIGKILL) }
