package servertasks_test

import (
	"context"
	"testing"

	"interlock.sh/tasks"
)

// parkClaim starts a long poll and waits until it is parked.
func (p *plane) parkClaim(req tasks.ClaimRequest) <-chan []tasks.Attempt {
	p.t.Helper()
	got := make(chan []tasks.Attempt, 1)
	go func() {
		r, err := p.core.Claim(context.Background(), caller, req)
		if err != nil {
			p.t.Error(err)
		}
		got <- r.Attempts
	}()
	p.clock.AwaitWaiters(2) // the poll's end and its look of its own
	return got
}

func (p *plane) registerPools(draining bool, pools ...string) {
	p.t.Helper()
	_, err := p.core.Register(context.Background(), caller, tasks.RegisterRequest{
		WorkerID: "w1", MaxConcurrent: 4, Pools: pools, Draining: draining,
		Handlers: []tasks.Handler{{Type: "demo/hello", SchemaVersion: 1, EffectSafety: tasks.Pure}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func TestClaimNarrowsToPools(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.registerPools(false, "a", "b")
	p.submit(tasks.SubmitRequest{Pool: "a"})
	p.submit(tasks.SubmitRequest{Pool: "b"})
	claim := func(pools ...string) []tasks.Attempt {
		r, err := p.core.Claim(context.Background(), caller, tasks.ClaimRequest{WorkerID: "w1", Max: 4, Pools: pools})
		if err != nil {
			t.Fatal(err)
		}
		return r.Attempts
	}
	if got := claim("b"); len(got) != 1 || got[0].Pool != "b" {
		t.Fatalf("a claim of pool b got %+v", got)
	}
	if got := claim("c"); len(got) != 0 {
		t.Fatalf("a claim of a pool that is not registered got %+v", got)
	}
	if got := claim(); len(got) != 1 || got[0].Pool != "a" {
		t.Fatalf("a claim without pools got %+v", got)
	}
}

func TestParkedClaimIsWokenForItsPoolsOnly(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.registerPools(false, "a", "b")
	got := p.parkClaim(tasks.ClaimRequest{WorkerID: "w1", Max: 1, WaitMs: 25_000, Pools: []string{"b"}})
	p.submit(tasks.SubmitRequest{Pool: "a"})
	p.submit(tasks.SubmitRequest{Pool: "b"})
	if a := <-got; len(a) != 1 || a[0].Pool != "b" {
		t.Fatalf("the parked claim got %+v", a)
	}
}

func TestParkedClaimEndsWhenNothingIsLeftToWaitFor(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*plane){
		"draining":  func(p *plane) { p.registerPools(true, "a", "b") },
		"pool gone": func(p *plane) { p.registerPools(false, "a") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			p.registerPools(false, "a", "b")
			got := p.parkClaim(tasks.ClaimRequest{WorkerID: "w1", Max: 1, WaitMs: 25_000, Pools: []string{"b"}})
			change(p)
			if a := <-got; len(a) != 0 {
				t.Fatalf("the parked claim got %+v", a)
			}
		})
	}
}
