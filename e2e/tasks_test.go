//go:build linux

package e2e

import (
	"context"
	"errors"
	"strings"
	"testing"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// startWorker runs a worker of package worker in this process until the test ends.
func startWorker(t *testing.T, p *plane, id string, handle func(w *worker.Worker) error) {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: p.base, Credential: p.key(access.TaskWorker)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w, err := worker.New(c, worker.Options{WorkerID: id, Version: version, MaxConcurrent: 2, Grace: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := handle(w); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the worker: %v", err)
		}
	})
}

// The verbs of tasks with a worker of one's own behind them: submit, watch, get, list, cancel, workers.
func TestTasksVerbsWithAWorker(t *testing.T) {
	t.Parallel()
	p := signedIn(t)
	hold := make(chan struct{})
	startWorker(t, p, "garage", func(w *worker.Worker) error {
		return errors.Join(
			w.Handle("demo/hello", 1, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
				var in struct{ Name string }
				if err := task.Decode(&in); err != nil {
					return nil, err
				}
				task.Progress(50, "half way")
				task.Log("info", "greeting "+in.Name)
				return map[string]string{"text": "Hello " + in.Name}, nil
			}),
			w.Handle("demo/long", 1, tasks.Idempotent, func(ctx context.Context, _ *worker.Task) (any, error) {
				hold <- struct{}{}
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}),
			w.Handle("demo/fail", 1, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
				return nil, worker.Fail("NO_PAPER", "the tray is empty")
			}),
		)
	})
	submit := func(args ...string) string {
		return strings.TrimSpace(p.ok(append([]string{"tasks", "submit"}, args...)...))
	}

	hello := submit("demo/hello", "--input", `{"name":"Ada"}`, "--idempotency-key", "hello-ada")
	p.prints("succeeded", "tasks", "watch", hello)
	got := fromJSON[tasks.View](p, "tasks", "get", hello)
	if got.State != tasks.Succeeded || got.WorkerID != "garage" || !strings.Contains(string(got.Result), "Hello Ada") {
		t.Errorf("the task: %+v", got)
	}
	if again := submit("demo/hello", "--input", `{"name":"Ada"}`, "--idempotency-key", "hello-ada"); again != hello {
		t.Errorf("the same key and request made another task: %s, was %s", again, hello)
	}
	p.refuses("", "hello-ada", "tasks", "submit", "demo/hello", "--input", `{"name":"Eve"}`, "--idempotency-key", "hello-ada")

	long := submit("demo/long")
	<-hold
	p.prints("garage", "tasks", "workers")
	p.ok("tasks", "cancel", long, "--reason", "enough")
	watched := p.cli("tasks", "watch", long)
	if watched.code != 1 || !strings.Contains(watched.out, "enough") || !strings.Contains(watched.err, "ended cancelled") {
		t.Errorf("watch of a cancelled task: exit %d\n%s%s", watched.code, watched.out, watched.err)
	}

	failed := submit("demo/fail")
	if w := p.cli("tasks", "watch", failed); w.code != 1 || !strings.Contains(w.err, "failed") {
		t.Errorf("watch of a failed task: exit %d, %s", w.code, w.err)
	}
	p.prints("NO_PAPER: the tray is empty", "tasks", "get", failed)
	if list := fromJSON[tasks.List](p, "tasks", "list", "--state", "failed"); len(list.Tasks) != 1 || list.Tasks[0].ID != failed {
		t.Errorf("failed tasks: %+v", list.Tasks)
	}

	// A producer's key may submit, and a worker's may not.
	as := func(kind access.Kind) output {
		return p.cliWith([]string{"INTERLOCK_SDK_KEY=" + p.key(kind)}, "", "tasks", "submit", "demo/hello", "--input", `{"name":"Bob"}`)
	}
	if got := as(access.TaskProducer); got.code != 0 {
		t.Errorf("a producer's key: %s", got.err)
	}
	if got := as(access.TaskWorker); got.code != 1 || !strings.Contains(got.err, "task-worker") {
		t.Errorf("a worker's key submitted: exit %d, %s", got.code, got.err)
	}
}
