package hardware

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"interlock.sh/agent/inference"
	"interlock.sh/agent/supervise"
	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
	"interlock.sh/llama"
)

const (
	childName  = "model"
	lookAgain  = 15 * time.Second // at what keeps the server from starting
	stopWithin = 2 * time.Minute  // for requests in flight
)

// own is a llama-server of this worker's own, on a free port of 127.0.0.1 with a random key.
type own struct {
	s     Settings
	sup   *supervise.Supervisor
	clock clock.Clock
	log   *slog.Logger

	mu    sync.Mutex
	child *supervise.Child // nil until there is one
	drive *inference.Driver
}

func (o *own) run(ctx context.Context, tell func(standing)) error {
	for ctx.Err() == nil {
		if err := o.serve(ctx, tell); err != nil && ctx.Err() == nil {
			o.log.Warn("the model server does not start", slog.Any("cause", err))
			tell(standing{words: "blocked: " + said(err), stuck: true})
		}
		if retry.Sleep(ctx, o.clock, lookAgain) != nil {
			break
		}
	}
	return nil
}

// said is an error with its way out, in one line.
func said(err error) string {
	f := fault.Of(err)
	if f.Code == fault.Internal {
		return err.Error()
	}
	if f.Hint != "" && !strings.Contains(f.Message, f.Hint) {
		return f.Message + ": " + f.Hint
	}
	return f.Message
}

// serve starts the server and follows it until ctx ends; it returns an error when it cannot be started.
func (o *own) serve(ctx context.Context, tell func(standing)) error {
	tell(standing{words: "starting"})
	d, err := o.driver(ctx)
	if err != nil {
		return err
	}
	child, err := o.sup.Add(childName, d)
	if err != nil {
		return err
	}
	o.hold(child, d)
	defer o.hold(nil, nil)
	end := context.WithoutCancel(ctx)
	watch, closeWatch := context.WithCancel(end)
	defer closeWatch()
	context.AfterFunc(ctx, func() {
		defer closeWatch()
		if err := child.Drain(end, stopWithin); err != nil {
			o.log.Error("stop the model server", slog.Any("cause", err))
		}
	})
	child.Start()
	for st := range child.Watch(watch) {
		tell(o.standing(st))
	}
	return errors.Join(context.Cause(ctx), o.sup.Remove(end, childName))
}

// driver looks at everything that a start needs.
func (o *own) driver(ctx context.Context) (*inference.Driver, error) {
	bin, err := llama.Find(ctx, o.s.LlamaServer)
	if err != nil {
		return nil, err
	}
	if err := bin.Check(); err != nil {
		return nil, err
	}
	if o.s.Model == "" {
		e := fault.New(fault.NotFound, "no weights are named for %s", o.s.Alias).WithField(EnvModel)
		if p, ok := ai.ProfileOf(o.s.Alias); ok {
			return nil, e.WithHint("read the licence of %s (%s), put its %s into the models folder, or name the file in %s", p.Source, p.License, p.File, EnvModel)
		}
		return nil, e.WithHint("name the GGUF file in %s", EnvModel)
	}
	model, err := llama.OpenModel(o.s.Model)
	if err != nil {
		return nil, err
	}
	return &inference.Driver{Bin: bin, Weights: model.WeightsBytes, Spec: llama.Spec{
		Model: o.s.Model, Alias: o.s.Alias, ContextLength: o.s.Context, Slots: o.s.Slots,
	}}, nil
}

func (o *own) standing(st supervise.Status) standing {
	out := standing{ready: st.State == supervise.Ready && !st.Draining, slots: o.s.Slots, pid: st.PID, words: string(st.State), stuck: st.State == supervise.Parked}
	if st.Reason != "" && st.State != supervise.Ready {
		out.words += ": " + st.Reason
	}
	if st.Draining {
		out.words = "draining"
	}
	return out
}

func (o *own) hold(child *supervise.Child, d *inference.Driver) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.child, o.drive = child, d
}

func (o *own) lease() (*llama.Client, func(bool), error) {
	o.mu.Lock()
	child, drive := o.child, o.drive
	o.mu.Unlock()
	if child == nil {
		return nil, nil, fault.New(fault.Unavailable, "the model server is not up")
	}
	l, err := child.Acquire()
	if err != nil {
		return nil, nil, err
	}
	return drive.Client(l.At), l.Done, nil
}

func (o *own) doubt(reason string) {
	o.mu.Lock()
	child := o.child
	o.mu.Unlock()
	if child != nil {
		child.Doubt(reason)
	}
}
