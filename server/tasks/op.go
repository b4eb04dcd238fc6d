package servertasks

import (
	"fmt"
	"time"

	"interlock.sh/fault"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// op is one operation inside the store's transaction, with the hints that leave after its commit.
type op struct {
	s       *Service
	tx      *store.Tx
	now     time.Time
	effects effects
}

func (s *Service) newOp(tx *store.Tx) *op { return &op{s: s, tx: tx, now: tx.Now()} }

// effects are what an operation makes known once it is committed.
type effects struct {
	changed []string          // who watches these looks again
	queued  []workKey         // one claim each may succeed now
	ended   []string          // attempts that are over
	cancels map[string]string // attempt → reason
	durable map[string]int64  // attempt → bytes of its stream in the journal
	due     int64             // something falls due at this time
}

// entry is a journal line to be.
type entry struct {
	kind tasks.EntryKind
	data any // nil for none
}

// errRaced is met when another node moved the task between our reading and our writing.
var errRaced = fault.New(fault.Conflict, "the task moved while this request was carried out").WithHint("read it again")

const updateTask = `UPDATE tasks SET state = $1, attempts = $2, effect_safety = $3, worker_id = $4, attempt_id = $5,
	fence = $6, lease_hash = $7, lease_until = $8, journal_cursor = $9, cancel_requested = $10, cancel_reason = $11,
	result = $12, error = $13, progress = $14, updated_at = $15, started_at = $16, ended_at = $17
	WHERE id = $18 AND state = $19 AND fence = $20 AND lease_hash = $21 AND journal_cursor = $22`

// advance makes one move: the row as t stood when it was read, changed by change, goes where event
// leads, with its entries in the journal. A terminal move runs the hooks.
func (o *op) advance(t *task, event tasks.Event, change func(t *task), entries ...entry) error {
	to, ok := tasks.Next(t.state, event)
	if !ok {
		return fault.New(fault.Conflict, "a task that is %s cannot %s", t.state, event)
	}
	was := *t
	t.state = to
	if to.Terminal() {
		t.ended, t.leaseUntil = o.now.UnixMilli(), 0
	}
	if change != nil {
		change(t)
	}
	t.updated = o.now.UnixMilli()
	t.cursor += int64(len(entries))
	res, err := o.tx.Exec(updateTask, t.state, t.attempts, t.safety, t.workerID, t.attemptID,
		t.fence, t.leaseHash, t.leaseUntil, t.cursor, t.cancelRequested, t.cancelReason,
		t.result, t.failure, t.progress, t.updated, t.started, t.ended,
		t.id, was.state, was.fence, was.leaseHash, was.cursor)
	if err := oneRow(res, err); err != nil {
		return fmt.Errorf("%s task %s: %w", event, t.id, err)
	}
	if err := o.append(t, entries); err != nil {
		return err
	}
	if to == tasks.Queued {
		o.effects.queued = append(o.effects.queued, t.workKey())
	}
	if was.state.Held() && !to.Held() {
		o.effects.changed = append(o.effects.changed, hints.Worker(t.project, t.workerID))
		o.effects.ended = append(o.effects.ended, t.attemptID)
	}
	if to.Terminal() {
		return o.end(t)
	}
	return nil
}

// touch changes what is not the state: leases, cancel requests, progress, entries.
func (o *op) touch(t *task, change func(t *task), entries ...entry) error {
	was := *t
	if change != nil {
		change(t)
	}
	t.updated = o.now.UnixMilli()
	t.cursor += int64(len(entries))
	res, err := o.tx.Exec(`UPDATE tasks SET lease_until = $1, journal_cursor = $2, cancel_requested = $3, cancel_reason = $4,
		progress = $5, updated_at = $6 WHERE id = $7 AND state = $8 AND fence = $9 AND lease_hash = $10 AND journal_cursor = $11`,
		t.leaseUntil, t.cursor, t.cancelRequested, t.cancelReason, t.progress, t.updated,
		t.id, was.state, was.fence, was.leaseHash, was.cursor)
	if err := oneRow(res, err); err != nil {
		return fmt.Errorf("update task %s: %w", t.id, err)
	}
	return o.append(t, entries)
}

func oneRow(res interface{ RowsAffected() (int64, error) }, err error) error {
	if err != nil {
		return err
	}
	switch n, err := res.RowsAffected(); {
	case err != nil:
		return err
	case n != 1:
		return errRaced
	}
	return nil
}

// append writes the newest entries of a task whose cursor already counts them.
func (o *op) append(t *task, entries []entry) error {
	for i, e := range entries {
		data := ""
		if e.data != nil {
			data = encode(e.data)
		}
		attempt := t.attemptID
		if e.kind == tasks.EntrySubmitted || e.kind == tasks.EntryQueued {
			attempt = ""
		}
		if _, err := o.tx.Exec("INSERT INTO journal (task_id, seq, at, kind, attempt_id, data) VALUES ($1, $2, $3, $4, $5, $6)",
			t.id, t.cursor-int64(len(entries)-1-i), o.now.UnixMilli(), e.kind, attempt, data); err != nil {
			return fmt.Errorf("journal %s of task %s: %w", e.kind, t.id, err)
		}
	}
	if len(entries) > 0 {
		o.effects.changed = append(o.effects.changed, hints.Task(t.id), hints.Tasks(t.project))
	}
	return nil
}

func (o *op) end(t *task) error {
	if len(o.s.onEnd) == 0 {
		return nil
	}
	v, err := t.view()
	if err != nil {
		return fmt.Errorf("end task %s: %w", t.id, err)
	}
	var a AttemptInfo
	if t.attemptID != "" {
		if a, err = attemptByID(o.tx, t.attemptID); err != nil {
			return fmt.Errorf("end task %s: %w", t.id, err)
		}
	}
	for _, hook := range o.s.onEnd {
		if err := hook(o.tx, v, a); err != nil {
			return fmt.Errorf("end task %s: %w", t.id, err)
		}
	}
	return nil
}

// publish sends out the hints of a committed operation.
func (s *Service) publish(e *effects) {
	s.lives.saved(e.durable)
	s.lives.close(e.ended)
	s.lives.cancel(e.cancels)
	for _, k := range e.queued {
		s.work.offer(k)
	}
	s.hints.Publish(e.changed...)
	if e.due > 0 {
		select {
		case s.soon <- struct{}{}:
		default:
		}
	}
}

func attemptByID(q store.Querier, id string) (AttemptInfo, error) {
	var (
		a                      AttemptInfo
		leased, started, ended int64
	)
	err := q.QueryRow(`SELECT id, number, worker_id, machine, effect_safety, stream_bytes, leased_at, started_at, ended_at
		FROM attempts WHERE id = $1`, id).
		Scan(&a.ID, &a.Number, &a.WorkerID, &a.Machine, &a.Safety, &a.StreamBytes, &leased, &started, &ended)
	a.LeasedAt, a.StartedAt, a.EndedAt = whenOrZero(leased), whenOrZero(started), whenOrZero(ended)
	return a, err
}
