package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"interlock.sh/tasks"
	"interlock.sh/worker"
)

const hoursEnded = "the owner's hours ended"

// holding makes a handler that says that it runs (nil), waits for its context's end, and says why that was.
// A deaf one waits until over instead.
func holding(running chan<- any, deaf bool, over <-chan struct{}) worker.HandlerFunc {
	return func(ctx context.Context, _ *worker.Task) (any, error) {
		running <- nil
		if deaf {
			<-over
			return "too late", nil
		}
		<-ctx.Done()
		running <- context.Cause(ctx)
		return nil, ctx.Err()
	}
}

func TestHandBackGivesUpWhatIsInHandAndTheWorkerGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		safety tasks.EffectSafety
		deaf   bool
	}{
		"pure":                 {tasks.Pure, false},
		"idempotent":           {tasks.Idempotent, false},
		"non-idempotent":       {tasks.NonIdempotent, false},
		"pure, deaf":           {tasks.Pure, true},
		"idempotent, deaf":     {tasks.Idempotent, true},
		"non-idempotent, deaf": {tasks.NonIdempotent, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			running, over := make(chan any, 4), make(chan struct{})
			w, end := p.run(worker.Options{Spool: t.TempDir()}, c.safety, holding(running, c.deaf, over))
			p.add("default", 1)
			<-running
			handed := make(chan error, 1)
			w.Drain()
			go func() { handed <- w.HandBack(t.Context(), hoursEnded) }()
			if !c.deaf {
				if err, _ := (<-running).(error); !errors.Is(err, worker.ErrStopping) || err.Error() != hoursEnded {
					t.Errorf("the handler's context ended with %v", err)
				}
			}
			p.pass(time.Second, "the end to be answered", func() bool { return len(p.fails)+len(p.unknowns) == 1 })
			if err := <-handed; err != nil {
				t.Fatal(err)
			}
			if c.safety == tasks.NonIdempotent {
				if len(p.unknowns) != 1 || !strings.Contains(p.unknowns[0].Reason, hoursEnded) {
					t.Errorf("reported %+v %+v", p.unknowns, p.fails)
				}
			} else if f := p.fails; len(f) != 1 || !f[0].Returned || f[0].Unbegun || f[0].Code != worker.CodeReturned || f[0].Message != hoursEnded {
				t.Errorf("reported %+v", f)
			}
			if s := w.Stats(); s.Held != 0 || !s.Draining || s.Returned+s.Unknown != 1 {
				t.Errorf("stats %+v", s)
			}
			close(over)
			p.until("a free slot", func() bool { return w.Stats().Pools["default"].Busy == 0 })
			w.Resume()
			p.add("default", 1)
			<-running // it claims again
			if n := len(p.completedIDs()); n != 0 {
				t.Errorf("%d completions of what was handed back", n)
			}
			_ = end()
		})
	}
}

// A handler that finishes because it was asked to stop keeps its result: work that is done is not thrown away.
func TestHandBackKeepsAResult(t *testing.T) {
	p := newFake(t)
	running := make(chan struct{})
	w, _ := p.run(worker.Options{}, tasks.NonIdempotent, func(ctx context.Context, _ *worker.Task) (any, error) {
		close(running)
		<-ctx.Done()
		return "just in time", nil
	})
	p.add("default", 1)
	<-running
	if err := w.HandBack(t.Context(), hoursEnded); err != nil {
		t.Fatal(err)
	}
	if len(p.completedIDs()) != 1 || len(p.unknowns) != 0 {
		t.Errorf("reported %v, %v", p.completedIDs(), p.unknowns)
	}
}

func TestHandBackOfNothing(t *testing.T) {
	p := newFake(t)
	w, _ := p.run(worker.Options{}, tasks.Pure, nothing)
	if err := w.HandBack(t.Context(), hoursEnded); err != nil {
		t.Fatal(err)
	}
}

// A Resume that comes in between is not undone: the attempt goes back, and the worker claims on.
func TestHandBackOfAWorkerThatClaims(t *testing.T) {
	p := newFake(t)
	running := make(chan any, 4)
	w, _ := p.run(worker.Options{}, tasks.Pure, holding(running, false, nil))
	p.add("default", 1)
	<-running
	w.Drain()
	w.Resume()
	if err := w.HandBack(t.Context(), hoursEnded); err != nil {
		t.Fatal(err)
	}
	<-running // its context ended
	p.add("default", 1)
	if got := <-running; got != nil {
		t.Fatal(got)
	}
	if s := w.Stats(); s.Draining || s.Returned != 1 || s.Held != 1 {
		t.Errorf("stats %+v", s)
	}
}

// What a parked claim brings after the owner wanted the machine back was never begun, so that even what
// must not repeat may run elsewhere.
func TestHandBackOfWhatAClaimUnderWayBrings(t *testing.T) {
	p := newFake(t)
	asked, answer := make(chan struct{}), make(chan struct{})
	first := true
	p.onAnswer = func(tasks.ClaimRequest) []tasks.Attempt {
		if !first {
			return nil
		}
		first = false
		close(asked)
		<-answer
		return []tasks.Attempt{{
			Ref:    tasks.Ref{TaskID: "tsk_1", AttemptID: "att_1", Fence: 1, LeaseToken: "lse_x"},
			Number: 1, Type: "demo/hello", SchemaVersion: 1, Pool: "default", LeaseMs: 30_000,
		}}
	}
	ran := make(chan struct{}, 1)
	w, _ := p.run(worker.Options{}, tasks.NonIdempotent, func(context.Context, *worker.Task) (any, error) {
		ran <- struct{}{}
		return nil, nil
	})
	<-asked
	w.Drain()
	if err := w.HandBack(t.Context(), hoursEnded); err != nil {
		t.Fatal(err)
	}
	close(answer)
	p.until("the attempt to go back", func() bool { return len(p.fails) == 1 })
	if f := p.fails[0]; !f.Returned || !f.Unbegun || f.Message != hoursEnded || len(p.unknowns) != 0 || len(ran) != 0 {
		t.Errorf("reported %+v %+v, ran %d", p.fails, p.unknowns, len(ran))
	}
}

// The control plane is away while the machine is taken back: the hand-back waits in the spool, and what the
// deaf handler returns in the end never takes its place.
func TestTheSpoolReplaysAHandBackAndNoResult(t *testing.T) {
	p, dir := newFake(t), t.TempDir()
	p.onFail = func(tasks.FailReport) (tasks.Outcome, error) { return tasks.Outcome{}, away }
	running, over := make(chan any, 1), make(chan struct{})
	w, end := p.run(worker.Options{Spool: dir}, tasks.Pure, holding(running, true, over))
	p.add("default", 1)
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	handed := make(chan error, 1)
	go func() { handed <- w.HandBack(ctx, hoursEnded) }()
	p.pass(time.Second, "a try to hand back", func() bool { return len(p.fails) > 0 })
	cancel()
	if err := <-handed; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 attempts") {
		t.Fatalf("HandBack returned %v", err)
	}
	close(over)
	p.until("the handler to return", func() bool { return w.Stats().Pools["default"].Busy == 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if st, err := worker.CheckSpool(dir); err != nil || st.Pending != 1 {
		t.Fatalf("the spool has %+v: %v", st, err)
	}

	q := newFake(t)
	_, endAgain := q.run(worker.Options{Spool: dir}, tasks.Pure, nothing)
	q.until("the replay", func() bool { return len(q.fails) == 1 })
	_ = endAgain()
	if f := q.fails[0]; !f.Returned || f.AttemptID != "att_1" || len(q.completedIDs()) != 0 {
		t.Errorf("replayed %+v and %v", q.fails, q.completedIDs())
	}
	if st, err := worker.CheckSpool(dir); err != nil || st.Pending != 0 {
		t.Errorf("the spool has %+v: %v", st, err)
	}
}
