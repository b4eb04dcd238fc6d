package hardware

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"golang.org/x/sync/errgroup"

	"interlock.sh/agent/inference"
	"interlock.sh/agent/supervise"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// pace is the least time between two reports of one answer.
const pace = 100 * time.Millisecond

// Options is what a worker needs beside its settings.
type Options struct {
	Home      Home
	Version   string
	Logger    *slog.Logger
	Clock     clock.Clock      // the machine's own when nil
	Supervise supervise.Policy // of a model server of our own
	Leash     supervise.Leash  // likewise; the system's own when empty
	Shim      []string         // likewise
}

// Worker is one worker of "Your hardware" at work.
type Worker struct {
	o       Options
	s       Settings
	clock   clock.Clock
	log     *slog.Logger
	control *client.Client
	worker  *worker.Worker
	model   backend
	sup     *supervise.Supervisor // nil with a server that the operator named
	lock    *flock.Flock
	state   *stateFile

	mu    sync.Mutex
	slots int
}

// New reads the settings and connects the parts. One worker runs in a home at a time; Run starts it.
func New(ctx context.Context, o Options) (*Worker, error) {
	s, err := o.Home.Settings()
	if err != nil {
		return nil, err
	}
	if err := o.Home.prepare(); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	lock, err := o.Home.take(ctx)
	if err != nil {
		return nil, err
	}
	w := &Worker{o: o, s: s, clock: o.Clock, log: o.Logger.With(slog.String("model", s.Alias)), lock: lock}
	if err := w.open(ctx); err != nil {
		if w.control != nil {
			w.control.Close()
		}
		return nil, errors.Join(err, lock.Unlock())
	}
	return w, nil
}

func (w *Worker) open(ctx context.Context) (err error) {
	w.control, err = w.s.client(w.o.Version)
	if err != nil {
		return err
	}
	if w.state, err = openState(w.o.Home, w.o.Version, w.s, w.clock); err != nil {
		return err
	}
	if w.s.Server != "" {
		w.model = newAdopted(w.s, w.clock, w.log)
	} else {
		w.sup, err = supervise.New(supervise.Config{
			Dir: w.o.Home.run(), LogDir: w.o.Home.Logs(), Policy: w.o.Supervise, Leash: w.o.Leash, Shim: w.o.Shim, Clock: w.clock, Logger: w.log,
		})
		if err != nil {
			return err
		}
		left, err := w.sup.Sweep(ctx)
		if err != nil {
			return err
		}
		for _, l := range left {
			w.log.Info("found a model server of an earlier worker", slog.Any("process", l))
		}
		w.model = &own{s: w.s, sup: w.sup, clock: w.clock, log: w.log}
	}
	w.slots = max(w.s.Slots, 1)
	w.worker, err = worker.New(heard{w.control, w.state}, worker.Options{
		WorkerID: w.s.Worker, Version: w.o.Version, Pools: w.pools(), Pace: pace, Spool: filepath.Join(w.o.Home.run(), "spool"),
		Grace: stopWithin, Clock: w.clock, Logger: w.log,
	})
	if err != nil {
		return err
	}
	return w.worker.Handle(ai.ChatType, ai.ChatVersion, tasks.Pure, w.chat)
}

// heard is the control plane, and notes each registration that it took: the worker's heartbeat.
type heard struct {
	*client.Client
	state *stateFile
}

// RegisterWorker registers and notes when that was taken.
func (h heard) RegisterWorker(ctx context.Context, req tasks.RegisterRequest) (tasks.RegisterResponse, error) {
	res, err := h.Client.RegisterWorker(ctx, req)
	if err == nil {
		h.state.seen(req.Running)
	}
	return res, err
}

// client connects with the worker's key.
func (s Settings) client(version string) (*client.Client, error) {
	return client.New(client.Options{
		BaseURL: s.URL, Credential: s.Key, Pin: s.Pin, InsecureHTTP: s.InsecureHTTP, UserAgent: "interlock-hardware/" + version,
	})
}

func (w *Worker) pools() []worker.Pool {
	return []worker.Pool{{Name: ai.HardwarePool(w.s.Alias), Slots: w.slots}}
}

// Run serves until ctx ends; then work in hand is finished within its grace and a model server of our own
// is stopped. A key that was revoked ends it.
func (w *Worker) Run(ctx context.Context) error {
	defer w.lock.Unlock() //nolint:errcheck // closing the file releases it as well
	defer w.control.Close()
	// Until its model is ready the worker is registered and claims nothing, so that it is shown as
	// draining, not as offline or unknown.
	w.worker.Drain()
	// The model outlives the worker: an answer in hand is finished before it stops.
	models, stopModels := context.WithCancel(context.WithoutCancel(ctx))
	defer stopModels()
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return w.model.run(models, w.stands) })
	group.Go(func() error {
		defer stopModels()
		return w.worker.Run(gctx)
	})
	err := group.Wait()
	if w.sup != nil {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
		defer cancel()
		err = errors.Join(err, w.sup.Close(bound))
	}
	words := "stopped"
	if err != nil {
		words = "ended: " + said(err)
	}
	w.state.end(words)
	return err
}

// stands is told how the model server stands.
func (w *Worker) stands(st standing) {
	w.mu.Lock()
	changed := st.ready && st.slots != w.slots
	if changed {
		w.slots = st.slots
	}
	pools := w.pools()
	w.mu.Unlock()
	if changed {
		if err := w.worker.SetPools(pools); err != nil {
			w.log.Error("offer the model", slog.Any("cause", err))
		}
	}
	if st.ready {
		w.worker.Resume()
	} else {
		w.worker.Drain()
	}
	if w.state.set(st) {
		w.log.Info("the model server", slog.String("state", st.words), slog.Int("pid", st.pid))
	}
}

// chat answers one attempt. Neither the request nor the answer is logged.
func (w *Worker) chat(ctx context.Context, t *worker.Task) (any, error) {
	var in ai.ChatInput
	if err := t.Decode(&in); err != nil {
		return nil, err
	}
	if in.Alias != w.s.Alias {
		return nil, worker.Retryable(fault.New(fault.Unavailable, "model %s is not served here", in.Alias))
	}
	request, err := inference.Request(ctx, w.control, in.Request)
	if err != nil {
		return nil, err
	}
	model, done, err := w.model.lease()
	if err != nil {
		return nil, worker.Retryable(err)
	}
	res, err := inference.Chat(ctx, w.clock, model, request, t)
	done(err == nil)
	if err != nil {
		report, doubt := inference.Failure(ctx, err)
		if doubt {
			w.model.doubt(err.Error())
		}
		return nil, report
	}
	return res, nil
}
