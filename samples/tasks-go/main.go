// Command tasks-go is a complete task worker and producer in Go.
//
//	INTERLOCK_WORKER_KEY=il_…   go run ./samples/tasks-go worker
//	INTERLOCK_PRODUCER_KEY=il_… go run ./samples/tasks-go submit Ada
//
// INTERLOCK_URL names the control plane; http://localhost:8090 when unset.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"interlock.sh/client"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

func main() {
	// The first signal drains the worker; the second ends the program.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "tasks-go:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, env func(string) string, out io.Writer) error {
	url := cmp.Or(env("INTERLOCK_URL"), "http://localhost:8090")
	switch {
	case len(args) == 1 && args[0] == "worker":
		c, err := client.New(client.Options{BaseURL: url, Credential: env("INTERLOCK_WORKER_KEY")})
		if err != nil {
			return err
		}
		return serve(ctx, c, out)
	case len(args) == 2 && args[0] == "submit":
		c, err := client.New(client.Options{BaseURL: url, Credential: env("INTERLOCK_PRODUCER_KEY")})
		if err != nil {
			return err
		}
		return submit(ctx, c, args[1], out)
	}
	return errors.New("say worker, or submit NAME")
}

type greeting struct {
	Name string `json:"name"`
}

type answer struct {
	Message string `json:"message"`
}

// serve carries demo/hello out until ctx ends.
func serve(ctx context.Context, t worker.Transport, out io.Writer) error {
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name this worker: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return fmt.Errorf("place the spool: %w", err)
	}
	w, err := worker.New(t, worker.Options{
		WorkerID: "tasks-go-" + host, MaxConcurrent: 2,
		Spool:  filepath.Join(cache, "interlock-tasks-go"), // results survive a crash of this program
		Logger: slog.New(slog.NewTextHandler(out, nil)),
	})
	if err != nil {
		return err
	}
	// Pure: it has no effect outside, so it may be repeated at will.
	err = w.Handle("demo/hello", 1, tasks.Pure, func(_ context.Context, t *worker.Task) (any, error) {
		var in greeting
		if err := t.Decode(&in); err != nil {
			return nil, err
		}
		t.Progress(50, "working")
		t.Log("info", "greeting "+in.Name)
		return answer{Message: "Hello, " + in.Name + "!"}, nil
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// submit hands one demo/hello in and waits for its result.
func submit(ctx context.Context, t worker.ProducerTransport, name string, out io.Writer) error {
	p := worker.NewProducer(t)
	input, err := json.Marshal(greeting{name})
	if err != nil {
		return err
	}
	task, err := p.Submit(ctx, tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1, Input: input})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	done, err := p.Await(ctx, task.ID, time.Second)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, done.ID, done.State, string(done.Result))
	return err
}
