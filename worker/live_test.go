package worker_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/server"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// livePlane is a real control plane over HTTP, with a key of each role.
type livePlane struct {
	t        testing.TB
	dir      string
	base     string
	stop     func()
	account  *client.Client
	worker   *client.Client
	keyID    string
	producer *worker.Producer
	clients  []*client.Client
}

const liveProject = "demo"

func newLive(t testing.TB) *livePlane {
	t.Helper()
	p := &livePlane{t: t, dir: t.TempDir()}
	owner := p.start("127.0.0.1:0")
	t.Cleanup(func() { p.stop() })
	ctx := t.Context()
	in, err := p.client("").Login(ctx, access.LoginRequest{Token: owner})
	p.must(err)
	p.account = p.client(in.Token).WithProject(liveProject)
	_, err = p.account.NewProject(ctx, access.NewProjectRequest{ID: liveProject})
	p.must(err)
	key := func(kind access.Kind) access.NewKey {
		k, err := p.account.NewKey(ctx, liveProject, access.NewKeyRequest{Kind: kind, Label: string(kind)})
		p.must(err)
		return k
	}
	w := key(access.TaskWorker)
	p.worker, p.keyID = p.client(w.Key), w.ID
	p.producer = worker.NewProducer(p.client(key(access.TaskProducer).Key))
	return p
}

func (p *livePlane) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *livePlane) client(credential string) *client.Client {
	p.t.Helper()
	c, err := client.New(client.Options{BaseURL: p.base, Credential: credential})
	p.must(err)
	p.clients = append(p.clients, c)
	return c
}

// start runs the control plane and returns the owner token of a first start.
func (p *livePlane) start(listen string) string {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	up, done, owner := make(chan string, 1), make(chan error, 1), ""
	go func() {
		done <- server.Run(ctx, server.Config{
			Data: p.dir, Listen: listen,
			Listening:  func(base, _ string) { up <- base },
			OwnerToken: func(token string) { owner = token },
		})
	}()
	select {
	case p.base = <-up:
	case err := <-done:
		p.t.Fatalf("the control plane did not start: %v", err)
	}
	p.stop = sync.OnceFunc(func() {
		for _, c := range p.clients { // a connection that was dialled and never used holds a shutdown up for 5 s
			c.Close()
		}
		cancel()
		if err := <-done; err != nil {
			p.t.Errorf("the control plane ended with %v", err)
		}
	})
	return owner
}

// run starts a worker and returns how to end it.
func (p *livePlane) run(w *worker.Worker) (end func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	end = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	p.t.Cleanup(func() { _ = end() })
	return end
}

func (p *livePlane) await(id string) tasks.View {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	v, err := p.producer.Await(ctx, id, 0)
	p.must(err)
	return v
}

func (p *livePlane) submit(req tasks.SubmitRequest) tasks.View {
	p.t.Helper()
	if req.Type == "" {
		req.Type = "demo/hello"
	}
	req.SchemaVersion = 1
	v, err := p.producer.Submit(p.t.Context(), req)
	p.must(err)
	return v
}

func TestLiveTasksFromSubmitToResult(t *testing.T) {
	p := newLive(t)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1", MaxConcurrent: 4, Spool: t.TempDir()})
	p.must(err)
	p.must(w.Handle("demo/hello", 1, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		var in struct{ Name string }
		if err := task.Decode(&in); err != nil {
			return nil, err
		}
		task.Progress(50, "half")
		task.Log("info", "greeting "+in.Name)
		for _, word := range []string{"hello ", "wörld", "\n"} {
			if _, err := task.WriteString(word); err != nil {
				return nil, err
			}
		}
		return map[string]string{"message": "hello " + in.Name}, nil
	}))
	end := p.run(w)
	var ids []string
	for range 20 {
		ids = append(ids, p.submit(tasks.SubmitRequest{Input: []byte(`{"name":"Ada"}`)}).ID)
	}
	for _, id := range ids {
		if v := p.await(id); v.State != tasks.Succeeded || string(v.Result) != `{"message":"hello Ada"}` {
			t.Fatalf("task is %s with %s, %+v", v.State, v.Result, v.Error)
		}
	}
	var text strings.Builder
	kinds := map[tasks.EntryKind]int{}
	p.must(p.producer.Watch(t.Context(), ids[0], 0, func(e tasks.Entry) {
		kinds[e.Kind]++
		if e.Kind == tasks.EntryDelta {
			text.Write(e.Data)
		}
	}))
	if kinds[tasks.EntryLog] == 0 || kinds[tasks.EntrySucceeded] != 1 || !strings.Contains(text.String(), "wörld") {
		t.Fatalf("the journal has %v and %s", kinds, text.String())
	}
	p.must(end())
	if s := w.Stats(); s.Succeeded != 20 || s.Held != 0 {
		t.Fatalf("stats are %+v", s)
	}
	ws, err := p.account.TaskWorkers(t.Context())
	p.must(err)
	if len(ws) != 1 || ws[0].State != "draining" || ws[0].Running != 0 {
		t.Fatalf("the stopped worker is seen as %+v", ws)
	}
}

func TestLiveCancelReachesTheHandler(t *testing.T) {
	p := newLive(t)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1"})
	p.must(err)
	began, cause := make(chan struct{}), make(chan error, 1)
	p.must(w.Handle("demo/hello", 1, tasks.NonIdempotent, func(ctx context.Context, _ *worker.Task) (any, error) {
		close(began)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		return nil, ctx.Err()
	}))
	p.run(w)
	id := p.submit(tasks.SubmitRequest{}).ID
	<-began
	_, err = p.producer.Cancel(t.Context(), id, "no longer wanted")
	p.must(err)
	if v := p.await(id); v.State != tasks.Cancelled {
		t.Fatalf("task is %s, %+v", v.State, v.Error)
	}
	if err := <-cause; !errors.Is(err, worker.ErrCancelled) || !strings.Contains(err.Error(), "no longer wanted") {
		t.Fatalf("the handler's context ended with %v", err)
	}
}

func TestLiveRestartOfTheControlPlaneLosesNothing(t *testing.T) {
	p := newLive(t)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1", Spool: t.TempDir()})
	p.must(err)
	half, goOn := make(chan struct{}), make(chan struct{})
	p.must(w.Handle("demo/hello", 1, tasks.NonIdempotent, func(_ context.Context, task *worker.Task) (any, error) {
		_, err := task.WriteString("before ")
		close(half)
		<-goOn
		_, err2 := task.WriteString("after")
		return "done", errors.Join(err, err2)
	}))
	p.run(w)
	id := p.submit(tasks.SubmitRequest{}).ID
	<-half
	p.stop()
	close(goOn) // the end comes while nobody listens
	p.start(strings.TrimPrefix(p.base, "http://"))
	v := p.await(id)
	if v.State != tasks.Succeeded || v.Attempts != 1 {
		t.Fatalf("task is %s after %d attempts, %+v", v.State, v.Attempts, v.Error)
	}
	var text strings.Builder
	p.must(p.producer.Watch(t.Context(), id, 0, func(e tasks.Entry) {
		if e.Kind == tasks.EntryDelta {
			text.WriteString(deltaText(t, e))
		}
	}))
	if text.String() != "before after" {
		t.Fatalf("the stream is %q", text.String())
	}
}

func TestLiveStopHandsPureWorkBack(t *testing.T) {
	p := newLive(t)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1", Grace: -1})
	p.must(err)
	began := make(chan struct{})
	p.must(w.Handle("demo/hello", 1, tasks.Pure, func(ctx context.Context, _ *worker.Task) (any, error) {
		close(began)
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}))
	end := p.run(w)
	id := p.submit(tasks.SubmitRequest{MaxAttempts: 1}).ID
	<-began
	p.must(end())
	v, err := p.producer.Get(t.Context(), id)
	p.must(err)
	if v.State != tasks.Queued || v.Attempts != 0 {
		t.Fatalf("task is %s after %d attempts", v.State, v.Attempts)
	}
}

func TestLiveRevokedKeyEndsTheWorker(t *testing.T) {
	p := newLive(t)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1"})
	p.must(err)
	p.must(w.Handle("demo/hello", 1, tasks.Pure, func(context.Context, *worker.Task) (any, error) { return "x", nil }))
	done := make(chan error, 1)
	go func() { done <- w.Run(t.Context()) }()
	p.await(p.submit(tasks.SubmitRequest{}).ID) // it runs
	_, err = p.account.RevokeKey(t.Context(), liveProject, p.keyID)
	p.must(err)
	p.submit(tasks.SubmitRequest{}) // ends the parked claim
	if err := <-done; !errors.Is(err, fault.Revoked) && !errors.Is(err, fault.Unauthenticated) {
		t.Fatalf("Run returned %v", err)
	}
}

func TestLiveProducerKeyIsRefused(t *testing.T) {
	p := newLive(t)
	w, err := worker.New(p.account, worker.Options{WorkerID: "w1"})
	p.must(err)
	if err := w.Run(t.Context()); !errors.Is(err, fault.ScopeDenied) {
		t.Fatalf("Run returned %v, want SCOPE_DENIED", err)
	}
}
