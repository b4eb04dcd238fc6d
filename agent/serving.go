package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/inference"
	"interlock.sh/agent/memory"
	"interlock.sh/agent/models"
	"interlock.sh/agent/supervise"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/llama"
)

const (
	retryEvery  = 15 * time.Second // a blocked deployment looks again
	drainWithin = 2 * time.Minute  // for requests in flight when a model is to stop
	logTail     = 40               // lines of a model server in a report
	logWidth    = 400              // bytes of one: a report of many models must stay of a size that is taken
)

// serving brings one deployment from its desired state to a model server that answers, and keeps it
// there until its context ends: room on the disk, files, links, room in memory, process. Whatever
// stands in the way is a state in words, and it tries again when that can have changed.
type serving struct {
	want fleet.DesiredDeployment
	host *machine
	log  *slog.Logger

	memory *hostfacts.Resident // of the model server

	done   chan struct{}      // closes when nothing of it is left
	again  chan struct{}      // look again at what blocks it
	stop   context.CancelFunc // drains and ends it
	ending bool               // it is to stop; Agent.mu guards it

	mu     sync.Mutex
	child  *supervise.Child // nil until the files are there
	drive  *inference.Driver
	report fleet.DeploymentReport
}

// machine is what all deployments of an agent share.
type machine struct {
	home    enrollment.Home
	group   string
	program *program
	cache   *models.Cache
	ledger  *memory.Ledger
	promise memory.Promise // pid and start time of this agent
	sup     *supervise.Supervisor
	control *client.Client
	clock   clock.Clock
	moved   func()        // a state changed
	stirred func()        // a figure changed
	drain   time.Duration // for what is in flight when a model is to stop, with what handing it back takes
}

func newServing(want fleet.DesiredDeployment, host *machine, log *slog.Logger) *serving {
	return &serving{
		want: want, host: host, log: log.With(slog.String("deployment", want.Alias)), done: make(chan struct{}), again: make(chan struct{}, 1),
		memory: hostfacts.NewResident(host.clock),
		report: fleet.DeploymentReport{ID: want.ID, Alias: want.Alias, Slots: want.Slots, ContextLength: want.ContextLength, State: fleet.State{Kind: fleet.StateLoading}},
	}
}

// run serves until ctx ends and leaves no process behind.
func (s *serving) run(ctx context.Context) {
	defer func() {
		s.drop(context.WithoutCancel(ctx))
		close(s.done)
		s.host.moved()
	}()
	for ctx.Err() == nil {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return
		}
		s.block(err)
		s.drop(ctx)
		select {
		case <-ctx.Done():
		case <-s.again:
		case <-s.host.clock.After(retryEvery):
		}
	}
}

// over says whether nothing of it is left.
func (s *serving) over() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// block shows what stands in the way.
func (s *serving) block(err error) {
	state := fleet.State{Kind: fleet.StateBlocked, Detail: said(err)}
	if errors.Is(err, errUnsupported) {
		state.Kind = fleet.StateUnsupported
	}
	if s.set(func(r *fleet.DeploymentReport) { r.State, r.Downloaded, r.Total = state, 0, 0 }) {
		s.log.Warn("deployment does not serve", slog.String("state", state.String()), slog.Any("cause", err))
	}
}

var errUnsupported = errors.New("unsupported")

// serve goes through the steps once; it returns when one cannot be made, or when ctx ends.
func (s *serving) serve(ctx context.Context) error {
	if s.want.Runtime != fleet.LlamaCpp {
		return fault.Wrap(errUnsupported, fault.Conflict, "runtime %s is not served by this version of the agent", s.want.Runtime)
	}
	if err := fleet.CheckFileName("id", s.want.ID); err != nil {
		return err // it names a folder, and the control plane is not trusted with paths
	}
	bin, err := s.host.program.find(ctx)
	if err != nil {
		return withHint(err)
	}
	if err := bin.Check(); err != nil {
		return withHint(err)
	}
	if err := s.outgrows(ctx, bin); err != nil {
		return err
	}
	if err := s.host.cache.Ensure(ctx, s.host.control, s.want.Files, s.downloaded); err != nil {
		return err
	}
	first, err := s.host.cache.Link(s.host.home.Version(s.host.group, s.want.ID), s.want.Files)
	if err != nil {
		return err
	}
	model, err := llama.OpenModel(first)
	if err != nil {
		return err
	}
	drive := &inference.Driver{Bin: bin, Weights: model.WeightsBytes, Spec: llama.Spec{
		Model: first, Alias: s.want.Alias, ContextLength: s.want.ContextLength, Slots: s.want.Slots,
		Threads: s.want.Threads, GPULayers: s.want.GPULayers, Extra: s.want.Args,
	}}
	there := s.host.sup.Fits(s.want.ID, drive)
	if !there {
		s.drop(ctx) // what runs is another server, and its memory is wanted
	}
	promise := s.host.promise
	promise.Deployment, promise.Group = s.want.ID, s.host.group
	if err := s.reserve(ctx, bin, model, &promise, there); err != nil {
		return err
	}
	defer func() {
		if err := s.host.ledger.Release(context.WithoutCancel(ctx), promise); err != nil {
			s.log.Warn("give memory back", slog.Any("cause", err))
		}
	}()
	// What blocked it stays shown until here: each try passes the steps before.
	s.set(func(r *fleet.DeploymentReport) {
		r.State, r.Downloaded, r.Total = fleet.State{Kind: fleet.StateLoading}, 0, 0
	})
	return s.supervise(ctx, drive, promise)
}

// drop ends the model server that a former image of the agent left for this deployment, if nobody took it
// over.
func (s *serving) drop(ctx context.Context) {
	if err := s.host.sup.Drop(ctx, s.want.ID); err != nil {
		s.log.Error("stop the model server that was left", slog.Any("cause", err))
	}
}

// withHint puts the way out into the words that are shown.
func withHint(err error) error {
	e := fault.Of(err)
	if e.Hint == "" || e.Code == fault.Internal {
		return err
	}
	return fault.Wrap(err, e.Code, "%s: %s", e.Message, e.Hint).WithHint("%s", e.Hint)
}

// downloaded notes how far a download is. The next heartbeat shows it: one for every chunk would be a
// flood.
func (s *serving) downloaded(done, total int64) {
	if done == total {
		return
	}
	s.set(func(r *fleet.DeploymentReport) {
		r.State, r.Downloaded, r.Total = fleet.State{Kind: fleet.StateDownloading}, done, total
	})
}

// supervise keeps the process until ctx ends, drains it then, and leaves none.
func (s *serving) supervise(ctx context.Context, d *inference.Driver, promise memory.Promise) error {
	// A process that would not die when it was told to is in the way until it has.
	if err := s.host.sup.Remove(ctx, s.want.ID); err != nil {
		return err
	}
	child, err := s.host.sup.Add(s.want.ID, d)
	if err != nil {
		return err
	}
	s.hold(child, d)
	// What it does while it drains is shown as well.
	end := context.WithoutCancel(ctx)
	watch, closeWatch := context.WithCancel(end)
	defer closeWatch()
	context.AfterFunc(ctx, func() {
		defer closeWatch()
		if err := child.Drain(end, s.host.drain); err != nil {
			s.log.Error("stop model server", slog.Any("cause", err))
		}
	})
	child.Start()
	loaded := false
	for st := range child.Watch(watch) {
		s.follow(st, ctx.Err() != nil)
		if st.State == supervise.Ready && !loaded {
			loaded = true
			if err := s.host.ledger.Loaded(ctx, promise); err != nil {
				s.log.Warn("note that the model has its memory", slog.Any("cause", err))
			}
		}
	}
	s.hold(nil, nil)
	if err := s.host.sup.Remove(end, s.want.ID); err != nil {
		s.log.Error("remove model server", slog.Any("cause", err))
	}
	return context.Cause(ctx)
}

func (s *serving) hold(child *supervise.Child, d *inference.Driver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child, s.drive = child, d
}

// follow turns the child's state into the deployment's; leaving is a child that was told to end.
func (s *serving) follow(st supervise.Status, leaving bool) {
	s.set(func(r *fleet.DeploymentReport) {
		r.Pid, r.Busy, r.Restarts = st.PID, st.Leases, max(st.Starts-1, 0)
		switch st.State {
		case supervise.Ready:
			r.State, r.LastError = fleet.State{Kind: fleet.StateReady}, ""
			if st.Leases >= r.Slots {
				r.State.Kind = fleet.StateFull
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
		if leaving || st.Draining {
			r.State = fleet.State{Kind: fleet.StateDraining}
		}
		r.ReadySince = nil
		if r.State.Serving() {
			since := st.Since // another one when it was not ready in between and that news was skipped
			r.ReadySince = &since
		}
	})
}

// set changes the report, shows the change, and says whether the state is another one. Whether a slot is
// free changes with every request: that is a figure.
func (s *serving) set(fn func(r *fleet.DeploymentReport)) bool {
	s.mu.Lock()
	before, busy := s.report.State, s.report.Busy
	fn(&s.report)
	after := s.report.State
	stirred := s.report.Busy != busy
	s.mu.Unlock()
	moved := after != before && !(after.Serving() && before.Serving())
	switch {
	case moved:
		s.host.moved()
	case stirred || after != before:
		s.host.stirred()
	}
	return moved
}

// now is the state and how many requests it takes at once.
func (s *serving) now() (fleet.State, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.report.State, s.report.Slots
}

// state is the report with what changes by itself.
func (s *serving) state(ctx context.Context) fleet.DeploymentReport {
	s.mu.Lock()
	r, child := s.report, s.child
	s.mu.Unlock()
	if child != nil {
		r.Log = clipped(child.Tail(logTail))
		if r.Pid > 0 {
			r.MemoryBytes = s.memory.Of(ctx, r.Pid)
		}
	}
	return r
}

// clipped cuts what is too long for a report. The log file has the whole lines.
func clipped(lines []string) []string {
	for i, l := range lines {
		if len(l) > logWidth {
			lines[i] = strings.ToValidUTF8(l[:logWidth], "") + "…"
		}
	}
	return lines
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
	return drive.Client(l.At), l, nil
}

// spoke notes the speed of a finished answer.
func (s *serving) spoke(tokensPerSecond *float64) {
	if tokensPerSecond == nil {
		return
	}
	s.mu.Lock()
	s.report.TokensPerSecond = tokensPerSecond
	s.mu.Unlock()
	s.host.stirred()
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
