package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// plane is a control plane in memory. Its hooks, set before the worker runs, answer instead of it.
type plane struct {
	t     testing.TB
	clock *clock.Fake

	mu      sync.Mutex
	changed chan struct{}
	queue   []tasks.Attempt
	number  int
	over    bool // Run returned

	registered  []tasks.RegisterRequest
	claims      []tasks.ClaimRequest
	renewals    []tasks.RenewRequest
	progress    []tasks.ProgressReport
	logs        []tasks.LogReport
	deltas      []tasks.DeltaReport
	completions []tasks.CompleteRequest
	fails       []tasks.FailReport
	unknowns    []tasks.UnknownReport
	parked      map[string]int // claims that wait, by pool
	streams     map[string]string
	events      chan client.Event

	onRegister func(tasks.RegisterRequest) error
	onClaim    func(tasks.ClaimRequest) error
	onAnswer   func(tasks.ClaimRequest) []tasks.Attempt // of a claim, whatever was registered meanwhile
	onRenew    func(context.Context, tasks.RenewRequest) (tasks.RenewResponse, error)
	onDelta    func(context.Context, tasks.DeltaReport) (tasks.DeltaResponse, error)
	onComplete func(context.Context, tasks.CompleteRequest) (tasks.CompleteResponse, error)
	onFail     func(tasks.FailReport) (tasks.Outcome, error)
	onProgress func(context.Context, tasks.ProgressReport) error
	onLog      func(context.Context, tasks.LogReport) error
}

func newFake(t testing.TB) *plane {
	return &plane{
		t: t, clock: clock.NewFake(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), changed: make(chan struct{}),
		parked: map[string]int{}, streams: map[string]string{}, events: make(chan client.Event),
	}
}

var away = fault.New(fault.Unavailable, "away")

// note runs fn under the lock and wakes who waits.
func (p *plane) note(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	close(p.changed)
	p.changed = make(chan struct{})
}

// until waits for a condition, which is looked at under the lock.
func (p *plane) until(what string, cond func() bool) {
	p.t.Helper()
	deadline := time.After(testkit.Patience)
	for {
		p.mu.Lock()
		ok, changed := cond(), p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-time.After(2 * time.Millisecond): // for what the worker does without telling the control plane
		case <-deadline:
			p.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// quiet is how long nothing happens before pass moves the clock: a lease, which is thirty of its steps, must not
// run out because this machine is busy.
const quiet = 10 * time.Millisecond

// pass moves the clock on in steps until a condition holds.
func (p *plane) pass(step time.Duration, what string, cond func() bool) {
	p.t.Helper()
	deadline := time.After(testkit.Patience)
	for {
		p.mu.Lock()
		ok, changed := cond(), p.changed
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-time.After(quiet): // whoever waits for the clock waits by now, or in the next round
			p.clock.Advance(step)
		case <-deadline:
			p.t.Fatalf("let time pass for %s", what)
		}
	}
}

// add queues tasks of the type demo/hello in a pool.
func (p *plane) add(pool string, n int) {
	p.note(func() {
		for range n {
			p.number++
			id := fmt.Sprintf("tsk_%d", p.number)
			p.queue = append(p.queue, tasks.Attempt{
				Ref:    tasks.Ref{TaskID: id, AttemptID: fmt.Sprintf("att_%d", p.number), Fence: 1, LeaseToken: "lse_x"},
				Number: 1, Type: "demo/hello", SchemaVersion: 1, Pool: pool, EffectKey: id, LeaseMs: 30_000,
				Input: json.RawMessage(fmt.Sprintf(`%d`, p.number)),
			})
		}
	})
}

func (p *plane) RegisterWorker(_ context.Context, req tasks.RegisterRequest) (tasks.RegisterResponse, error) {
	p.note(func() { p.registered = append(p.registered, req) })
	if p.onRegister != nil {
		if err := p.onRegister(req); err != nil {
			return tasks.RegisterResponse{}, err
		}
	}
	return tasks.RegisterResponse{LeaseMs: 30_000, SeenMs: 30_000}, nil
}

func (p *plane) ClaimTasks(ctx context.Context, req tasks.ClaimRequest) (tasks.ClaimResponse, error) {
	var out tasks.ClaimResponse
	first := 0
	p.note(func() {
		p.claims = append(p.claims, req)
		p.parked[req.Pools[0]]++
		first = len(p.registered)
	})
	defer p.note(func() { p.parked[req.Pools[0]]-- })
	if p.onClaim != nil {
		if err := p.onClaim(req); err != nil {
			return out, err
		}
	}
	if p.onAnswer != nil {
		if out.Attempts = p.onAnswer(req); len(out.Attempts) > 0 {
			return out, nil
		}
	}
	timeout := p.clock.After(time.Duration(req.WaitMs) * time.Millisecond)
	for {
		p.mu.Lock()
		newest := p.registered[len(p.registered)-1]
		for i := 0; i < len(p.queue) && len(out.Attempts) < req.Max && !newest.Draining; {
			if a := p.queue[i]; slices.Contains(req.Pools, a.Pool) && slices.Contains(newest.Pools, a.Pool) {
				out.Attempts = append(out.Attempts, a)
				p.queue = slices.Delete(p.queue, i, i+1)
				continue
			}
			i++
		}
		nothing := len(p.registered) > first && (newest.Draining || !slices.Contains(newest.Pools, req.Pools[0]))
		changed := p.changed
		p.mu.Unlock()
		if len(out.Attempts) > 0 || nothing {
			return out, nil
		}
		select {
		case <-changed:
		case <-timeout:
			return out, nil
		case <-ctx.Done():
			return out, context.Cause(ctx)
		}
	}
}

func (p *plane) RenewTasks(ctx context.Context, req tasks.RenewRequest) (out tasks.RenewResponse, err error) {
	defer p.note(func() { p.renewals = append(p.renewals, req) })
	if p.onRenew != nil {
		return p.onRenew(ctx, req)
	}
	return renewed(req), nil
}

func renewed(req tasks.RenewRequest) (out tasks.RenewResponse) {
	for _, ref := range req.Attempts {
		out.Renewals = append(out.Renewals, tasks.Renewal{AttemptID: ref.AttemptID, LeaseMs: 30_000})
	}
	return out
}

func (p *plane) ReportProgress(ctx context.Context, req tasks.ProgressReport) (err error) {
	if p.onProgress != nil {
		err = p.onProgress(ctx, req)
	}
	p.note(func() { p.progress = append(p.progress, req) })
	return err
}

func (p *plane) ReportLog(ctx context.Context, req tasks.LogReport) (err error) {
	if p.onLog != nil {
		err = p.onLog(ctx, req)
	}
	p.note(func() { p.logs = append(p.logs, req) })
	return err
}

func (p *plane) ReportDelta(ctx context.Context, req tasks.DeltaReport) (out tasks.DeltaResponse, err error) {
	if p.onDelta != nil {
		out, err = p.onDelta(ctx, req)
	} else {
		out, err = p.hold(req)
	}
	p.note(func() { p.deltas = append(p.deltas, req) })
	return out, err
}

// hold is what a control plane does with a delta, all of which becomes durable at once.
func (p *plane) hold(req tasks.DeltaReport) (out tasks.DeltaResponse, err error) {
	p.note(func() {
		held := p.streams[req.AttemptID]
		if req.Offset > int64(len(held)) {
			err = fault.New(fault.StreamGap, "gap").With("durableTo", float64(len(held)))
			return
		}
		if end := req.Offset + int64(len(req.Text)); end > int64(len(held)) {
			p.streams[req.AttemptID] = held + req.Text[int64(len(held))-req.Offset:]
		}
		out.DurableTo = int64(len(p.streams[req.AttemptID]))
	})
	return out, err
}

func (p *plane) CompleteTasks(ctx context.Context, req tasks.CompleteRequest) (out tasks.CompleteResponse, err error) {
	defer p.note(func() { p.completions = append(p.completions, req) })
	if p.onComplete != nil {
		return p.onComplete(ctx, req)
	}
	return completed(req), nil
}

func completed(req tasks.CompleteRequest) (out tasks.CompleteResponse) {
	for _, c := range req.Completions {
		out.Outcomes = append(out.Outcomes, tasks.Outcome{TaskID: c.TaskID, State: tasks.Succeeded})
	}
	return out
}

func (p *plane) FailTask(_ context.Context, req tasks.FailReport) (out tasks.Outcome, err error) {
	defer p.note(func() { p.fails = append(p.fails, req) })
	if p.onFail != nil {
		return p.onFail(req)
	}
	return tasks.Outcome{TaskID: req.TaskID, State: tasks.Failed}, nil
}

func (p *plane) ReportUnknown(_ context.Context, req tasks.UnknownReport) (tasks.Outcome, error) {
	p.note(func() { p.unknowns = append(p.unknowns, req) })
	return tasks.Outcome{TaskID: req.TaskID, State: tasks.OutcomeUnknown}, nil
}

func (p *plane) Follow(ctx context.Context, _, _ string, fn func(client.Event) error, _ ...client.CallOption) error {
	for {
		select {
		case ev := <-p.events:
			if err := fn(ev); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run starts a worker with one handler and returns it and how to end it.
func (p *plane) run(o worker.Options, safety tasks.EffectSafety, fn worker.HandlerFunc) (*worker.Worker, func() error) {
	p.t.Helper()
	o.WorkerID, o.Clock = "w1", p.clock
	w, err := worker.New(p, o)
	if err == nil {
		err = w.Handle("demo/hello", 1, safety, fn)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		err := w.Run(ctx)
		done <- err
		p.note(func() { p.over = true })
	}()
	end := sync.OnceValue(func() error {
		cancel()
		for {
			select {
			case err := <-done:
				return err
			case <-time.After(2 * time.Millisecond):
				p.clock.Advance(time.Second)
			}
		}
	})
	p.t.Cleanup(func() { _ = end() })
	return w, end
}

// completedIDs are the tasks whose completions were sent.
func (p *plane) completedIDs() (ids []string) {
	for _, req := range p.completions {
		for _, c := range req.Completions {
			ids = append(ids, c.TaskID)
		}
	}
	return ids
}
