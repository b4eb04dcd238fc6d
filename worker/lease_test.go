package worker_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// untilDone is a handler that works until its context ends; it tells why and returns err.
func untilDone(causes chan<- error, err error) worker.HandlerFunc {
	return func(ctx context.Context, _ *worker.Task) (any, error) {
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil, err
	}
}

func TestRenewalGoesOnWhileEveryHandlerBlocks(t *testing.T) {
	p := newFake(t)
	release := make(chan struct{})
	_, end := p.run(worker.Options{MaxConcurrent: 3}, tasks.Pure, func(ctx context.Context, _ *worker.Task) (any, error) {
		<-release
		return nil, context.Cause(ctx)
	})
	p.add("default", 3)
	p.until("three claimed", func() bool { return len(p.queue) == 0 })
	begin := p.clock.Now()
	p.pass(time.Second, "twelve renewals", func() bool { return len(p.renewals) == 12 })
	if d := p.clock.Now().Sub(begin); d < 90*time.Second {
		t.Errorf("12 renewals in %v: more often than at a third of the lease", d)
	}
	for _, r := range p.renewals[1:] {
		if len(r.Attempts) != 3 {
			t.Fatalf("a renewal has %d attempts, want all 3", len(r.Attempts))
		}
	}
	close(release)
	p.until("three ends", func() bool { return len(p.completedIDs()) == 3 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
}

func TestFailedRenewalIsRepeatedAndTheAttemptLives(t *testing.T) {
	p := newFake(t)
	var tries atomic.Int32
	p.onRenew = func(_ context.Context, req tasks.RenewRequest) (tasks.RenewResponse, error) {
		if tries.Add(1) < 5 {
			return tasks.RenewResponse{}, away
		}
		return renewed(req), nil
	}
	release := make(chan struct{})
	p.run(worker.Options{}, tasks.Pure, func(ctx context.Context, _ *worker.Task) (any, error) {
		<-release
		return nil, context.Cause(ctx)
	})
	p.add("default", 1)
	p.until("a claim", func() bool { return len(p.queue) == 0 })
	begin := p.clock.Now()
	p.pass(250*time.Millisecond, "a renewal that succeeds", func() bool { return len(p.renewals) == 5 })
	if d := p.clock.Now().Sub(begin); d > 30*time.Second {
		t.Errorf("renewed after %v", d)
	}
	close(release)
	p.until("the end", func() bool { return len(p.completedIDs()) == 1 })
}

func TestLeaseThatCannotBeRenewedIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		result any
		err    error
		ends   int
	}{
		"a handler that stops reports nothing": {nil, errors.New("stopped"), 0},
		"a result is sent all the same":        {"done", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			p.onRenew = func(context.Context, tasks.RenewRequest) (tasks.RenewResponse, error) {
				return tasks.RenewResponse{}, away
			}
			causes := make(chan error, 1)
			w, end := p.run(worker.Options{}, tasks.Pure, func(ctx context.Context, _ *worker.Task) (any, error) {
				<-ctx.Done()
				p.note(func() { causes <- context.Cause(ctx) })
				return c.result, c.err
			})
			p.add("default", 1)
			p.until("a claim", func() bool { return len(p.queue) == 0 })
			begin := p.clock.Now()
			p.pass(250*time.Millisecond, "the lease's end", func() bool { return len(causes) == 1 })
			if d := p.clock.Now().Sub(begin); d < 29*time.Second || d > 35*time.Second {
				t.Errorf("given up after %v, the lease is 30 s", d)
			}
			if err := <-causes; !errors.Is(err, worker.ErrStale) {
				t.Errorf("the context ended with %v", err)
			}
			p.until("the next claim", func() bool { return w.Stats().Held == 0 && p.parked["default"] == 1 })
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if len(p.completedIDs()) != c.ends || len(p.fails) != 0 || len(p.unknowns) != 0 {
				t.Errorf("reported %v %v %v", p.completedIDs(), p.fails, p.unknowns)
			}
		})
	}
}

// stale is the answer for an attempt that was replaced.
func stale() *tasks.Answer {
	return &tasks.Answer{Code: string(fault.StaleAttempt), Message: "replaced"}
}

func TestStaleAttemptIsSilencedEverywhere(t *testing.T) {
	for name, arm := range map[string]func(*plane){
		"renewal": func(p *plane) {
			p.onRenew = func(_ context.Context, req tasks.RenewRequest) (tasks.RenewResponse, error) {
				return tasks.RenewResponse{Renewals: []tasks.Renewal{{AttemptID: req.Attempts[0].AttemptID, Error: stale()}}}, nil
			}
		},
		"delta": func(p *plane) {
			p.onDelta = func(context.Context, tasks.DeltaReport) (tasks.DeltaResponse, error) {
				return tasks.DeltaResponse{}, fault.New(fault.StaleAttempt, "replaced")
			}
		},
		"progress": func(p *plane) {
			p.onProgress = func(context.Context, tasks.ProgressReport) error { return fault.New(fault.StaleAttempt, "replaced") }
		},
		"log": func(p *plane) {
			p.onLog = func(context.Context, tasks.LogReport) error { return fault.New(fault.StaleAttempt, "replaced") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			arm(p)
			causes := make(chan error, 1)
			spool := t.TempDir()
			w, end := p.run(worker.Options{Spool: spool}, tasks.NonIdempotent, func(ctx context.Context, task *worker.Task) (any, error) {
				switch name {
				case "delta":
					_, _ = task.WriteString("text")
				case "progress":
					task.Progress(1, "")
				case "log":
					task.Log("info", "line")
				}
				<-ctx.Done()
				p.note(func() { causes <- context.Cause(ctx) })
				return "too late", nil
			})
			p.add("default", 1)
			p.pass(time.Second, "the handler's end", func() bool { return len(causes) == 1 })
			if err := <-causes; !errors.Is(err, worker.ErrStale) {
				t.Errorf("the context ended with %v", err)
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if len(p.completedIDs())+len(p.fails)+len(p.unknowns) != 0 {
				t.Errorf("reported %v %v %v", p.completedIDs(), p.fails, p.unknowns)
			}
			if s := w.Stats(); s.Stale != 1 || s.Handled != 0 {
				t.Errorf("stats are %+v", s)
			}
			if st, err := worker.CheckSpool(spool); err != nil || st.Pending != 0 {
				t.Errorf("the spool holds %+v, %v", st, err)
			}
		})
	}
}

func TestCancelRequestReachesTheHandlerAndIsAcknowledged(t *testing.T) {
	for name, arm := range map[string]func(*plane){
		"by a renewal": func(p *plane) {
			p.onRenew = func(_ context.Context, req tasks.RenewRequest) (tasks.RenewResponse, error) {
				out := renewed(req)
				out.Renewals[0].Cancel, out.Renewals[0].CancelReason = true, "enough"
				return out, nil
			}
		},
		"by a delta": func(p *plane) {
			p.onDelta = func(context.Context, tasks.DeltaReport) (tasks.DeltaResponse, error) {
				return tasks.DeltaResponse{Cancel: true}, nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			arm(p)
			causes := make(chan error, 1)
			p.run(worker.Options{}, tasks.Pure, func(ctx context.Context, task *worker.Task) (any, error) {
				_, _ = task.WriteString("text")
				return untilDone(causes, ctx.Err())(ctx, task)
			})
			p.add("default", 1)
			p.pass(time.Second, "the acknowledgement", func() bool { return len(p.fails) == 1 || len(p.completedIDs()) == 1 })
			if err := <-causes; !errors.Is(err, worker.ErrCancelled) {
				t.Errorf("the context ended with %v", err)
			}
		})
	}
}

func TestCancelledHandlersEndIsReportedAsCancelled(t *testing.T) {
	p := newFake(t)
	p.onRenew = func(_ context.Context, req tasks.RenewRequest) (tasks.RenewResponse, error) {
		out := renewed(req)
		out.Renewals[0].Cancel = true
		return out, nil
	}
	causes := make(chan error, 1)
	w, end := p.run(worker.Options{}, tasks.NonIdempotent, untilDone(causes, errors.New("interrupted")))
	p.add("default", 1)
	p.pass(time.Second, "the acknowledgement", func() bool { return len(p.fails) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if f := p.fails[0]; f.Code != tasks.CodeCancelled || f.Returned {
		t.Errorf("reported %+v", f)
	}
	if s := w.Stats(); s.Cancelled != 1 || s.Failed != 0 {
		t.Errorf("stats are %+v", s)
	}
}

func TestHintRenewsSoon(t *testing.T) {
	p := newFake(t)
	running := make(chan struct{})
	p.run(worker.Options{}, tasks.Pure, func(ctx context.Context, _ *worker.Task) (any, error) {
		close(running)
		<-ctx.Done()
		return nil, nil
	})
	p.add("default", 1)
	testkit.Get(t, "the handler", running) // a hint of nothing in hand is passed over
	p.events <- client.Event{Event: "work"}
	p.until("a renewal, though no time passed", func() bool { return len(p.renewals) == 1 })
	p.events <- client.Event{Event: "work"}
	p.events <- client.Event{Event: "work"}
	begin := p.clock.Now()
	p.pass(100*time.Millisecond, "the next, but not at once", func() bool { return len(p.renewals) == 2 })
	if d := p.clock.Now().Sub(begin); d < 300*time.Millisecond || d > 5*time.Second {
		t.Errorf("renewed %v after the one before", d)
	}
}

func TestDeadlineOfTheTaskEndsTheHandler(t *testing.T) {
	p := newFake(t)
	causes := make(chan error, 1)
	p.add("default", 1)
	p.queue[0].DeadlineMs = 2000
	p.run(worker.Options{}, tasks.Pure, untilDone(causes, errors.New("out of time")))
	p.pass(100*time.Millisecond, "the failure", func() bool { return len(p.fails) == 1 })
	if err := <-causes; !errors.Is(err, context.DeadlineExceeded) || p.fails[0].Code != worker.CodeExpired {
		t.Errorf("the context ended with %v, reported %+v", err, p.fails)
	}
}
