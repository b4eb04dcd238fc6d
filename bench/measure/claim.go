package measure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"interlock.sh/access"
	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// The bounds of enqueue→claim; to that of the slow ones comes twice the disk's own slowness, since a
// submission and a claim are one durable commit each.
const (
	maxClaimMedian = 5 * time.Millisecond
	maxClaimSlow   = 10 * time.Millisecond
)

const claimType = "bench/noop"

// Claim measures from a producer's call to the begin of the handler in a worker that was idle, over
// HTTP, and in between how long an fsync takes in the same folder.
func Claim(ctx context.Context, p *rig.Plane, samples int) ([]report.Row, error) {
	theirs, err := p.Client(ctx, access.TaskWorker)
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	ours, err := p.Client(ctx, access.TaskProducer)
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	began := make(chan time.Time, 1)
	w, err := worker.New(theirs, worker.Options{WorkerID: "bench-idle"})
	if err != nil {
		return nil, err
	}
	err = w.Handle(claimType, 1, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
		began <- time.Now()
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	var outcome error
	go func() { defer close(ended); outcome = w.Run(ctx) }()
	defer func() { stop(); <-ended }()

	disk, err := newSyncer(p.Data)
	if err != nil {
		return nil, err
	}
	defer disk.close()
	var claims, syncs []time.Duration
	for n := range samples + 10 {
		start := time.Now()
		view, err := ours.SubmitTask(ctx, tasks.SubmitRequest{Type: claimType, SchemaVersion: 1})
		if err != nil {
			return nil, fmt.Errorf("submit: %w", err)
		}
		select {
		case at := <-began:
			if n >= 10 { // the first ones wait for registration and connections
				claims = append(claims, at.Sub(start))
			}
		case <-ended:
			return nil, fmt.Errorf("the worker ended: %w", outcome)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		for !view.State.Terminal() { // idle means that the claim before is reported and answered
			if view, err = ours.Task(ctx, view.ID); err != nil {
				return nil, fmt.Errorf("read task: %w", err)
			}
		}
		took, err := disk.sync()
		if err != nil {
			return nil, err
		}
		syncs = append(syncs, took)
	}
	slow, sync := quantile(claims, 0.99), quantile(syncs, 0.99)
	bound := maxClaimSlow + 2*sync
	return []report.Row{
		{
			What:     "enqueue → claim, p50",
			Measured: fmt.Sprintf("%.1f ms (fsync %.2f ms)", ms(median(claims)), ms(median(syncs))),
			Bound:    fmt.Sprintf("≤ %.0f ms", ms(maxClaimMedian)), OK: median(claims) <= maxClaimMedian,
		},
		{
			What:     "enqueue → claim, p99",
			Measured: fmt.Sprintf("%.1f ms (fsync %.1f ms)", ms(slow), ms(sync)),
			Bound:    fmt.Sprintf("≤ %.0f ms + 2 × fsync = %.1f ms", ms(maxClaimSlow), ms(bound)), OK: slow <= bound,
		},
	}, nil
}

// syncer measures the disk beside the database: it appends a page and waits for it.
type syncer struct {
	f    *os.File
	page []byte
}

func newSyncer(dir string) (*syncer, error) {
	f, err := os.Create(filepath.Join(dir, "bench-fsync"))
	if err != nil {
		return nil, fmt.Errorf("measure fsync: %w", err)
	}
	return &syncer{f: f, page: make([]byte, 4096)}, nil
}

func (s *syncer) sync() (time.Duration, error) {
	start := time.Now()
	if _, err := s.f.Write(s.page); err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	if err := s.f.Sync(); err != nil {
		return 0, fmt.Errorf("measure fsync: %w", err)
	}
	return time.Since(start), nil
}

func (s *syncer) close() {
	_ = s.f.Close()
	_ = os.Remove(s.f.Name())
}
