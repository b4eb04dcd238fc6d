package worker_test

import (
	"context"
	"errors"
	"testing"

	"interlock.sh/tasks"
	"interlock.sh/worker"
)

func TestSettleWaitsForWhatIsUnderWay(t *testing.T) {
	p := newFake(t)
	release, late := make(chan struct{}), make(chan struct{})
	brought := false
	// The first claim brings an attempt only once the worker drains, as when both crossed on the wire.
	p.onAnswer = func(tasks.ClaimRequest) []tasks.Attempt {
		if brought {
			return nil
		}
		brought = true
		p.add("default", 1)
		<-late
		p.mu.Lock()
		defer p.mu.Unlock()
		a := p.queue
		p.queue = nil
		return a
	}
	w, end := p.run(worker.Options{}, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
		<-release
		return "done", nil
	})
	p.until("a claim that is out", func() bool { return p.parked["default"] == 1 })
	w.Drain()
	settled := make(chan error, 1)
	go func() { settled <- w.Settle(context.Background()) }()
	still := func(what string) {
		t.Helper()
		select {
		case err := <-settled:
			t.Fatalf("settled with %s: %v", what, err)
		default:
		}
	}
	still("a claim out")
	close(late)
	p.until("the attempt that it brought", func() bool { return w.Stats().Held == 1 && p.parked["default"] == 0 })
	still("an attempt in hand")
	gone := errors.New("no time left")
	hurried, cancel := context.WithCancelCause(context.Background())
	cancel(gone)
	if err := w.Settle(hurried); !errors.Is(err, gone) {
		t.Errorf("a settle whose time is up: %v", err)
	}
	close(release)
	if err := <-settled; err != nil || len(p.completedIDs()) != 1 {
		t.Errorf("settled with %v and %v completed", err, p.completedIDs())
	}
	if err := w.Settle(context.Background()); err != nil {
		t.Errorf("a settled worker: %v", err)
	}
	w.Resume()
	p.until("another claim", func() bool { return p.parked["default"] == 1 })
	w.Drain() // a parked claim is answered at once
	if err := w.Settle(context.Background()); err != nil {
		t.Error(err)
	}
	_ = end()
}
