package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"interlock.sh/tasks"
	"interlock.sh/worker"
)

func TestStopLetsHandlersFinishWithinTheGrace(t *testing.T) {
	p := newFake(t)
	release := make(chan struct{})
	_, end := p.run(worker.Options{Grace: time.Hour}, tasks.NonIdempotent, func(ctx context.Context, _ *worker.Task) (any, error) {
		<-release
		return "done", ctx.Err()
	})
	p.add("default", 1)
	p.until("a claim", func() bool { return len(p.queue) == 0 })
	go func() {
		p.until("a draining registration", func() bool { return p.registered[len(p.registered)-1].Draining })
		close(release)
	}()
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if len(p.completedIDs()) != 1 || len(p.unknowns) != 0 {
		t.Errorf("reported %v, %v", p.completedIDs(), p.unknowns)
	}
	if last := p.registered[len(p.registered)-1]; !last.Draining || last.Running != 0 {
		t.Errorf("the last registration is %+v", last)
	}
}

func TestStopHandsBackWhatDoesNotFinish(t *testing.T) {
	for name, c := range map[string]struct {
		safety tasks.EffectSafety
		deaf   bool // the handler ignores its context
	}{
		"pure":                {tasks.Pure, false},
		"idempotent":          {tasks.Idempotent, false},
		"non-idempotent":      {tasks.NonIdempotent, false},
		"pure, deaf":          {tasks.Pure, true},
		"non-idempotent deaf": {tasks.NonIdempotent, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newFake(t)
			causes, over := make(chan error, 1), make(chan struct{})
			defer close(over)
			w, end := p.run(worker.Options{Grace: time.Minute}, c.safety, func(ctx context.Context, _ *worker.Task) (any, error) {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				if c.deaf {
					<-over
				}
				return nil, ctx.Err()
			})
			p.add("default", 1)
			p.until("a claim", func() bool { return len(p.queue) == 0 })
			begin := p.clock.Now()
			if err := end(); err != nil {
				t.Fatal(err)
			}
			if d := p.clock.Now().Sub(begin); d < time.Minute {
				t.Errorf("stopped after %v, the grace is a minute", d)
			}
			if err := <-causes; !errors.Is(err, worker.ErrStopping) {
				t.Errorf("the context ended with %v", err)
			}
			s := w.Stats()
			if c.safety == tasks.NonIdempotent {
				if len(p.unknowns) != 1 || len(p.fails) != 0 || s.Unknown != 1 {
					t.Errorf("reported %+v %+v, stats %+v", p.unknowns, p.fails, s)
				}
				return
			}
			if len(p.fails) != 1 || !p.fails[0].Returned || p.fails[0].Code != worker.CodeReturned || s.Returned != 1 {
				t.Errorf("reported %+v, stats %+v", p.fails, s)
			}
		})
	}
}

func TestStopBeforeTheControlPlaneWasReached(t *testing.T) {
	p := newFake(t)
	p.onRegister = func(tasks.RegisterRequest) error { return away }
	_, end := p.run(worker.Options{}, tasks.Pure, nothing)
	p.until("a try", func() bool { return len(p.registered) > 0 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	if len(p.claims) != 0 {
		t.Error("claimed without being registered")
	}
}
