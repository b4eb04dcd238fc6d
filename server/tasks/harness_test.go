package servertasks_test

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/store"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// reporter is what a test and a property have in common.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Error(args ...any)
}

// plane is a task core over a real database and a clock that a test moves.
type plane struct {
	t      reporter
	dir    string
	clock  *clock.Fake
	db     *store.DB
	core   *servertasks.Service
	hooks  []servertasks.EndHook
	rounds int
	typ    string // of what it submits and handles
}

const project = "demo"

var caller = servertasks.Caller{Project: project}

func newPlane(t testing.TB, hooks ...servertasks.EndHook) *plane {
	t.Helper()
	p := &plane{t: t, dir: t.TempDir(), clock: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), hooks: hooks, typ: "demo/hello"}
	p.start()
	t.Cleanup(func() { p.t = t; p.stop() })
	return p
}

// round gives the plane to the next run of a property, which meets no task of the runs before: opening
// a database for each would take most of the time.
func (p *plane) round(t reporter) {
	p.t = t
	p.rounds++
	p.typ = "round/" + strconv.Itoa(p.rounds)
}

func (p *plane) start() {
	p.t.Helper()
	db, err := store.Open(context.Background(), store.Options{Dir: p.dir, Clock: p.clock})
	if err != nil {
		p.t.Fatal(err)
	}
	p.db = db
	p.core = servertasks.New(servertasks.Options{DB: db, Clock: p.clock})
	for _, h := range p.hooks {
		p.core.OnEnd(h)
	}
	p.sweep()
}

func (p *plane) stop() {
	p.t.Helper()
	if err := p.core.Close(context.Background()); err != nil {
		p.t.Error(err)
	}
	if err := p.db.Close(context.Background()); err != nil {
		p.t.Error(err)
	}
}

// crash restarts the control plane without letting it save what it only had in memory.
func (p *plane) crash() {
	p.t.Helper()
	if err := p.db.Close(context.Background()); err != nil {
		p.t.Fatal(err)
	}
	_ = p.core.Close(context.Background()) // ends its goroutines; the database is gone for it
	p.start()
}

// crashes says whether a property crashes the control plane where it could: one time in three, more
// than a hundred times in all. Opening the database again costs more than all the rest together.
func crashes(rt *rapid.T) bool { return rapid.IntRange(0, 2).Draw(rt, "crash") == 2 }

func (p *plane) sweep() {
	p.t.Helper()
	if err := p.core.Sweep(context.Background()); err != nil {
		p.t.Fatal(err)
	}
}

// advance moves the clock in steps that are no jump, and reaps.
func (p *plane) advance(d time.Duration) {
	p.t.Helper()
	p.clock.Advance(d)
	p.sweep()
}

func (p *plane) submit(req tasks.SubmitRequest) tasks.View {
	p.t.Helper()
	if req.Type == "" {
		req.Type, req.SchemaVersion = p.typ, 1
	}
	v, err := p.core.Submit(context.Background(), project, req)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *plane) register(id string, max int, safety tasks.EffectSafety) {
	p.t.Helper()
	_, err := p.core.Register(context.Background(), caller, tasks.RegisterRequest{
		WorkerID: id, MaxConcurrent: max, Handlers: []tasks.Handler{{Type: p.typ, SchemaVersion: 1, EffectSafety: safety}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *plane) claim(worker string, max int) []tasks.Attempt {
	p.t.Helper()
	r, err := p.core.Claim(context.Background(), caller, tasks.ClaimRequest{WorkerID: worker, Max: max})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Attempts
}

// one registers a worker, submits a task and claims it.
func (p *plane) one(safety tasks.EffectSafety, req tasks.SubmitRequest) tasks.Attempt {
	p.t.Helper()
	p.register("w1", 1, safety)
	p.submit(req)
	got := p.claim("w1", 1)
	if len(got) != 1 {
		p.t.Fatalf("claimed %d attempts, want 1", len(got))
	}
	return got[0]
}

func (p *plane) complete(a tasks.Attempt, result string, streamed int64) tasks.Outcome {
	p.t.Helper()
	r, err := p.core.Complete(context.Background(), caller, tasks.CompleteRequest{
		Completions: []tasks.Completion{{Ref: a.Ref, Result: json.RawMessage(result), StreamBytes: streamed}},
	})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Outcomes[0]
}

func (p *plane) fail(a tasks.Attempt, f tasks.Failure, returned bool) tasks.State {
	p.t.Helper()
	o, err := p.core.Fail(context.Background(), caller, tasks.FailReport{Ref: a.Ref, Failure: f, Returned: returned})
	if err != nil {
		p.t.Fatal(err)
	}
	return o.State
}

func (p *plane) renew(a tasks.Attempt) tasks.Renewal {
	p.t.Helper()
	r, err := p.core.Renew(context.Background(), caller, tasks.RenewRequest{WorkerID: "w1", Attempts: []tasks.Ref{a.Ref}})
	if err != nil {
		p.t.Fatal(err)
	}
	return r.Renewals[0]
}

func (p *plane) get(id string) tasks.View {
	p.t.Helper()
	v, err := p.core.Get(context.Background(), project, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return v
}

func (p *plane) wantState(id string, want tasks.State) tasks.View {
	p.t.Helper()
	v := p.get(id)
	if v.State != want {
		p.t.Fatalf("task is %s, want %s", v.State, want)
	}
	return v
}

// kinds are the kinds of a task's journal; it fails unless the numbers are 1, 2, 3, …
func (p *plane) kinds(id string) []tasks.EntryKind {
	p.t.Helper()
	j, err := p.core.Journal(context.Background(), project, id, 0, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	var kinds []tasks.EntryKind
	for i, e := range j.Entries {
		if e.Seq != int64(i+1) {
			p.t.Fatalf("entry %d has number %d", i+1, e.Seq)
		}
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func wantCode(t reporter, err error, want fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Fatalf("error %v has code %s, want %s", err, fault.CodeOf(err), want)
	}
}

func wantStale(t reporter, a *tasks.Answer) {
	t.Helper()
	if a == nil || a.Code != string(fault.StaleAttempt) {
		t.Fatalf("answer %+v, want STALE_ATTEMPT", a)
	}
}
