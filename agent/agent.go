package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"interlock.sh/agent/awake"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/memory"
	"interlock.sh/agent/models"
	"interlock.sh/agent/power"
	"interlock.sh/agent/supervise"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/ident"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// pace bounds the reports of all answers under way to some 40 a second: people read slower than that, and
// on a small machine each report costs the model a little of its speed.
const pace = 25 * time.Millisecond

// Options say how an agent runs.
type Options struct {
	Enrollment enrollment.Enrollment
	Version    string
	Logger     *slog.Logger
	Clock      clock.Clock
	Supervise  supervise.Policy // zero fields have their defaults
	Leash      supervise.Leash  // "" is the system's
	Shim       []string         // this program's path and "run-child", for systems without a death signal
	Program    string           // this program's own path; see Restart
	Args       []string         // how it is to be started again, without its name
	Hangup     <-chan os.Signal // each is a Restart; may be nil

	FreeDisk func(dir string) (int64, error) // bytes that a folder's disk has left; nil asks the system
	Outside  func() ([]net.IP, error)        // where others reach this machine; nil asks the system

	LeaveGrace time.Duration                                          // for work in hand when the machine is to be free; 0 is the role's setting
	Zone       func() hostfacts.Zone                                  // the machine's time zone; nil asks the system
	Power      func(ctx context.Context, n power.Need) schedule.Facts // mains and idleness; nil asks the system
	Awake      func(ctx context.Context) (awake.Lock, error)          // takes the lock against sleep; nil asks the system
	Update     func() *fleet.UpdateReport                             // the newest news of the updater; nil has none
	Steady     func() time.Duration                                   // a clock that stands still while the machine sleeps; nil is Clock's
}

// Agent runs one enrollment. Make one with New; Run may be called once.
type Agent struct {
	Options
	clock    clock.Clock
	log      *slog.Logger
	instance string
	hostID   string
	control  *client.Client
	host     *machine
	worker   *worker.Worker
	lock     *roleLock
	gauge    *hostfacts.Gauge
	awake    *awake.Keeper
	loads    *bandwidth
	unset    string // what of the owner's settings does not hold, in words
	steady   func() time.Duration
	due      chan struct{} // reconcile soon
	news     chan struct{} // report soon
	stir     chan struct{} // report when it is convenient
	refresh  chan struct{} // read the desired state now
	wake     chan struct{} // hints for the worker
	replace  chan struct{} // replace the program
	closing  chan *closing // somebody wants the owner's door closed
	shown    chan struct{} // closed when a model is offered for the first time
	since    handOverNote  // of the former image, until work goes on; reconcile's alone once Run runs

	offering sync.Mutex // held from deciding what the worker may claim until it is told
	owning   sync.Mutex // held while the owner's wish is written
	mu       sync.Mutex
	server   *fleet.ServerFacts // the model server program; nil when there is none
	cpuOnly  bool               // it is known to compute on the CPU alone
	desired  fleet.Desired
	known    bool // desired was read from the control plane
	ceiling  ceiling
	serves   map[string]*serving
	trouble  trouble
	going    replacement
	leaving  bool // Run ends
	offered  offer
	lastSeen time.Time
	lastErr  string
}

// New prepares the agent of an enrollment: it takes the role's lock, so that a second agent of the same
// role is refused, and cleans up what an earlier one left.
func New(ctx context.Context, o Options) (*Agent, error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e := o.Enrollment
	left, err := supervise.TakeOver(runDir(e))
	if err != nil {
		return nil, err
	}
	lock, err := lockRole(filepath.Join(e.Dir(), "agent.lock"), left.File(lockFile))
	switch {
	case err != nil && !errors.Is(err, errLocked):
		return nil, fmt.Errorf("lock %s: %w", e.Dir(), err)
	case err != nil:
		return nil, fault.New(fault.Conflict, "an agent of group %s, role %s runs already", e.Group, e.Role).
			WithHint("look at it: interlock agent status; or stop it: interlock agent stop")
	}
	a := &Agent{
		Options: o, clock: o.Clock, log: o.Logger.With(slog.String("group", e.Group), slog.String("role", string(e.Role))),
		instance: ident.New("ins", o.Clock.Now()), hostID: hostfacts.ID(ctx), lock: lock,
		due: make(chan struct{}, 1), news: make(chan struct{}, 1), stir: make(chan struct{}, 1), refresh: make(chan struct{}, 1),
		wake: make(chan struct{}, 1), replace: make(chan struct{}, 1), closing: make(chan *closing),
		shown: make(chan struct{}), serves: map[string]*serving{}, ceiling: ceiling{again: make(chan struct{}, 1)}, desired: fleet.Desired{Mode: fleet.Active},
	}
	a.inherit(left)
	if err := a.open(ctx, left); err != nil {
		if a.control != nil {
			a.control.Close()
		}
		return nil, errors.Join(err, lock.Unlock())
	}
	return a, nil
}

// open connects the agent's parts.
func (a *Agent) open(ctx context.Context, inherited *supervise.Inheritance) error {
	e := a.Enrollment
	env, err := e.Env()
	if err != nil {
		return err
	}
	if a.control, err = e.Client(a.Version); err != nil {
		return err
	}
	a.settings(env)
	if a.ceiling.wish, a.ceiling.damaged = loadWish(e.Dir()); a.ceiling.damaged != "" {
		a.log.Warn("read what the owner wants", slog.String("problem", a.ceiling.damaged))
	}
	a.ceiling.facts = a.measured(ctx, a.ceiling.wish.Availability)
	a.judge()
	if e.HostID != "" && e.HostID != a.hostID {
		a.trouble.copied = "this folder was copied from another computer (" + e.Name + "): run the install line here with a fresh key"
	}
	sup, err := supervise.New(supervise.Config{
		Dir: runDir(e), LogDir: filepath.Join(e.Dir(), "logs"), Policy: a.Supervise, Leash: a.Leash, Shim: a.Shim,
		Clock: a.clock, Logger: a.log, Inherited: inherited,
	})
	if err != nil {
		return err
	}
	left, err := sup.Sweep(ctx)
	if err != nil {
		return err
	}
	for _, l := range left {
		a.log.Info("found a model server of an earlier agent", slog.Any("process", l))
	}
	started, alive := processes()
	a.host = &machine{
		home: e.Home, group: e.Group, program: &program{setting: env[enrollment.EnvLlamaServer], clock: a.clock}, cache: models.NewCache(e.Home.Blobs(), a.FreeDisk),
		ledger: memory.Open(e.Home.Ledger(), alive), promise: memory.Promise{Pid: os.Getpid(), Started: started},
		sup: sup, control: a.control, clock: a.clock, moved: a.poke, stirred: func() { signal(a.stir) }, drain: a.LeaveGrace + handBackWithin,
	}
	a.loads = newBandwidth(a.clock, a.limit)
	a.host.cache.Pace = a.loads
	a.gauge = hostfacts.NewGauge(ctx, string(e.Home), a.clock)
	a.worker, err = worker.New(a.control, worker.Options{
		WorkerID: e.Machine, Version: a.Version, Pools: []worker.Pool{}, Pace: pace, Spool: filepath.Join(e.Dir(), "spool"), Grace: drainWithin,
		Wake: a.wake, Clock: a.clock, Logger: a.log,
	})
	if err != nil {
		return err
	}
	return a.worker.Handle(ai.ChatType, ai.ChatVersion, tasks.Pure, a.chat)
}

// Run serves until ctx ends; then work in hand is finished within its grace, model servers are stopped,
// and nothing is left behind.
func (a *Agent) Run(ctx context.Context) error {
	defer a.lock.Unlock() //nolint:errcheck // closing the file releases it as well
	defer a.control.Close()
	group, gctx := errgroup.WithContext(ctx)
	inherits := len(a.host.sup.Inherited()) > 0
	// Model servers outlive the worker: an answer in hand is finished before they stop. Who reports, and
	// the owner's door, outlive both: a machine that drains is not gone.
	servers, stopServers := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServers()
	last, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	defer context.AfterFunc(gctx, a.leave)()
	group.Go(func() error { return a.desiredLoop(gctx) })
	group.Go(func() error { return a.listenLoop(gctx) })
	group.Go(func() error { return a.reportLoop(last) })
	group.Go(func() error { return a.programLoop(last) })
	group.Go(func() error { return a.localLoop(last) })
	group.Go(func() error { return a.hoursLoop(gctx) })
	group.Go(func() error { return a.awake.Run(last) })
	group.Go(func() error { return a.replaceLoop(gctx) })
	group.Go(func() error {
		defer end()
		return a.reconcileLoop(servers)
	})
	group.Go(func() error {
		a.dropUnwanted(servers)
		return nil
	})
	group.Go(func() error {
		defer stopServers()
		if a.supported() != nil {
			<-gctx.Done() // enrolled and shown, but nothing is claimed
			return nil
		}
		if inherits {
			a.awaitOffer(gctx)
		}
		return a.workLoop(gctx)
	})
	err := group.Wait()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainWithin)
	defer cancel()
	err = errors.Join(err, a.host.sup.Close(bound))
	a.leave()
	a.lastReport(bound)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil
	}
	return err
}

// offerWithin is how long an image that inherits model servers may take to offer them.
const offerWithin = 5 * time.Second

// awaitOffer waits until a model that the former image left is offered. Until then what that image said of
// itself holds, that it will be back: a worker without models would have runs refused that can wait.
func (a *Agent) awaitOffer(ctx context.Context) {
	select {
	case <-a.shown:
	case <-a.clock.After(offerWithin):
	case <-ctx.Done():
	}
}

// workLoop claims and answers work. A control plane that revoked the machine ends it, and only it: the
// agent stays, so that its owner sees why.
func (a *Agent) workLoop(ctx context.Context) error {
	err := a.worker.Run(ctx)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	a.log.Error("the worker ended", slog.Any("cause", err))
	a.blame(func(t *trouble) {
		if t.ended = said(err); errors.Is(err, fault.Revoked) {
			t.ended = revokedWords
		}
	})
	<-ctx.Done()
	return nil
}

// runDir is where the model servers of a role have their keys and leashes.
func runDir(e enrollment.Enrollment) string { return filepath.Join(e.Dir(), "run") }

// leave makes the machine say that it takes no more work.
func (a *Agent) leave() {
	a.mu.Lock()
	a.leaving = true
	a.mu.Unlock()
	a.poke()
}

// supported says why this version cannot run the role or runtime of the enrollment; nil when it can.
func (a *Agent) supported() *fleet.State {
	e := a.Enrollment
	switch {
	case e.Role != fleet.RoleClient:
		return &fleet.State{Kind: fleet.StateUnsupported, Detail: fmt.Sprintf("role %s needs a newer agent", e.Role)}
	case e.Runtime != fleet.LlamaCpp:
		return &fleet.State{Kind: fleet.StateUnsupported, Detail: fmt.Sprintf("runtime %s needs a newer agent", e.Runtime)}
	}
	return nil
}

// poke asks for a reconcile and a report soon.
func (a *Agent) poke() {
	signal(a.due)
	signal(a.news)
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

func (a *Agent) serving(deployment string) *serving {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.serves[deployment]
}
