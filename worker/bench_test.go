package worker_test

import (
	"context"
	"testing"
	"time"

	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// BenchmarkLiveSubmitToHandler is the time from a producer's submit to the handler's begin, with one
// idle worker on a real control plane over HTTP.
func BenchmarkLiveSubmitToHandler(b *testing.B) {
	p := newLive(b)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1", MaxConcurrent: 2})
	p.must(err)
	began := make(chan time.Time, 1)
	p.must(w.Handle("demo/hello", 1, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
		began <- time.Now()
		return nil, nil
	}))
	p.run(w)
	p.submit(tasks.SubmitRequest{})
	<-began
	for b.Loop() {
		p.submit(tasks.SubmitRequest{})
		<-began
	}
}

// BenchmarkLiveDrain is the time a task of a full queue takes, from claim to answered completion.
func BenchmarkLiveDrain(b *testing.B) {
	p := newLive(b)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1", MaxConcurrent: 50, Spool: b.TempDir()})
	p.must(err)
	done := make(chan struct{}, 1000)
	p.must(w.Handle("demo/hello", 1, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
		done <- struct{}{}
		return "ok", nil
	}))
	for range b.N {
		p.submit(tasks.SubmitRequest{})
	}
	b.ResetTimer()
	p.run(w)
	for range b.N {
		<-done
	}
}

// BenchmarkLiveStream is the time a handler's small write takes when the stream runs at full speed.
func BenchmarkLiveStream(b *testing.B) {
	p := newLive(b)
	w, err := worker.New(p.worker, worker.Options{WorkerID: "w1"})
	p.must(err)
	ended := make(chan error, 1)
	p.must(w.Handle("demo/hello", 1, tasks.Pure, func(_ context.Context, task *worker.Task) (any, error) {
		for range b.N {
			if _, err := task.WriteString("token "); err != nil {
				ended <- err
				return nil, err
			}
		}
		ended <- nil
		return nil, nil
	}))
	id := p.submit(tasks.SubmitRequest{}).ID
	b.ResetTimer()
	p.run(w)
	p.must(<-ended)
	if v := p.await(id); v.State != tasks.Succeeded {
		b.Fatalf("task is %s, %+v", v.State, v.Error)
	}
}
