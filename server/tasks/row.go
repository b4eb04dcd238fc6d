package servertasks

import (
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"interlock.sh/fault"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// task is a row of the table tasks.
type task struct {
	id, project, typ, pool         string
	seq                            int64
	version, priority              int
	state                          tasks.State
	attempts, maxAttempts          int
	effectKey, workerID, attemptID string
	safety                         tasks.EffectSafety
	fence                          int64
	leaseHash                      string
	leaseUntil, cursor             int64
	cancelRequested                canceller
	cancelReason                   string
	result, failure, progress      string
	idempotencyKey, requestHash    string
	correlations                   string
	created, updated               int64
	started, ended, expires, runAt int64
	startBy                        int64
}

// canceller is on whose behalf a task was asked to stop. It decides between cancelled and expired.
type canceller int

const (
	byNone canceller = iota
	byRequest
	byDeadline
)

const taskColumns = `id, seq, project, type, schema_version, pool, priority, state, attempts, max_attempts,
	effect_key, effect_safety, worker_id, attempt_id, fence, lease_hash, lease_until, journal_cursor,
	cancel_requested, cancel_reason, result, error, progress, idempotency_key, request_hash, correlations,
	created_at, updated_at, started_at, ended_at, expires_at, run_at, start_by`

func scanTask(s store.Scanner) (*task, error) {
	var t task
	return &t, s.Scan(&t.id, &t.seq, &t.project, &t.typ, &t.version, &t.pool, &t.priority, &t.state, &t.attempts, &t.maxAttempts,
		&t.effectKey, &t.safety, &t.workerID, &t.attemptID, &t.fence, &t.leaseHash, &t.leaseUntil, &t.cursor,
		&t.cancelRequested, &t.cancelReason, &t.result, &t.failure, &t.progress, &t.idempotencyKey, &t.requestHash, &t.correlations,
		&t.created, &t.updated, &t.started, &t.ended, &t.expires, &t.runAt, &t.startBy)
}

// taskByID is the row, or nil when there is none.
func taskByID(q store.Querier, id string) (*task, error) {
	rows, err := q.Query("SELECT "+taskColumns+" FROM tasks WHERE id = $1", id)
	t, err := store.One(rows, err, scanTask)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return t, err
}

// taskIn is the row of a project's task.
func taskIn(q store.Querier, project, id string) (*task, error) {
	t, err := taskByID(q, id)
	if err == nil && (t == nil || t.project != project) {
		return nil, fault.New(fault.NotFound, "there is no task %q in project %s", id, project).WithHint("list them: interlock tasks list")
	}
	return t, err
}

func inputOf(q store.Querier, id string) (json.RawMessage, error) {
	var input string
	err := q.QueryRow("SELECT input FROM task_inputs WHERE task_id = $1", id).Scan(&input)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return json.RawMessage(input), err
}

func (t *task) deadlinePassed(now time.Time) bool {
	return t.expires > 0 && t.expires <= now.UnixMilli()
}

func (t *task) standing(now time.Time) tasks.Standing {
	return tasks.Standing{
		Safety: t.safety, Attempts: t.attempts, MaxAttempts: t.maxAttempts,
		CancelRequested: t.cancelRequested == byRequest, DeadlinePassed: t.deadlinePassed(now),
	}
}

func (t *task) workKey() workKey { return workKey{t.project, t.typ, t.version, t.pool} }

// view is the task as its producer sees it, without its input.
func (t *task) view() (tasks.View, error) {
	v := tasks.View{
		ID: t.id, Project: t.project, Type: t.typ, SchemaVersion: t.version, State: t.state, Pool: t.pool, Priority: t.priority,
		Attempts: t.attempts, MaxAttempts: t.maxAttempts, EffectKey: t.effectKey, EffectSafety: t.safety,
		WorkerID: t.workerID, AttemptID: t.attemptID, Result: raw(t.result),
		CancelRequested: t.cancelRequested != byNone, CancelReason: t.cancelReason, IdempotencyKey: t.idempotencyKey, Cursor: t.cursor,
		CreatedAt: *when(t.created), UpdatedAt: *when(t.updated),
		StartedAt: when(t.started), EndedAt: when(t.ended), ExpiresAt: when(t.expires),
	}
	return v, errors.Join(decode(t.failure, &v.Error), decode(t.progress, &v.Progress), decode(t.correlations, &v.Correlations))
}

func raw(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func decode(text string, into any) error {
	if text == "" {
		return nil
	}
	return json.Unmarshal([]byte(text), into)
}

// encode is the stored form of a value of ours; such values always encode.
func encode(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // contained by the store, which fails this operation alone
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func when(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

func whenOrZero(ms int64) time.Time {
	if t := when(ms); t != nil {
		return *t
	}
	return time.Time{}
}
