package servertasks_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"interlock.sh/server/store"
	servertasks "interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// newLivePlane is a task core on the machine's own clock.
func newLivePlane(b *testing.B) *plane {
	b.Helper()
	db, err := store.Open(context.Background(), store.Options{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	p := &plane{t: b, db: db, typ: "demo/hello", core: servertasks.New(servertasks.Options{DB: db})}
	p.sweep()
	b.Cleanup(p.stop)
	return p
}

// BenchmarkEnqueueClaim is the time from the call that submits a task to the claim's answer at one idle
// worker that waits for it. Each submit and each claim is a commit with its fsync.
func BenchmarkEnqueueClaim(b *testing.B) {
	p := newLivePlane(b)
	p.register("w1", 2, tasks.Pure) // parks again while the task before is completed
	ctx, cancel := context.WithCancel(context.Background())
	leased := make(chan tasks.Attempt)
	go func() {
		defer close(leased)
		for {
			r, err := p.core.Claim(ctx, caller, tasks.ClaimRequest{WorkerID: "w1", Max: 1, WaitMs: 25_000})
			if err != nil {
				return
			}
			for _, a := range r.Attempts {
				leased <- a
			}
		}
	}()
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		p.submit(tasks.SubmitRequest{})
		a := <-leased
		took = append(took, time.Since(began))
		b.StopTimer()
		p.complete(a, `1`, 0)
		b.StartTimer()
	}
	cancel()
	for range leased {
	}
	report(b, took)
}

func report(b *testing.B, took []time.Duration) {
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkClaim100kQueued claims and completes one task at a time while a hundred thousand are queued.
func BenchmarkClaim100kQueued(b *testing.B) {
	p := newLivePlane(b)
	p.register("w1", 1, tasks.Pure)
	const page = 1000
	for i := range 100_000 / page {
		err := p.db.Write(context.Background(), store.LaneAdmit, func(tx *store.Tx) error {
			for j := range page {
				if _, err := p.core.SubmitTx(tx, project, tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1, Priority: (i + j) % 10}, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		got := p.claim("w1", 1)
		took = append(took, time.Since(began))
		if len(got) != 1 {
			b.Fatal("nothing to claim")
		}
		p.complete(got[0], `1`, 0)
	}
	report(b, took)
}

// BenchmarkDrain is the whole of 16 workers' work on a full queue: claims of ten, completions of ten.
func BenchmarkDrain(b *testing.B) {
	p := newLivePlane(b)
	const workers = 16
	for i := range workers {
		p.register(fmt.Sprintf("w%d", i), 10, tasks.Pure)
	}
	for b.Loop() {
		b.StopTimer()
		const n = 3200
		err := p.db.Write(context.Background(), store.LaneAdmit, func(tx *store.Tx) error {
			for range n {
				if _, err := p.core.SubmitTx(tx, project, tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1}, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		began := time.Now()
		done := make(chan int)
		for i := range workers {
			go func() {
				count := 0
				for {
					got := p.claim(fmt.Sprintf("w%d", i), 10)
					if len(got) == 0 {
						break
					}
					var req tasks.CompleteRequest
					for _, a := range got {
						req.Completions = append(req.Completions, tasks.Completion{Ref: a.Ref})
					}
					if _, err := p.core.Complete(context.Background(), caller, req); err != nil {
						b.Error(err)
						break
					}
					count += len(got)
				}
				done <- count
			}()
		}
		total := 0
		for range workers {
			total += <-done
		}
		if total != n {
			b.Fatalf("%d of %d tasks were done", total, n)
		}
		b.ReportMetric(n/time.Since(began).Seconds(), "tasks/s")
	}
}
