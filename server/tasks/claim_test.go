package servertasks_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/fault"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

type claimed struct {
	got []tasks.Attempt
	err error
}

// park starts a claim that waits and returns once it is parked: its timeout and fallback are pending.
func (p *plane) park(ctx context.Context, worker string) <-chan claimed {
	before := p.clock.Waiters()
	out := make(chan claimed, 1)
	go func() {
		r, err := p.core.Claim(ctx, caller, tasks.ClaimRequest{WorkerID: worker, Max: 1, WaitMs: 25_000})
		out <- claimed{r.Attempts, err}
	}()
	p.clock.AwaitWaiters(before + 2)
	return out
}

func one(t *testing.T, ch <-chan claimed) tasks.Attempt {
	t.Helper()
	c := <-ch
	if c.err != nil || len(c.got) != 1 {
		t.Fatalf("claimed %d attempts, %v", len(c.got), c.err)
	}
	return c.got[0]
}

func TestAParkedClaimIsWoken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	t.Run("by a submit", func(t *testing.T) {
		p := newPlane(t)
		p.register("w1", 1, tasks.Pure)
		ch := p.park(ctx, "w1")
		v := p.submit(tasks.SubmitRequest{})
		if a := one(t, ch); a.TaskID != v.ID {
			t.Fatalf("claimed %s", a.TaskID)
		}
	})
	t.Run("by a delay that is over", func(t *testing.T) {
		p := newPlane(t)
		p.register("w1", 1, tasks.Pure)
		p.submit(tasks.SubmitRequest{DelayMs: 1000})
		ch := p.park(ctx, "w1")
		p.advance(time.Second)
		one(t, ch)
	})
	t.Run("by a requeue", func(t *testing.T) {
		p := newPlane(t)
		a := p.one(tasks.Pure, tasks.SubmitRequest{})
		p.register("w2", 1, tasks.Pure)
		ch := p.park(ctx, "w2")
		p.fail(a, tasks.Failure{Code: "X", Retryable: true}, false)
		if b := one(t, ch); b.TaskID != a.TaskID || b.Number != 2 {
			t.Fatalf("claimed %+v", b)
		}
	})
	t.Run("by a free slot", func(t *testing.T) {
		p := newPlane(t)
		a := p.one(tasks.Pure, tasks.SubmitRequest{})
		next := p.submit(tasks.SubmitRequest{})
		ch := p.park(ctx, "w1")
		p.complete(a, "", 0)
		if b := one(t, ch); b.TaskID != next.ID {
			t.Fatalf("claimed %s", b.TaskID)
		}
	})
	t.Run("by another registration", func(t *testing.T) {
		p := newPlane(t)
		p.submit(tasks.SubmitRequest{})
		p.register("w1", 0, tasks.Pure)
		ch := p.park(ctx, "w1")
		p.register("w1", 1, tasks.Pure)
		one(t, ch)
	})
	t.Run("by its own look, when a hint was lost", func(t *testing.T) {
		p := newPlane(t)
		p.register("w1", 1, tasks.Pure)
		ch := p.park(ctx, "w1")
		other := servertasks.New(servertasks.Options{DB: p.db, Clock: p.clock}) // hints of its own
		if _, err := other.Submit(ctx, project, tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1}); err != nil {
			t.Fatal(err)
		}
		p.clock.Advance(5 * time.Second)
		one(t, ch)
	})
	t.Run("by its time", func(t *testing.T) {
		p := newPlane(t)
		p.register("w1", 1, tasks.Pure)
		ch := p.park(ctx, "w1")
		p.clock.Advance(25 * time.Second)
		if c := <-ch; c.err != nil || c.got == nil || len(c.got) != 0 {
			t.Fatalf("answer %+v", c)
		}
	})
}

func TestAWakeUpGoesToTheNextWhenItsClaimerLeft(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.register("w1", 1, tasks.Pure)
	p.register("w2", 1, tasks.Pure)
	ctx, leave := context.WithCancel(context.Background())
	first, second := p.park(ctx, "w1"), p.park(context.Background(), "w2")
	leave()
	p.submit(tasks.SubmitRequest{})
	if c := <-first; len(c.got) == 0 { // it may just have won
		if !errors.Is(c.err, context.Canceled) {
			t.Fatalf("first: %+v", c)
		}
	}
	one(t, second)
}

// leavesWhenLeased is a caller that goes away in the very moment in which its claim is committed.
type leavesWhenLeased struct {
	context.Context
	p    *plane
	id   string
	gone *atomic.Bool
}

func (c leavesWhenLeased) Err() error {
	if c.gone.Load() {
		return context.Canceled
	}
	if v, err := c.p.core.Get(context.Background(), project, c.id); err == nil && v.State == tasks.Leased {
		c.gone.Store(true)
		return context.Canceled
	}
	return nil
}

func TestAClaimThatNobodyReceivesIsTakenBack(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.register("w1", 1, tasks.NonIdempotent)
	v := p.submit(tasks.SubmitRequest{})
	_, err := p.core.Claim(leavesWhenLeased{context.Background(), p, v.ID, new(atomic.Bool)}, caller, tasks.ClaimRequest{WorkerID: "w1", Max: 1})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if v := p.wantState(v.ID, tasks.Queued); v.Attempts != 0 {
		t.Fatalf("%d attempts count", v.Attempts)
	}
	if a := p.claim("w1", 1); len(a) != 1 || a[0].Number != 2 {
		t.Fatalf("claimed %+v", a)
	}
}

func TestEveryTaskOfABurstFindsAParkedClaim(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	const n = 20
	var chs []<-chan claimed
	for i := range n {
		id := "w" + string(rune('a'+i))
		p.register(id, 1, tasks.Pure)
		chs = append(chs, p.park(context.Background(), id))
	}
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := p.core.Submit(context.Background(), project, tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	for _, ch := range chs {
		a := one(t, ch)
		if seen[a.TaskID] {
			t.Fatalf("task %s was leased twice", a.TaskID)
		}
		seen[a.TaskID] = true
	}
}

func TestClaimOrder(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.register("w1", 10, tasks.Pure)
	var want []string
	low := p.submit(tasks.SubmitRequest{})
	want = append(want, p.submit(tasks.SubmitRequest{Priority: 5}).ID, p.submit(tasks.SubmitRequest{Priority: 5}).ID, low.ID)
	p.submit(tasks.SubmitRequest{Pool: "gpu"})
	p.submit(tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 2})
	var got []string
	for _, a := range p.claim("w1", 10) {
		got = append(got, a.TaskID)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("claimed %v, want %v", got, want)
	}
}

func TestAMachineActsOnlyForItself(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	ctx := context.Background()
	serve := func(pool string) bool { return pool == "deployment:d1" }
	a := servertasks.Caller{Project: project, Machine: "mch_a", MayServe: serve}
	b := servertasks.Caller{Project: project, Machine: "mch_b", MayServe: serve}
	reg := tasks.RegisterRequest{WorkerID: "mch_a", MaxConcurrent: 1, Pools: []string{"deployment:d1"},
		Handlers: []tasks.Handler{{Type: "demo/hello", SchemaVersion: 1, EffectSafety: tasks.Pure}}}
	if _, err := p.core.Register(ctx, a, reg); err != nil {
		t.Fatal(err)
	}
	_, err := p.core.Register(ctx, b, reg)
	wantCode(t, err, fault.ScopeDenied)
	_, err = p.core.Register(ctx, caller, reg)
	wantCode(t, err, fault.ScopeDenied)
	reg.Pools = []string{"deployment:d2"}
	_, err = p.core.Register(ctx, a, reg)
	wantCode(t, err, fault.ScopeDenied)

	p.submit(tasks.SubmitRequest{Pool: "deployment:d1"})
	for _, c := range []servertasks.Caller{b, caller} {
		_, err = p.core.Claim(ctx, c, tasks.ClaimRequest{WorkerID: "mch_a", Max: 1})
		wantCode(t, err, fault.ScopeDenied)
	}
	r, err := p.core.Claim(ctx, a, tasks.ClaimRequest{WorkerID: "mch_a", Max: 1})
	if err != nil || len(r.Attempts) != 1 {
		t.Fatalf("claimed %+v, %v", r, err)
	}
	ref := r.Attempts[0].Ref
	for _, c := range []servertasks.Caller{b, caller} { // even with the token
		_, err = p.core.Fail(ctx, c, tasks.FailReport{Ref: ref})
		wantCode(t, err, fault.ScopeDenied)
		_, err = p.core.Delta(ctx, c, tasks.DeltaReport{Ref: ref, Text: "x"})
		wantCode(t, err, fault.ScopeDenied)
	}
	ws, err := p.core.Workers(ctx, project)
	if err != nil || len(ws) != 1 || ws[0].Machine != "mch_a" || ws[0].State != servertasks.WorkerFull {
		t.Fatalf("workers %+v, %v", ws, err)
	}
}

func TestAWorkersEventStreamHintsAtWork(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	hints, cancel := p.core.SubscribeWorker(project, "w1") // before it registers
	defer cancel()
	p.register("w1", 1, tasks.Pure)
	<-hints
	p.submit(tasks.SubmitRequest{})
	<-hints
	p.submit(tasks.SubmitRequest{Type: "demo/other", SchemaVersion: 1})
	select {
	case <-hints:
		t.Fatal("a hint at work that the worker cannot do")
	default:
	}
}
