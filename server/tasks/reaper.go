package servertasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

const (
	sweepStep  = time.Second // the longest time between two looks
	sweepPage  = 256
	sweepAbout = 16 // operations that a sweep has in the writer at once, to share its commits
)

// What falls due; each reads one index. nextQuery is when the next of it does.
const (
	dueQuery  = `SELECT id FROM tasks WHERE state = 'scheduled' AND run_at <= $1 LIMIT $2`
	lateQuery = `SELECT id FROM tasks WHERE expires_at > 0 AND expires_at <= $1
		AND state IN ('scheduled', 'queued', 'leased', 'running') AND cancel_requested = 0 AND start_by = 0 LIMIT $2`
	lostQuery = `SELECT id FROM tasks WHERE state IN ('leased', 'running') AND lease_until <= $1 LIMIT $2`
	nextQuery = `SELECT COALESCE(MIN(at), 0) FROM (
		SELECT MIN(lease_until) AS at FROM tasks WHERE state IN ('leased', 'running')
		UNION ALL SELECT MIN(run_at) FROM tasks WHERE state = 'scheduled'
		UNION ALL SELECT MIN(expires_at) FROM tasks WHERE expires_at > 0
			AND state IN ('scheduled', 'queued', 'leased', 'running') AND cancel_requested = 0 AND start_by = 0) AS due`
)

// deadlineReason is the reason of the cancel request that a passed deadline makes.
const deadlineReason = "the task's deadline passed"

// errJumped breaks a round off: before anything is ended, live leases get their full length.
var errJumped = errors.New("the machine's clock jumped")

// Run ends what time ends (lost leases, delays, deadlines) until ctx does.
func (s *Service) Run(ctx context.Context) error {
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep tasks", slog.Any("cause", err))
		}
		wait, err := s.untilDue(ctx)
		if err != nil {
			wait = sweepStep
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.clock.After(wait):
		case <-s.soon:
		}
	}
}

// untilDue is how long nothing falls due, at most sweepStep.
func (s *Service) untilDue(ctx context.Context) (time.Duration, error) {
	var next int64
	err := s.db.QueryRow(ctx, nextQuery).Scan(&next)
	if err != nil || next == 0 {
		return sweepStep, err
	}
	left := time.Duration(next-s.db.Now().UnixMilli()) * time.Millisecond
	return min(max(left, time.Millisecond), sweepStep), nil
}

// Sweep is one round of Run. In the first one, and in the first after the machine's clock jumped, every
// live lease gets its full length anew: nobody could renew while the control plane was away.
func (s *Service) Sweep(ctx context.Context) error {
	if s.db.Epoch() != s.epoch.Load() {
		if err := s.grace(ctx); err != nil {
			return err
		}
	}
	return errors.Join(
		s.each(ctx, "start due tasks", dueQuery, (*op).due),
		s.each(ctx, "expire tasks", lateQuery, (*op).late),
		s.each(ctx, "end lost attempts", lostQuery, (*op).lost),
	)
}

func (s *Service) grace(ctx context.Context) error {
	var epoch uint64
	err := s.db.Write(ctx, store.LaneRenew, func(tx *store.Tx) error {
		epoch = tx.Epoch()
		_, err := tx.Exec(`UPDATE tasks SET lease_until = $1 WHERE state IN ('leased', 'running') AND lease_until < $1`,
			tx.Now().Add(s.lease).UnixMilli())
		return err
	})
	if err != nil {
		return wrap("extend live leases", err)
	}
	s.epoch.Store(epoch)
	return nil
}

// each runs one operation for every task that the query finds at the store's time. An operation looks
// again before it acts, and one that fails leaves the others alone.
func (s *Service) each(ctx context.Context, what, query string, act func(*op, *task) error) error {
	for {
		rows, err := s.db.Query(ctx, query, s.db.Now().UnixMilli(), sweepPage)
		ids, err := store.All(rows, err, func(row store.Scanner) (id string, err error) { return id, row.Scan(&id) })
		if err != nil {
			return wrap(what, err)
		}
		if err := s.all(ctx, what, ids, act); err != nil || len(ids) < sweepPage {
			return err
		}
	}
}

func (s *Service) all(ctx context.Context, what string, ids []string, act func(*op, *task) error) error {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		errs []error
		room = make(chan struct{}, sweepAbout)
	)
	for _, id := range ids {
		room <- struct{}{}
		wg.Go(func() {
			defer func() { <-room }()
			if err := s.act(ctx, what, id, act); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("task %s: %w", id, err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (s *Service) act(ctx context.Context, what, id string, act func(*op, *task) error) error {
	return s.write(ctx, store.LaneAdmit, what, func(o *op) error {
		if o.tx.Epoch() != s.epoch.Load() {
			return errJumped
		}
		t, err := taskByID(o.tx, id)
		if err != nil || t == nil {
			return err
		}
		return act(o, t)
	})
}

func (o *op) due(t *task) error {
	if t.state != tasks.Scheduled || t.runAt > o.now.UnixMilli() {
		return nil
	}
	return o.advance(t, tasks.EventDue, nil, entry{tasks.EntryQueued, queuedData{"due"}})
}

// late is what a passed deadline does: who is not held expires; who is held is asked to stop, and
// expires when its worker says so or is lost.
func (o *op) late(t *task) error {
	switch {
	case !t.deadlinePassed(o.now), t.state.Terminal(), t.cancelRequested != byNone, t.startBy > 0: // EndWait says how a wait ends
		return nil
	case t.state.Held():
		return o.requestCancel(t, byDeadline, deadlineReason)
	}
	return o.advance(t, tasks.EventExpire, func(t *task) { t.failure = encode(expired(t)) }, entry{kind: tasks.EntryExpired})
}

// lost ends an attempt whose lease ran out. What it streamed so far is kept.
func (o *op) lost(t *task) error {
	if !t.state.Held() || t.leaseUntil > o.now.UnixMilli() {
		return nil
	}
	if _, err := o.flush(t); err != nil {
		return err
	}
	if err := o.endAttempt(t, byLoss); err != nil {
		return err
	}
	f := tasks.Failure{Code: CodeAttemptLost,
		Message: fmt.Sprintf("the lease of attempt %d ran out without a report, and %d of %d attempts are used", t.fence, t.attempts, t.maxAttempts)}
	return o.settle(t, tasks.AfterLoss(t.standing(o.now)), "lost", 0, f, entry{kind: tasks.EntryAttemptLost})
}
