package servertasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

const (
	// fallbackPoll is how often a parked claim looks by itself, for the case that a hint was lost.
	fallbackPoll = 5 * time.Second
	// seenStep is how old a worker's last sign may get before a claim or renewal writes a new one.
	seenStep = 10 * time.Second
)

// Claim leases up to req.Max attempts, never more than the worker has free capacity for, of the types
// and pools that it registered, narrowed to req.Pools. It waits for the first as long as req.WaitMs,
// 25 s at most, and then answers with none. A claim that a new registration leaves nothing to wait for
// (draining, a pool gone) answers at once, so that its worker need not break it off, which could lose
// an attempt that was leased in the same moment.
func (s *Service) Claim(ctx context.Context, c Caller, req tasks.ClaimRequest) (tasks.ClaimResponse, error) {
	none := tasks.ClaimResponse{Attempts: []tasks.Attempt{}}
	if err := c.CheckWorker(req.WorkerID); err != nil {
		return none, err
	}
	switch {
	case req.Max < 1 || req.Max > tasks.MaxClaim:
		return none, fault.New(fault.Invalid, "max is %d; a claim takes 1 to %d", req.Max, tasks.MaxClaim).WithField("max")
	case req.WaitMs < 0:
		return none, fault.New(fault.Invalid, "waitMs is %d; a wait is not negative", req.WaitMs).WithField("waitMs")
	}
	wait := min(time.Duration(req.WaitMs)*time.Millisecond, tasks.LongPoll)
	if req.WaitMs > tasks.LongPoll.Milliseconds() {
		wait = tasks.LongPoll
	}
	changed, cancel := s.hints.Subscribe(hints.Worker(c.Project, req.WorkerID))
	defer cancel()
	var timeout <-chan time.Time
	if wait > 0 {
		timeout = s.clock.After(wait)
	}
	for first := true; ; first = false {
		got, again, err := s.claimOnce(ctx, c, req, wait > 0, first, changed, timeout)
		if err != nil || len(got) > 0 || !again {
			return tasks.ClaimResponse{Attempts: append(none.Attempts, got...)}, err
		}
	}
}

// claimOnce parks, tries, and waits until another try may succeed. again is false when the time is up.
// A new registration changes what the worker may claim, so each round begins with reading it.
func (s *Service) claimOnce(ctx context.Context, c Caller, req tasks.ClaimRequest, park, first bool,
	changed <-chan struct{}, timeout <-chan time.Time) (got []tasks.Attempt, again bool, err error) {
	w, err := workerIn(s.db.Reader(ctx), c.Project, req.WorkerID)
	if err != nil {
		return nil, false, wrap("claim", err)
	}
	keys := w.keysIn(req.Pools)
	if !first && (w.drain || len(keys) == 0) {
		return nil, false, nil
	}
	if w.drain || w.held >= w.view.MaxConcurrent {
		keys = nil // who can take nothing must not be woken instead of others
	}
	p := s.work.park(keys)
	defer s.work.leave(p)
	for try := true; ; {
		if try {
			if got, err = s.leaseTo(ctx, c, req); err != nil || len(got) > 0 || !park {
				return got, false, err
			}
		}
		select {
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		case <-timeout:
			return nil, false, nil
		case <-changed:
			return nil, true, nil
		case <-p.wake:
			s.work.consume(p)
			try = true
		case <-s.clock.After(fallbackPoll):
			line, err := candidates(s.db.Reader(ctx), keys, s.db.Now(), 1)
			if err != nil {
				return nil, false, wrap("claim", err)
			}
			try = len(line) > 0
		}
	}
}

// leaseTo makes attempts of the first tasks in line.
func (s *Service) leaseTo(ctx context.Context, c Caller, req tasks.ClaimRequest) (got []tasks.Attempt, err error) {
	var left []workKey
	err = s.write(ctx, store.LaneAdmit, "claim", func(o *op) error {
		got, left = nil, nil
		w, err := workerIn(o.tx, c.Project, req.WorkerID)
		if err != nil {
			return err
		}
		n := min(req.Max, w.view.MaxConcurrent-w.held)
		if w.drain {
			n = 0
		}
		line, err := candidates(o.tx, w.keysIn(req.Pools), o.now, n)
		if err != nil {
			return err
		}
		size := 0
		for i, l := range line {
			if i >= n || size >= maxAnswer {
				left = append(left, l.key)
				break
			}
			a, err := o.lease(w, c, l.id)
			if err != nil {
				return err
			}
			got = append(got, a)
			size += len(a.Input)
		}
		return o.seen(w, w.held+len(got))
	})
	if err != nil {
		return nil, err
	}
	for _, k := range left { // there is more than this worker may take: the next one's turn
		s.work.offer(k)
	}
	if len(got) > 0 && ctx.Err() != nil {
		cause := context.Cause(ctx)
		return nil, errors.Join(cause, s.takeBack(ctx, got))
	}
	return got, nil
}

// takeBack requeues attempts whose claimer went away while they were leased: nobody ever saw their
// tokens, so they did not begin and do not count, whatever their safety.
func (s *Service) takeBack(ctx context.Context, got []tasks.Attempt) error {
	return s.write(context.WithoutCancel(ctx), store.LaneAdmit, "take back undelivered claims", func(o *op) error {
		for _, a := range got {
			t, err := o.holder(Caller{}, a.Ref)
			if err != nil {
				return err
			}
			if err := o.endAttempt(t, byNobody); err != nil {
				return err
			}
			standing := t.standing(o.now)
			standing.Safety = tasks.Pure
			f := tasks.Failure{Code: CodeReturned, Message: "the claim's answer found nobody"}
			first := entry{tasks.EntryAttemptFailed, failedData{f, true}}
			if err := o.settle(t, tasks.AfterReturn(standing), "undelivered", 1, f, first); err != nil {
				return err
			}
		}
		return nil
	})
}

// keysIn are what w may claim, narrowed to pools unless there are none.
func (w *worker) keysIn(pools []string) []workKey {
	keys := w.keys()
	if len(pools) == 0 {
		return keys
	}
	return slices.DeleteFunc(keys, func(k workKey) bool { return !slices.Contains(pools, k.pool) })
}

// inLine is a claimable task.
type inLine struct {
	id       string
	key      workKey
	priority int
	seq      int64
}

// claimQuery adds nothing to its limit, since SQLite plans a statement anew at each run for the value of a
// bare parameter there.
const claimQuery = `SELECT id, priority, seq FROM tasks WHERE project = $1 AND type = $2 AND schema_version = $3 AND pool = $4
	AND state = 'queued' AND (expires_at = 0 OR expires_at > $5) ORDER BY priority DESC, seq LIMIT $6 + 0`

// candidates are the first n+1 tasks in line for any of keys: higher priority first, then admission.
func candidates(q store.Querier, keys []workKey, now time.Time, n int) ([]inLine, error) {
	if n <= 0 {
		return nil, nil
	}
	var all []inLine
	for _, k := range keys {
		rows, err := q.Query(claimQuery, k.project, k.typ, k.version, k.pool, now.UnixMilli(), n+1)
		found, err := store.All(rows, err, func(row store.Scanner) (inLine, error) {
			l := inLine{key: k}
			return l, row.Scan(&l.id, &l.priority, &l.seq)
		})
		if err != nil {
			return nil, fmt.Errorf("look for queued tasks: %w", err)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b inLine) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.seq, b.seq), cmp.Compare(a.id, b.id))
	})
	return all[:min(len(all), n+1)], nil
}

// lease makes one attempt. Its token leaves in the answer only; the row keeps the digest.
func (o *op) lease(w *worker, c Caller, id string) (tasks.Attempt, error) {
	t, err := taskByID(o.tx, id)
	if err != nil {
		return tasks.Attempt{}, err
	}
	input, err := inputOf(o.tx, id)
	if err != nil {
		return tasks.Attempt{}, err
	}
	token := ident.Secret("lse_")
	a := tasks.Attempt{
		Ref:    tasks.Ref{TaskID: id, AttemptID: ident.New("att", o.now), Fence: t.fence + 1, LeaseToken: token},
		Number: int(t.fence) + 1, Type: t.typ, SchemaVersion: t.version, Pool: t.pool, Input: input,
		EffectKey: t.effectKey, LeaseMs: o.s.lease.Milliseconds(),
	}
	if err := decode(t.correlations, &a.Correlations); err != nil {
		return tasks.Attempt{}, err
	}
	if err := o.begin(t); err != nil {
		return tasks.Attempt{}, err
	}
	if t.expires > 0 {
		a.DeadlineMs = t.expires - o.now.UnixMilli()
	}
	err = o.advance(t, tasks.EventClaim, func(t *task) {
		t.attempts++
		t.fence, t.attemptID, t.leaseHash = a.Fence, a.AttemptID, ident.HashSecret(token)
		t.workerID, t.safety, t.progress = w.view.WorkerID, w.safety(t), ""
		t.leaseUntil = o.now.Add(o.s.lease).UnixMilli()
	}, entry{tasks.EntryLeased, leasedData{w.view.WorkerID, a.Number, a.Fence}})
	if err != nil {
		return tasks.Attempt{}, err
	}
	_, err = o.tx.Exec(`INSERT INTO attempts (id, task_id, project, number, worker_id, machine, effect_safety, leased_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
		a.AttemptID, id, t.project, a.Number, w.view.WorkerID, c.Machine, t.safety, o.now.UnixMilli())
	return a, err
}

// seen notes a sign of life and how much the worker runs, but not at every breath.
func (o *op) seen(w *worker, running int) error {
	if running == w.view.Running && o.now.UnixMilli()-w.seen < seenStep.Milliseconds() {
		return nil
	}
	_, err := o.tx.Exec("UPDATE workers SET last_seen = $1, running = $2 WHERE project = $3 AND worker_id = $4",
		o.now.UnixMilli(), running, w.project, w.view.WorkerID)
	return err
}
