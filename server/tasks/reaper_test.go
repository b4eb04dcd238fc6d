package servertasks_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"interlock.sh/server/store"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

func TestRunLooksWhenSomethingFallsDue(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.core.Run(ctx) }()
	p.clock.AwaitWaiters(1) // nothing is due: it waits its longest step
	v := p.submit(tasks.SubmitRequest{DelayMs: 300})
	p.clock.AwaitWaiters(2) // and a shorter one, now that something is
	changed, stop := p.core.SubscribeTask(v.ID)
	defer stop()
	p.clock.Advance(300 * time.Millisecond)
	<-changed
	p.wantState(v.ID, tasks.Queued)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

// One task that cannot be ended must not keep the reaper from the others.
func TestATaskThatCannotEndLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	stuck := ""
	p := newPlane(t, func(_ *store.Tx, v tasks.View, _ servertasks.AttemptInfo) error {
		if v.ID == stuck {
			return errors.New("no")
		}
		return nil
	})
	p.register("w1", 2, tasks.NonIdempotent)
	stuck = p.submit(tasks.SubmitRequest{}).ID
	other := p.submit(tasks.SubmitRequest{}).ID
	late := p.submit(tasks.SubmitRequest{ExpiresInMs: 1000, Pool: "nobody"}).ID
	p.claim("w1", 2)
	p.clock.Advance(31 * time.Second)
	if err := p.core.Sweep(context.Background()); err == nil {
		t.Fatal("the sweep says nothing of the task that it could not end")
	}
	p.wantState(stuck, tasks.Leased)
	p.wantState(other, tasks.OutcomeUnknown)
	p.wantState(late, tasks.Expired)
}
