package servertasks

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Options say what a Service works with.
type Options struct {
	DB     *store.DB
	Clock  clock.Clock   // for waiting only; the store's clock judges. nil is the machine's clock
	Logger *slog.Logger  // nil logs nothing
	Hints  *hints.Hub    // where changes are hinted at; nil is one of its own
	Lease  time.Duration // 0 is tasks.Lease
}

// Service is the task core of one control plane. It is safe for concurrent use.
type Service struct {
	db    *store.DB
	clock clock.Clock
	log   *slog.Logger
	lease time.Duration
	onEnd []EndHook
	work  *workHub
	hints *hints.Hub
	lives *lives

	lastSeq atomic.Int64
	epoch   atomic.Uint64 // of the store's clock when live leases last got their full lease
	soon    chan struct{} // holds one: something falls due before the reaper's next look
}

// Caller is a worker's authority, as the API layer established it.
type Caller struct {
	Project string
	Machine string // id of the enrolled machine, whose worker id it then is; "" for a task-worker key
	// MayServe tells which pools the caller may register for; nil is all.
	MayServe func(pool string) bool
}

// EndHook runs in the commit that ends a task, whatever ended it. attempt is the newest attempt, with
// an empty ID when there never was one. The view carries no input. An error undoes the whole
// operation, so a hook returns one only for what the store answers. Like every function that runs in
// a transaction it may run more than once.
type EndHook func(tx *store.Tx, task tasks.View, attempt AttemptInfo) error

// AttemptInfo is what is recorded of one attempt.
type AttemptInfo struct {
	ID          string
	Number      int
	WorkerID    string
	Machine     string // id of the fleet machine, if it was one
	Safety      tasks.EffectSafety
	StreamBytes int64 // of its output stream, in the journal
	LeasedAt    time.Time
	StartedAt   time.Time // its first report; zero without one
	EndedAt     time.Time
}

// New makes the service; Run must run beside it.
func New(o Options) *Service {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Lease == 0 {
		o.Lease = tasks.Lease
	}
	if o.Hints == nil {
		o.Hints = &hints.Hub{}
	}
	return &Service{
		db: o.DB, clock: o.Clock, log: o.Logger, lease: o.Lease,
		work: newWorkHub(), hints: o.Hints, lives: newLives(),
		soon: make(chan struct{}, 1),
	}
}

// OnEnd adds a hook. Call it before the first request.
func (s *Service) OnEnd(hook EndHook) { s.onEnd = append(s.onEnd, hook) }

// write runs fn as one operation and, once it is committed, sends out its hints.
func (s *Service) write(ctx context.Context, lane store.Lane, what string, fn func(o *op) error) error {
	var o *op
	err := s.db.Write(ctx, lane, func(tx *store.Tx) error {
		o = s.newOp(tx)
		return fn(o)
	})
	if o != nil && (err == nil || errors.Is(err, fault.Unknown)) {
		s.publish(&o.effects)
	}
	return wrap(what, err)
}

// wrap names the operation in an error that is not worded for users already.
func wrap(what string, err error) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fault.Wrap(errors.Join(errors.New(what), err), fault.Internal, "internal error").
		WithHint("the server's log has the cause")
}

// nextSeq numbers admissions in order: the store's time, counted up within a millisecond.
func (s *Service) nextSeq(now time.Time) int64 {
	for {
		last := s.lastSeq.Load()
		next := max(last+1, now.UnixMilli()<<20)
		if s.lastSeq.CompareAndSwap(last, next) {
			return next
		}
	}
}
