package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"interlock.sh/client"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

// DefaultPoll is how often a producer looks by itself when no event says that it is worth it.
const DefaultPoll = 5 * time.Second

// ProducerTransport is what a producer asks of a control plane; *client.Client satisfies it.
type ProducerTransport interface {
	SubmitTask(ctx context.Context, req tasks.SubmitRequest) (tasks.View, error)
	Task(ctx context.Context, id string) (tasks.View, error)
	CancelTask(ctx context.Context, id, reason string) (tasks.View, error)
	TaskJournal(ctx context.Context, id string, after int64, limit int) (tasks.Journal, error)
	Follow(ctx context.Context, path, from string, fn func(client.Event) error, opts ...client.CallOption) error
}

// Producer hands tasks in and waits for them. It is safe for concurrent use.
type Producer struct {
	transport ProducerTransport
	clock     clock.Clock
}

// NewProducer makes a producer over a transport with producer authority.
func NewProducer(transport ProducerTransport) *Producer {
	return &Producer{transport: transport, clock: clock.System}
}

// Submit admits one task. With an idempotency key it is repeated while the control plane is away, since
// a repeat then returns the same task; without one it is sent once.
func (p *Producer) Submit(ctx context.Context, req tasks.SubmitRequest) (tasks.View, error) {
	back := newBackoff()
	for {
		v, err := p.transport.SubmitTask(ctx, req)
		if err == nil || req.IdempotencyKey == "" || ctx.Err() != nil || judge(err) != tryAgain {
			return v, err
		}
		if stop := retry.Sleep(ctx, p.clock, back.Next(client.RetryAfter(err))); stop != nil {
			return v, fmt.Errorf("submit task: %w (last: %w)", stop, err)
		}
	}
}

// Get reads the canonical state and result.
func (p *Producer) Get(ctx context.Context, id string) (tasks.View, error) {
	return p.transport.Task(ctx, id)
}

// Cancel asks a task to stop: at once when nobody holds it, else by its worker's cooperation.
func (p *Producer) Cancel(ctx context.Context, id, reason string) (tasks.View, error) {
	return p.transport.CancelTask(ctx, id, reason)
}

// Watch calls fn for each journal entry behind the cursor from, once and in order, until the task has
// ended and its last entry was given. The journal is what counts; events only say when to look.
func (p *Producer) Watch(ctx context.Context, id string, from int64, fn func(tasks.Entry)) error {
	f := follower{p: p, id: id}
	defer f.stop()
	back := newBackoff()
	for {
		page, err := p.transport.TaskJournal(ctx, id, from, 0)
		if err != nil {
			if err := p.pause(ctx, "watch task", back, err); err != nil {
				return err
			}
			continue
		}
		back.Reset()
		for _, e := range page.Entries {
			if e.Seq > from {
				fn(e)
				from = e.Seq
			}
		}
		if len(page.Entries) > 0 {
			continue // there may be more
		}
		if page.State.Terminal() {
			return nil
		}
		if from, err = p.live(ctx, f.events(ctx, from), from, fn); err != nil {
			return err
		}
	}
}

// live hands out entries as events bring them, until the journal has to be read: after a gap, an entry
// that may be the last, or a while without any.
func (p *Producer) live(ctx context.Context, events <-chan tasks.Entry, from int64, fn func(tasks.Entry)) (int64, error) {
	poll := p.clock.After(DefaultPoll)
	for {
		select {
		case e := <-events:
			switch {
			case e.Seq == from+1:
				fn(e)
				from = e.Seq
				if !chatty(e.Kind) {
					return from, nil
				}
			case e.Seq > from:
				return from, nil
			}
		case <-poll:
			return from, nil
		case <-ctx.Done():
			return from, fmt.Errorf("watch task: %w", context.Cause(ctx))
		}
	}
}

// chatty are the entries after which the task surely goes on.
func chatty(k tasks.EntryKind) bool {
	return k == tasks.EntryProgress || k == tasks.EntryLog || k == tasks.EntryDelta || k == tasks.EntryLeased || k == tasks.EntryRunning
}

// Await waits for a task's end and returns it as it stands then. It looks every poll (DefaultPoll when
// 0), and at once when an event says so. A state that this program does not know is live.
func (p *Producer) Await(ctx context.Context, id string, poll time.Duration) (tasks.View, error) {
	if poll <= 0 {
		poll = DefaultPoll
	}
	f := follower{p: p, id: id}
	defer f.stop()
	back := newBackoff()
	for {
		v, err := p.transport.Task(ctx, id)
		if err != nil {
			if err := p.pause(ctx, "await task", back, err); err != nil {
				return v, err
			}
			continue
		}
		back.Reset()
		if v.State.Terminal() {
			return v, nil
		}
		events, due := f.events(ctx, v.Cursor), p.clock.After(poll)
		for waiting := true; waiting; {
			select {
			case e := <-events:
				waiting = e.Seq <= v.Cursor || chatty(e.Kind)
			case <-due:
				waiting = false
			case <-ctx.Done():
				return v, fmt.Errorf("await task: %w", context.Cause(ctx))
			}
		}
	}
}

// pause waits before the next try, or returns what waiting does not change.
func (p *Producer) pause(ctx context.Context, what string, back *retry.Backoff, err error) error {
	if judge(err) != tryAgain || ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if stop := retry.Sleep(ctx, p.clock, back.Next(client.RetryAfter(err))); stop != nil {
		return fmt.Errorf("%s: %w", what, errors.Join(stop, err))
	}
	return nil
}

func newBackoff() *retry.Backoff {
	return &retry.Backoff{Base: 200 * time.Millisecond, Cap: 10 * time.Second}
}
