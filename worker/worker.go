package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/tasks"
)

// Transport is what a worker asks of a control plane; *client.Client satisfies it.
type Transport interface {
	RegisterWorker(ctx context.Context, req tasks.RegisterRequest) (tasks.RegisterResponse, error)
	ClaimTasks(ctx context.Context, req tasks.ClaimRequest) (tasks.ClaimResponse, error)
	RenewTasks(ctx context.Context, req tasks.RenewRequest) (tasks.RenewResponse, error)
	ReportProgress(ctx context.Context, req tasks.ProgressReport) error
	ReportLog(ctx context.Context, req tasks.LogReport) error
	ReportDelta(ctx context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error)
	CompleteTasks(ctx context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error)
	FailTask(ctx context.Context, req tasks.FailReport) (tasks.Outcome, error)
	ReportUnknown(ctx context.Context, req tasks.UnknownReport) (tasks.Outcome, error)
	Follow(ctx context.Context, path, from string, fn func(client.Event) error, opts ...client.CallOption) error
}

// DefaultGrace is how long handlers may finish after the worker was told to stop.
const DefaultGrace = 20 * time.Second

// Options says who a worker is and how much it does at once.
type Options struct {
	WorkerID string // stable over restarts, unique in the project
	Version  string // of the program, as the fleet sees it
	// Pools are what the worker serves; nil is the pool "default" with MaxConcurrent slots, and a list
	// without any is a worker that serves nothing until SetPools says otherwise.
	Pools         []Pool
	MaxConcurrent int    // slots of the pool "default" when Pools is nil; 1 when 0
	Spool         string // folder of the completion spool; "" keeps what was not sent in memory only
	// Pace is the least time between two reports of one stream after its first few, for each attempt in
	// hand: what is written meanwhile goes together, so a worker's reports are bounded however many
	// attempts it has. 0 sends at once.
	Pace   time.Duration
	Grace  time.Duration // for handlers when Run's context ends; DefaultGrace when 0, none when negative
	Clock  clock.Clock   // the machine's own when nil
	Logger *slog.Logger  // nothing is logged when nil; never an input, result or token
	// Wake brings hints that a claim or renewal may be worth it, from a caller that follows the control
	// plane's events itself. When nil the worker follows client.WorkerEventsPath.
	Wake <-chan struct{}
}

// HandlerFunc carries one attempt out. Its result is encoded as JSON. Its context ends when the attempt
// must stop; context.Cause tells why: ErrCancelled, ErrStale, ErrStopping or
// context.DeadlineExceeded. An error ends the task as failed unless it is a Retryable or Unknown.
type HandlerFunc func(ctx context.Context, t *Task) (any, error)

type handlerKey struct {
	typ     string
	version int
}

type handler struct {
	safety tasks.EffectSafety
	run    HandlerFunc
}

// Worker claims and carries out tasks. It is safe for concurrent use.
type Worker struct {
	transport Transport
	o         Options
	clock     clock.Clock
	log       *slog.Logger
	spool     *spool

	mu       sync.Mutex
	handlers map[handlerKey]handler
	pools    map[string]*pool
	held     map[string]*attempt // by attempt id, until its end is answered
	busy     int                 // handlers that run
	began    bool
	drain    bool
	back     bool // it drains to return
	stopping bool
	quiet    chan struct{} // of who waits; closes when no handler runs any more
	given    *givenBack    // set from HandBack to Resume: why what is claimed goes back
	out      int           // claims that are not answered yet
	moved    chan struct{} // of who waits in Settle; closes when a claim or an attempt ended
	poked    chan struct{} // closes at the next hint
	renewing renewal
	stats    Stats

	again       chan struct{} // holds one: register now
	doubted     chan struct{} // holds one: the control plane may be away
	kick        chan struct{} // holds one: something held falls due earlier than thought
	hinted      chan struct{} // holds one: renew soon
	completions chan sending
	expel       context.CancelCauseFunc
	life        context.Context // of everything that Run starts
	claiming    context.Context // of the claims
	claims      sync.WaitGroup  // claim loops
	work        sync.WaitGroup  // attempts, their streams and reports
}

// New makes a worker; Run starts it.
func New(transport Transport, o Options) (*Worker, error) {
	if err := tasks.CheckLabel("workerId", o.WorkerID, true); err != nil {
		return nil, err
	}
	if o.Pools == nil {
		if o.MaxConcurrent == 0 {
			o.MaxConcurrent = 1
		}
		o.Pools = []Pool{{Name: tasks.DefaultPool, Slots: o.MaxConcurrent}}
	}
	if err := checkPools(o.Pools); err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Grace == 0 {
		o.Grace = DefaultGrace
	}
	w := &Worker{
		transport: transport, o: o, clock: o.Clock, log: o.Logger,
		handlers: map[handlerKey]handler{}, pools: map[string]*pool{}, held: map[string]*attempt{},
		poked: make(chan struct{}),
		again: make(chan struct{}, 1), doubted: make(chan struct{}, 1), kick: make(chan struct{}, 1), hinted: make(chan struct{}, 1),
		completions: make(chan sending, tasks.MaxBatch),
	}
	if o.Spool != "" {
		var err error
		if w.spool, err = openSpool(o.Spool, o.Logger); err != nil {
			return nil, err
		}
	}
	w.arrange(o.Pools)
	return w, nil
}

// Handle adds one versioned handler. Its effect safety is declared, never inferred: without it the
// handler is refused, as is a second one for the same type and version, or one after Run began.
func (w *Worker) Handle(typ string, version int, safety tasks.EffectSafety, run HandlerFunc) error {
	if err := tasks.CheckType(typ, version); err != nil {
		return err
	}
	if !safety.Valid() {
		return fault.New(fault.Invalid, "handler %s@%d declares effectSafety %q; it is never inferred", typ, version, safety).
			WithField("effectSafety").WithHint("say %s, %s or %s", tasks.Pure, tasks.Idempotent, tasks.NonIdempotent)
	}
	if run == nil {
		return fault.New(fault.Invalid, "handler %s@%d is nil", typ, version).WithField("handler")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	key := handlerKey{typ, version}
	if w.began {
		return fault.New(fault.Conflict, "handler %s@%d comes after Run began", typ, version).WithHint("add every handler before Run")
	}
	if _, twice := w.handlers[key]; twice {
		return fault.New(fault.Conflict, "there is a handler for %s@%d already", typ, version).WithField("type")
	}
	w.handlers[key] = handler{safety, run}
	return nil
}

// giveUp stops the worker: its credential is worth nothing, so nothing it does can be reported.
func (w *Worker) giveUp(err error) { w.expel(err) }

func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// inHand is how many handlers run.
func (w *Worker) inHand() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy
}
