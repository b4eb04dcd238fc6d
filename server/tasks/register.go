package servertasks

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Bounds of a registration.
const (
	MaxHandlers   = 100
	MaxPools      = 64
	MaxConcurrent = 10_000
)

// The states of a worker, in words.
const (
	WorkerReady    = "ready"
	WorkerFull     = "full" // all slots do work; it is not offline
	WorkerDraining = "draining"
	WorkerOffline  = "offline"
)

// machinePrefix begins the id of a fleet machine, which is also its worker id.
const machinePrefix = "mch_"

// CheckWorker refuses a worker id that is not the caller's to use.
func (c Caller) CheckWorker(id string) error {
	if err := tasks.CheckLabel("workerId", id, true); err != nil {
		return err
	}
	switch {
	case c.Machine != "" && id != c.Machine:
		return fault.New(fault.ScopeDenied, "this credential belongs to machine %s; it cannot act as worker %s", c.Machine, id).WithField("workerId")
	case c.Machine == "" && strings.HasPrefix(id, machinePrefix):
		return fault.New(fault.ScopeDenied, "worker id %s begins with %s, which is for enrolled machines", id, machinePrefix).
			WithField("workerId").WithHint("choose another worker id")
	}
	return nil
}

func (c Caller) checkPools(pools []string) error {
	for _, p := range pools {
		if c.MayServe != nil && !c.MayServe(p) {
			return fault.New(fault.ScopeDenied, "this credential may not serve pool %q", p).WithField("pools")
		}
	}
	return nil
}

func checkRegistration(req *tasks.RegisterRequest) error {
	invalid := func(field, format string, args ...any) error {
		return fault.New(fault.Invalid, format, args...).WithField(field)
	}
	switch {
	case len(req.Handlers) > MaxHandlers:
		return invalid("handlers", "%d handlers; the limit is %d", len(req.Handlers), MaxHandlers)
	case len(req.Pools) > MaxPools:
		return invalid("pools", "%d pools; the limit is %d", len(req.Pools), MaxPools)
	case req.MaxConcurrent < 0 || req.MaxConcurrent > MaxConcurrent:
		return invalid("maxConcurrent", "maxConcurrent is %d; it goes from 0 to %d", req.MaxConcurrent, MaxConcurrent)
	case req.Running < 0:
		return invalid("running", "running is %d; a count is not negative", req.Running)
	}
	seen := map[workKey]bool{}
	for _, h := range req.Handlers {
		if err := tasks.CheckType(h.Type, h.SchemaVersion); err != nil {
			return err
		}
		if !h.EffectSafety.Valid() {
			return fault.New(fault.Invalid, "handler %s@%d declares effectSafety %q; it is never inferred", h.Type, h.SchemaVersion, h.EffectSafety).
				WithField("handlers.effectSafety").WithHint("say %s, %s or %s", tasks.Pure, tasks.Idempotent, tasks.NonIdempotent)
		}
		k := workKey{typ: h.Type, version: h.SchemaVersion}
		if seen[k] {
			return invalid("handlers", "handler %s@%d is listed twice", h.Type, h.SchemaVersion)
		}
		seen[k] = true
	}
	for _, p := range req.Pools {
		if err := tasks.CheckLabel("pools", p, true); err != nil {
			return err
		}
	}
	return tasks.CheckLabel("version", req.Version, false)
}

// Register replaces a worker's registration and counts as seeing it.
func (s *Service) Register(ctx context.Context, c Caller, req tasks.RegisterRequest) (tasks.RegisterResponse, error) {
	if err := c.CheckWorker(req.WorkerID); err != nil {
		return tasks.RegisterResponse{}, err
	}
	if len(req.Pools) == 0 && c.Machine == "" { // a machine that has no model ready serves no pool
		req.Pools = []string{tasks.DefaultPool}
	}
	if err := checkRegistration(&req); err != nil {
		return tasks.RegisterResponse{}, err
	}
	if err := c.checkPools(req.Pools); err != nil {
		return tasks.RegisterResponse{}, err
	}
	slices.Sort(req.Pools)
	req.Pools = append([]string{}, slices.Compact(req.Pools)...) // lists that are read back as lists, not as null
	req.Handlers = append([]tasks.Handler{}, req.Handlers...)
	err := s.write(ctx, store.LaneAdmit, "register worker", func(o *op) error {
		_, err := o.tx.Exec(`INSERT INTO workers (project, worker_id, machine, handlers, pools, max_concurrent, running, draining,
			version, registered_at, last_seen) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10)
			ON CONFLICT (project, worker_id) DO UPDATE SET machine = excluded.machine, handlers = excluded.handlers,
			pools = excluded.pools, max_concurrent = excluded.max_concurrent, running = excluded.running,
			draining = excluded.draining, version = excluded.version, last_seen = excluded.last_seen`,
			c.Project, req.WorkerID, c.Machine, encode(req.Handlers), encode(req.Pools), req.MaxConcurrent, req.Running,
			drainOf(req), req.Version, o.now.UnixMilli())
		o.effects.changed = append(o.effects.changed, hints.Tasks(c.Project), hints.Worker(c.Project, req.WorkerID))
		return err
	})
	if err != nil {
		return tasks.RegisterResponse{}, err
	}
	w := worker{project: c.Project, view: tasks.WorkerView{Handlers: req.Handlers, Pools: req.Pools}}
	s.work.learn(c.Project, req.WorkerID, w.keys())
	return tasks.RegisterResponse{LeaseMs: s.lease.Milliseconds(), SeenMs: tasks.RegisterGap.Milliseconds()}, nil
}

// Unregister forgets a worker. What it holds goes the way of a lost lease unless it still reports.
func (s *Service) Unregister(ctx context.Context, project, workerID string) error {
	return s.write(ctx, store.LaneAdmit, "unregister worker", func(o *op) error {
		_, err := o.tx.Exec("DELETE FROM workers WHERE project = $1 AND worker_id = $2", project, workerID)
		o.effects.changed = append(o.effects.changed, hints.Tasks(project), hints.Worker(project, workerID))
		return err
	})
}

// How a worker drains, as it is stored.
const (
	drainsNot = iota
	drains
	drainsToReturn
)

func drainOf(req tasks.RegisterRequest) int {
	switch {
	case !req.Draining:
		return drainsNot
	case req.Returns:
		return drainsToReturn
	}
	return drains
}

// worker is a row of the table workers, with how many attempts it holds.
type worker struct {
	project string
	view    tasks.WorkerView
	seen    int64
	drain   bool
	returns bool // it drains to be back
	held    int  // by the tasks, not by the worker's word
}

const workerQuery = `SELECT project, worker_id, machine, handlers, pools, max_concurrent, running, draining, version, last_seen,
	(SELECT COUNT(*) FROM tasks t WHERE t.project = workers.project AND t.worker_id = workers.worker_id
		AND t.state IN ('leased', 'running'))
	FROM workers WHERE project = $1`

func scanWorker(row store.Scanner) (*worker, error) {
	var (
		w               worker
		handlers, pools string
		drain           int
	)
	err := row.Scan(&w.project, &w.view.WorkerID, &w.view.Machine, &handlers, &pools, &w.view.MaxConcurrent, &w.view.Running,
		&drain, &w.view.Version, &w.seen, &w.held)
	w.view.LastSeen = whenOrZero(w.seen)
	w.drain, w.returns = drain != drainsNot, drain == drainsToReturn
	return &w, errors.Join(err, decode(handlers, &w.view.Handlers), decode(pools, &w.view.Pools))
}

// keys are what w may claim.
func (w *worker) keys() []workKey {
	keys := make([]workKey, 0, len(w.view.Handlers)*len(w.view.Pools))
	for _, h := range w.view.Handlers {
		for _, p := range w.view.Pools {
			keys = append(keys, workKey{w.project, h.Type, h.SchemaVersion, p})
		}
	}
	return keys
}

func (w *worker) safety(t *task) tasks.EffectSafety {
	for _, h := range w.view.Handlers {
		if h.Type == t.typ && h.SchemaVersion == t.version {
			return h.EffectSafety
		}
	}
	return tasks.NonIdempotent // not reached: a claim only takes what a handler is registered for
}

// state is w in words. A worker may still do work that it lost the lease of, so its own word counts
// when it is higher; each claim sets that word right.
func (w *worker) state(now time.Time) string {
	switch {
	case now.UnixMilli()-w.seen > tasks.SeenFor.Milliseconds():
		return WorkerOffline
	case w.drain:
		return WorkerDraining
	case max(w.held, w.view.Running) >= w.view.MaxConcurrent:
		return WorkerFull
	}
	return WorkerReady
}

// Workers lists a project's workers by id, those of machines included.
func (s *Service) Workers(ctx context.Context, project string) ([]tasks.WorkerView, error) {
	return workersIn(s.db.Reader(ctx), project, s.db.Now())
}

func workersIn(q store.Querier, project string, now time.Time) ([]tasks.WorkerView, error) {
	rows, err := q.Query(workerQuery+" ORDER BY worker_id", project)
	found, err := store.All(rows, err, scanWorker)
	if err != nil {
		return nil, wrap("list workers", err)
	}
	views := make([]tasks.WorkerView, 0, len(found))
	for _, w := range found {
		v := w.view
		v.State, v.Running = w.state(now), max(w.held, w.view.Running)
		v.Returns = v.State == WorkerDraining && w.returns
		views = append(views, v)
	}
	return views, nil
}

// workerIn is a registered worker of a project.
func workerIn(q store.Querier, project, id string) (*worker, error) {
	rows, err := q.Query(workerQuery+" AND worker_id = $2", project, id)
	w, err := store.One(rows, err, scanWorker)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fault.New(fault.NotFound, "worker %q is not registered in project %s", id, project).
			WithField("workerId").WithHint("register it first: POST /api/workers/register")
	}
	return w, err
}
