package worker_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

var (
	_ worker.Transport         = (*client.Client)(nil)
	_ worker.ProducerTransport = (*client.Client)(nil)
	_ io.StringWriter          = (*worker.Task)(nil)
)

func nothing(context.Context, *worker.Task) (any, error) { return nil, nil }

func TestHandlersAreDeclaredFully(t *testing.T) {
	w, err := worker.New(newFake(t), worker.Options{WorkerID: "w1"})
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"safety missing":   w.Handle("demo/a", 1, "", nothing),
		"safety unknown":   w.Handle("demo/a", 1, "harmless", nothing),
		"version in type":  w.Handle("demo/a@1", 1, tasks.Pure, nothing),
		"version zero":     w.Handle("demo/a", 0, tasks.Pure, nothing),
		"no function":      w.Handle("demo/a", 1, tasks.Pure, nil),
		"first of its own": nil,
	} {
		if name != "first of its own" && err == nil {
			t.Errorf("%s: the handler was taken", name)
		}
	}
	if err := w.Handle("demo/a", 1, tasks.Pure, nothing); err != nil {
		t.Fatal(err)
	}
	if err := w.Handle("demo/a", 1, tasks.Pure, nothing); !errors.Is(err, fault.Conflict) {
		t.Errorf("a second handler of the same type and version: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.Handle("demo/b", 1, tasks.Pure, nothing); !errors.Is(err, fault.Conflict) {
		t.Errorf("a handler after Run: %v", err)
	}
	if err := w.Run(context.Background()); !errors.Is(err, fault.Conflict) {
		t.Errorf("a second Run: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]worker.Options{
		"no id":          {},
		"pool twice":     {WorkerID: "w", Pools: []worker.Pool{{Name: "a", Slots: 1}, {Name: "a", Slots: 1}}},
		"negative slots": {WorkerID: "w", Pools: []worker.Pool{{Name: "a", Slots: -1}}},
		"no name":        {WorkerID: "w", Pools: []worker.Pool{{Slots: 1}}},
		"too many":       {WorkerID: "w", Pools: make([]worker.Pool, 17)},
	} {
		if _, err := worker.New(newFake(t), o); !errors.Is(err, fault.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOutcomesOfHandlers(t *testing.T) {
	big := strings.Repeat("x", tasks.MaxInline)
	for name, c := range map[string]struct {
		run     worker.HandlerFunc
		result  string
		failure *tasks.Failure
		unknown string
	}{
		"result":    {func(context.Context, *worker.Task) (any, error) { return "a<b", nil }, `"a<b"`, nil, ""},
		"retryable": {func(context.Context, *worker.Task) (any, error) { return nil, worker.Retryable(errors.New("busy")) }, "", &tasks.Failure{Code: "HANDLER_FAILED", Message: "busy", Retryable: true}, ""},
		"own code":  {func(context.Context, *worker.Task) (any, error) { return nil, worker.Fail("NO_PAPER", "empty") }, "", &tasks.Failure{Code: "NO_PAPER", Message: "empty"}, ""},
		"coded": {func(context.Context, *worker.Task) (any, error) {
			return nil, worker.Retryable(fault.New(fault.QueueFull, "full"))
		}, "", &tasks.Failure{Code: "QUEUE_FULL", Message: "full", Retryable: true}, ""},
		"plain":     {func(context.Context, *worker.Task) (any, error) { return nil, errors.New("no") }, "", &tasks.Failure{Code: "HANDLER_FAILED", Message: "no"}, ""},
		"unknown":   {func(context.Context, *worker.Task) (any, error) { return nil, worker.Unknown("sent, no answer") }, "", nil, "sent, no answer"},
		"panic":     {func(context.Context, *worker.Task) (any, error) { panic("boom") }, "", &tasks.Failure{Code: "PANIC", Message: "the handler panicked: boom"}, ""},
		"too large": {func(context.Context, *worker.Task) (any, error) { return big, nil }, "", &tasks.Failure{Code: "RESULT_TOO_LARGE", Message: "the result is 262146 bytes; the inline limit is 262144. Store it as a file and return its hash, size and type"}, ""},
		"bad input": {func(_ context.Context, task *worker.Task) (any, error) {
			var in struct{ Name string }
			return nil, task.Decode(&in)
		}, "", &tasks.Failure{Code: "MALFORMED", Message: "the input of demo/hello@1 is not what its handler reads: json: cannot unmarshal number into Go value of type struct { Name string }"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			_, end := p.run(worker.Options{}, tasks.Idempotent, c.run)
			p.add("default", 2) // the second proves that the worker survived the first
			p.until("two ends", func() bool { return len(p.completedIDs())+len(p.fails)+len(p.unknowns) == 2 })
			if err := end(); err != nil {
				t.Fatal(err)
			}
			switch {
			case c.failure != nil:
				if len(p.fails) != 2 || p.fails[0].Failure != *c.failure {
					t.Fatalf("failures %+v, want %+v", p.fails, c.failure)
				}
			case c.unknown != "":
				if len(p.unknowns) != 2 || p.unknowns[0].Reason != c.unknown {
					t.Fatalf("unknowns %+v", p.unknowns)
				}
			default:
				if ids := p.completedIDs(); len(ids) != 2 || string(p.completions[0].Completions[0].Result) != c.result {
					t.Fatalf("completions %+v", p.completions)
				}
			}
		})
	}
}

func TestPoolsAreClaimedApartAndNeverOverfilled(t *testing.T) {
	p := newFake(t)
	var busyA, worst atomic.Int32
	release := make(chan struct{})
	w, end := p.run(worker.Options{Pools: []worker.Pool{{Name: "a", Slots: 2}, {Name: "b", Slots: 3}}}, tasks.Pure,
		func(_ context.Context, task *worker.Task) (any, error) {
			if task.Pool == "a" {
				worst.Store(max(worst.Load(), busyA.Add(1)))
				defer busyA.Add(-1)
			}
			<-release
			return nil, nil
		})
	p.add("a", 7)
	p.until("a full pool a, b parked", func() bool { return len(p.queue) == 5 && p.parked["b"] == 1 && p.parked["a"] == 0 })
	if s := w.Stats(); s.Pools["a"] != (worker.PoolStats{Slots: 2, Busy: 2}) || s.Pools["b"].Busy != 0 {
		t.Fatalf("stats are %+v", s)
	}
	close(release)
	p.until("all of pool a", func() bool { return len(p.completedIDs()) == 7 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if worst.Load() > 2 {
		t.Errorf("%d handlers of pool a at once, it has 2 slots", worst.Load())
	}
	for _, c := range p.claims {
		if len(c.Pools) != 1 || c.Max > map[string]int{"a": 2, "b": 3}[c.Pools[0]] {
			t.Errorf("claim %+v asks for more than its pool has", c)
		}
	}
}

func TestSetPoolsRegistersAtOnceAndEndsTheOldPoll(t *testing.T) {
	p := newFake(t)
	w, end := p.run(worker.Options{Pools: []worker.Pool{{Name: "a", Slots: 1}}}, tasks.Pure, nothing)
	p.until("a parked poll of a", func() bool { return p.parked["a"] == 1 })
	if err := w.SetPools([]worker.Pool{{Name: "b", Slots: 2}}); err != nil {
		t.Fatal(err)
	}
	p.until("the registration of b, its poll, and the end of a's", func() bool {
		last := p.registered[len(p.registered)-1]
		return slices.Equal(last.Pools, []string{"b"}) && last.MaxConcurrent == 2 && p.parked["b"] == 1 && p.parked["a"] == 0
	})
	p.add("b", 1)
	p.until("work of b", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestSayingTheSameAgainRegistersNothing(t *testing.T) {
	p := newFake(t)
	same := []worker.Pool{{Name: "b", Slots: 2}, {Name: "a", Slots: 1}}
	w, end := p.run(worker.Options{Pools: same}, tasks.Pure, nothing)
	p.until("parked polls", func() bool { return p.parked["a"] == 1 && p.parked["b"] == 1 })
	for n := range 20 {
		if err := w.SetPools(same); err != nil {
			t.Fatal(err)
		}
		w.Resume()
		p.add("a", 1)
		p.until("work of a", func() bool { return len(p.completedIDs()) == n+1 && p.parked["a"] == 1 })
	}
	if n := len(p.registered); n != 1 {
		t.Errorf("%d registrations, want the first alone", n)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestDrainKeepsWhatIsHeldAndResumes(t *testing.T) {
	p := newFake(t)
	release := make(chan struct{})
	w, end := p.run(worker.Options{MaxConcurrent: 2}, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
		<-release
		return nil, nil
	})
	p.add("default", 1)
	p.until("one held", func() bool { return len(p.queue) == 0 && p.parked["default"] == 1 })
	w.Drain()
	p.until("a draining registration and no poll", func() bool {
		return p.registered[len(p.registered)-1].Draining && p.parked["default"] == 0
	})
	p.add("default", 1)
	p.pass(time.Second, "a renewal while draining", func() bool { return len(p.renewals) > 0 })
	if len(p.queue) != 1 {
		t.Fatal("a draining worker claimed")
	}
	close(release)
	p.until("the held one's end", func() bool { return len(p.completedIDs()) == 1 })
	w.Resume()
	p.until("the other's end", func() bool { return len(p.completedIDs()) == 2 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestRetryAfterIsHonouredWhateverIsHinted(t *testing.T) {
	p := newFake(t)
	var down atomic.Bool
	down.Store(true)
	p.onClaim = func(tasks.ClaimRequest) error {
		if down.Load() {
			return fault.New(fault.Unavailable, "away").With("retryAfterSeconds", 5)
		}
		return nil
	}
	_, end := p.run(worker.Options{}, tasks.Pure, nothing)
	p.until("a claim", func() bool { return len(p.claims) == 1 })
	p.clock.AwaitWaiters(2) // the next registration, the next claim
	p.clock.Advance(4 * time.Second)
	p.events <- client.Event{Event: "work"}
	p.until("no claim yet", func() bool { return len(p.claims) == 1 })
	down.Store(false)
	p.add("default", 1)
	p.pass(500*time.Millisecond, "the claim that succeeds", func() bool { return len(p.completedIDs()) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestHintEndsTheWaitAfterAFailedClaim(t *testing.T) {
	p := newFake(t)
	var down atomic.Bool
	down.Store(true)
	p.onClaim = func(tasks.ClaimRequest) error {
		if down.Load() {
			return away
		}
		return nil
	}
	wake := make(chan struct{})
	p.run(worker.Options{Wake: wake}, tasks.Pure, nothing)
	p.add("default", 1)
	p.until("a claim", func() bool { return len(p.claims) > 0 })
	p.clock.AwaitWaiters(2)
	down.Store(false)
	wake <- struct{}{} // the clock stands still: nothing else ends the wait
	p.until("work", func() bool { return len(p.completedIDs()) == 1 })
}

func TestForgottenWorkerRegistersAgain(t *testing.T) {
	p := newFake(t)
	var forgot atomic.Bool
	p.onClaim = func(tasks.ClaimRequest) error {
		if forgot.CompareAndSwap(false, true) {
			return fault.New(fault.NotFound, "not registered")
		}
		return nil
	}
	p.run(worker.Options{}, tasks.Pure, nothing)
	p.until("a second registration", func() bool { return len(p.registered) == 2 })
}

func TestRegistrationIsRepeatedInTime(t *testing.T) {
	p := newFake(t)
	p.run(worker.Options{}, tasks.Pure, nothing)
	p.until("the first", func() bool { return len(p.registered) == 1 })
	p.clock.AwaitWaiters(1)
	begin := p.clock.Now()
	p.pass(250*time.Millisecond, "the second", func() bool { return len(p.registered) == 2 })
	if d := p.clock.Now().Sub(begin); d > 25*time.Second {
		t.Errorf("registered again after %v, seen for 30 s", d)
	}
}

func TestExpelledWorkerEnds(t *testing.T) {
	for name, code := range map[string]fault.Code{"revoked": fault.Revoked, "unknown": fault.Unauthenticated} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			p.onClaim = func(tasks.ClaimRequest) error { return fault.New(code, "no") }
			_, end := p.run(worker.Options{}, tasks.Pure, nothing)
			p.until("the end of Run", func() bool { return p.over })
			if err := end(); !errors.Is(err, code) {
				t.Errorf("Run returned %v", err)
			}
		})
	}
}

func TestPoolThatIsNotServedYetIsAskedForAgain(t *testing.T) {
	p := newFake(t)
	var tries atomic.Int32
	p.onRegister = func(tasks.RegisterRequest) error {
		if tries.Add(1) < 3 {
			return fault.New(fault.ScopeDenied, "may not serve").WithField("pools")
		}
		return nil
	}
	p.run(worker.Options{}, tasks.Pure, nothing)
	p.add("default", 1)
	p.pass(500*time.Millisecond, "work", func() bool { return len(p.completedIDs()) == 1 })
}
