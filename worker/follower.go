package worker

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"

	"interlock.sh/client"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

// follower reads one task's event stream beside whoever waits for the task. It is for one goroutine.
type follower struct {
	p       *Producer
	id      string
	entries chan tasks.Entry
	cancel  context.CancelFunc
	reading sync.WaitGroup
}

// events are the entries behind from, as the stream brings them; the first call opens it.
func (f *follower) events(ctx context.Context, from int64) <-chan tasks.Entry {
	if f.entries != nil {
		return f.entries
	}
	ctx, f.cancel = context.WithCancel(ctx)
	f.entries = make(chan tasks.Entry)
	f.reading.Go(func() { f.read(ctx, strconv.FormatInt(from, 10)) })
	return f.entries
}

func (f *follower) read(ctx context.Context, from string) {
	for ctx.Err() == nil {
		// A stream that is refused is done without: polling goes on.
		_ = f.p.transport.Follow(ctx, client.TaskWatchPath(f.id), from, func(ev client.Event) error {
			var e tasks.Entry
			if json.Unmarshal(ev.Data, &e) != nil {
				return nil
			}
			select {
			case f.entries <- e:
				from = ev.ID
				return nil
			case <-ctx.Done():
				return client.ErrStop
			}
		})
		if retry.Sleep(ctx, f.p.clock, eventsRetry) != nil {
			return
		}
	}
}

func (f *follower) stop() {
	if f.cancel != nil {
		f.cancel()
		f.reading.Wait()
	}
}
