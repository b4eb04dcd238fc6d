package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/memory"
	"interlock.sh/agent/models"
	"interlock.sh/agent/supervise"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
	"interlock.sh/llama"
)

const (
	retryEvery  = 15 * time.Second // a blocked deployment looks again
	drainWithin = 2 * time.Minute  // for requests in flight when a model is to stop
	logTail     = 40               // lines of a model server in a report
)

// serving brings one deployment from its desired state to a model server that answers, and keeps it
// there until its context ends: room on the disk, files, links, room in memory, process. Whatever
// stands in the way is a state in words, and it tries again when that can have changed.
type serving struct {
	want  fleet.DesiredDeployment
	host  *machine
	log   *slog.Logger
	child *supervise.Child // nil until the files are there
	drive *llamaDriver

	mu     sync.Mutex
	report fleet.DeploymentReport
	since  *time.Time // ready since
	done   chan struct{}
	stop   context.CancelFunc
}

// machine is what all deployments of an agent share.
type machine struct {
	home    enrollment.Home
	group   string
	setting string // the role's LLAMA_SERVER
	cache   *models.Cache
	ledger  *memory.Ledger
	promise memory.Promise // pid and start time of this agent
	sup     *supervise.Supervisor
	control *client.Client
	clock   clock.Clock
	changed func()
}

func newServing(want fleet.DesiredDeployment, host *machine, log *slog.Logger) *serving {
	return &serving{
		want: want, host: host, log: log.With(slog.String("deployment", want.Alias)), done: make(chan struct{}),
		report: fleet.DeploymentReport{ID: want.ID, Alias: want.Alias, Slots: want.Slots, ContextLength: want.ContextLength, State: fleet.State{Kind: fleet.StateLoading}},
	}
}

// run serves until ctx ends and leaves no process behind.
func (s *serving) run(ctx context.Context) {
	defer close(s.done)
	for ctx.Err() == nil {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		s.block(err)
		if retry.Sleep(ctx, s.host.clock, retryEvery) != nil {
			return
		}
	}
}

// block shows what stands in the way.
func (s *serving) block(err error) {
	e := fault.Of(err)
	state := fleet.State{Kind: fleet.StateBlocked, Detail: e.Message}
	if errors.Is(err, errUnsupported) {
		state.Kind = fleet.StateUnsupported
	}
	s.log.Warn("deployment is "+state.String(), slog.String("way out", e.Hint))
	s.set(func(r *fleet.DeploymentReport) { r.State = state })
}

var errUnsupported = errors.New("unsupported")

// serve goes through the steps once; it returns when one cannot be made, or when ctx ends.
func (s *serving) serve(ctx context.Context) error {
	if s.want.Runtime != fleet.LlamaCpp {
		return fault.Wrap(errUnsupported, fault.Conflict, "runtime %s is not served by this version of the agent", s.want.Runtime)
	}
	bin, err := llama.Find(ctx, s.host.setting)
	if err != nil {
		return err
	}
	if err := bin.Check(); err != nil {
		return err
	}
	s.set(func(r *fleet.DeploymentReport) { r.State = fleet.State{Kind: fleet.StateDownloading} })
	if err := s.host.cache.Ensure(ctx, s.host.control, s.want.Files, s.downloaded); err != nil {
		return err
	}
	first, err := s.host.cache.Link(s.host.home.Version(s.host.group, s.want.ID), s.want.Files)
	if err != nil {
		return err
	}
	s.set(func(r *fleet.DeploymentReport) {
		r.State, r.Downloaded, r.Total = fleet.State{Kind: fleet.StateLoading}, 0, 0
	})
	model, err := llama.OpenModel(first)
	if err != nil {
		return err
	}
	promise := s.host.promise
	promise.Deployment, promise.Group = s.want.ID, s.host.group
	if err := s.reserve(ctx, bin, model, &promise); err != nil {
		return err
	}
	defer func() {
		if err := s.host.ledger.Release(context.WithoutCancel(ctx), promise); err != nil {
			s.log.Warn("give memory back", slog.Any("cause", err))
		}
	}()
	return s.supervise(ctx, &llamaDriver{bin: bin, weights: model.WeightsBytes, spec: llama.Spec{
		Model: first, Alias: s.want.Alias, ContextLength: s.want.ContextLength, Slots: s.want.Slots,
		Threads: s.want.Threads, GPULayers: s.want.GPULayers, Extra: s.want.Args,
	}}, promise)
}

func (s *serving) downloaded(done, total int64) {
	s.mu.Lock()
	s.report.Downloaded, s.report.Total = done, total
	s.mu.Unlock() // shown by the next heartbeat: a hint for every chunk would flood it
}

// reserve checks that weights, cache and margin fit beside everything else on the machine.
func (s *serving) reserve(ctx context.Context, bin llama.Binary, model llama.Model, p *memory.Promise) error {
	keys, values, err := llama.CacheTypes(s.want.Args)
	if err != nil {
		return err
	}
	need := llama.Fit(model.Header, model.WeightsBytes, s.want.ContextLength, s.want.Slots, keys, values)
	p.Bytes = need.Total
	var facts fleet.HostFacts
	hostfacts.Refresh(ctx, &facts, string(s.host.home))
	if facts.MemoryFree == nil || facts.MemoryTotal == nil {
		s.log.Warn("the machine's memory cannot be read: the model is started unchecked")
		return nil
	}
	free := memory.Free{Total: *facts.MemoryTotal, Available: *facts.MemoryFree}
	if !bin.CPUOnly() {
		for _, g := range facts.GPUs {
			if g.MemoryFree != nil {
				free.GPU += *g.MemoryFree
			}
		}
	}
	return s.host.ledger.Reserve(ctx, *p, free)
}

// supervise keeps the process until ctx ends.
func (s *serving) supervise(ctx context.Context, d *llamaDriver, promise memory.Promise) error {
	child, err := s.host.sup.Add(s.want.ID, d)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.child, s.drive = child, d
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.child, s.drive = nil, nil
		s.mu.Unlock()
		end := context.WithoutCancel(ctx)
		if err := child.Drain(end, drainWithin); err != nil {
			s.log.Error("stop model server", slog.Any("cause", err))
		}
		if err := s.host.sup.Remove(end, s.want.ID); err != nil {
			s.log.Error("remove model server", slog.Any("cause", err))
		}
	}()
	child.Start()
	loaded := false
	for st := range child.Watch(ctx) {
		s.follow(st)
		if st.State == supervise.Ready && !loaded {
			loaded = true
			if err := s.host.ledger.Loaded(ctx, promise); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// follow turns the child's state into the deployment's.
func (s *serving) follow(st supervise.Status) {
	s.set(func(r *fleet.DeploymentReport) {
		r.Pid, r.Busy, r.Restarts = st.PID, st.Leases, max(st.Starts-1, 0)
		switch st.State {
		case supervise.Ready:
			r.State, r.LastError = fleet.State{Kind: fleet.StateReady}, ""
			if st.Leases >= r.Slots {
				r.State.Kind = fleet.StateFull
			}
			if st.Draining {
				r.State.Kind = fleet.StateDraining
			}
		case supervise.Parked:
			r.State, r.LastError = fleet.State{Kind: fleet.StateParked, Detail: st.Reason}, st.Reason
		case supervise.Backoff:
			r.State = fleet.State{Kind: fleet.StateLoading, Detail: "starts again: " + st.Reason}
			r.LastError = st.Reason
		case supervise.Unhealthy:
			r.State = fleet.State{Kind: fleet.StateLoading, Detail: "does not answer: " + st.Reason}
		default:
			r.State = fleet.State{Kind: fleet.StateLoading}
		}
		if r.State.Serving() && r.ReadySince == nil {
			since := st.Since
			r.ReadySince = &since
		}
		if !r.State.Serving() {
			r.ReadySince = nil
		}
	})
}

func (s *serving) set(fn func(r *fleet.DeploymentReport)) {
	s.mu.Lock()
	before := s.report.State
	busy := s.report.Busy
	fn(&s.report)
	moved := s.report.State != before || s.report.Busy != busy
	s.mu.Unlock()
	if moved {
		s.host.changed()
	}
}

// state is the report with what changes by itself.
func (s *serving) state(ctx context.Context) fleet.DeploymentReport {
	s.mu.Lock()
	r, child := s.report, s.child
	s.mu.Unlock()
	if child != nil {
		r.Log = child.Tail(logTail)
		if r.Pid > 0 {
			r.MemoryBytes = hostfacts.Resident(ctx, r.Pid)
		}
	}
	return r
}

// lease is the right to send the model one request.
func (s *serving) lease() (*llama.Client, *supervise.Lease, error) {
	s.mu.Lock()
	child, drive, state := s.child, s.drive, s.report.State
	s.mu.Unlock()
	if child == nil {
		return nil, nil, fault.New(fault.Unavailable, "the model is %s", state)
	}
	l, err := child.Acquire()
	if err != nil {
		return nil, nil, err
	}
	return drive.of(l.At), l, nil
}

// spoke notes the speed of a finished answer.
func (s *serving) spoke(tokensPerSecond *float64) {
	if tokensPerSecond == nil {
		return
	}
	s.mu.Lock()
	s.report.TokensPerSecond = tokensPerSecond
	s.mu.Unlock()
	s.host.changed()
}

// doubt tells the supervisor that a request was not answered as it should.
func (s *serving) doubt(reason string) {
	s.mu.Lock()
	child := s.child
	s.mu.Unlock()
	if child != nil {
		child.Doubt(reason)
	}
}

// end stops serving and waits until the process is gone.
func (s *serving) end() {
	s.stop()
	<-s.done
}

// self names this process in the ledger.
func self(started string) memory.Promise {
	return memory.Promise{Pid: os.Getpid(), Started: started}
}
