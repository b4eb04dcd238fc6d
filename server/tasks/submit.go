package servertasks

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Admission is an admitted task. Created is false when an idempotency key led to an earlier task.
type Admission struct {
	Task    tasks.View
	Created bool
	effects effects
}

// Submit admits one task, or returns the one that its idempotency key admitted before.
func (s *Service) Submit(ctx context.Context, project string, req tasks.SubmitRequest) (tasks.View, error) {
	canonical, err := normalize(&req, 0)
	if err != nil {
		return tasks.View{}, err
	}
	var a Admission
	err = s.write(ctx, store.LaneAdmit, "submit task", func(o *op) (err error) {
		a, err = o.submit(project, req, canonical, 0)
		return err
	})
	return a.Task, err
}

// SubmitTx admits a task in a transaction of the caller's, so that what the caller writes, the task
// and its journal are one commit. After that commit the caller passes the Admission to Announce.
//
// With a wait the task may stay queued that long before its first claim, and its deadline begins with
// that claim, at the latest at the wait's end; the caller then sees to EndWait.
func (s *Service) SubmitTx(tx *store.Tx, project string, req tasks.SubmitRequest, wait time.Duration) (Admission, error) {
	canonical, err := normalize(&req, wait)
	if err != nil {
		return Admission{}, err
	}
	o := s.newOp(tx)
	a, err := o.submit(project, req, canonical, wait)
	a.effects = o.effects
	return a, wrap("submit task", err)
}

// Announce sends out the hints of a committed SubmitTx. Without it the task starts a polling interval
// later.
func (s *Service) Announce(a Admission) { s.publish(&a.effects) }

// normalize checks a request and gives the digest of its canonical form.
func normalize(req *tasks.SubmitRequest, wait time.Duration) (digest string, err error) {
	if len(req.Input) > 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, req.Input); err != nil {
			return "", fault.New(fault.Malformed, "input is no JSON: %v", err).WithField("input")
		}
		req.Input = compact.Bytes()
	}
	if err := req.Normalize(); err != nil {
		return "", err
	}
	return canonicalDigest(*req, wait)
}

// canonicalDigest tells requests apart that share an idempotency key. Order of members and white space
// make no difference; numbers are compared as they are written. The key itself is no part of it.
func canonicalDigest(req tasks.SubmitRequest, wait time.Duration) (string, error) {
	req.IdempotencyKey = ""
	if len(req.Input) > 0 {
		dec := json.NewDecoder(bytes.NewReader(req.Input))
		dec.UseNumber()
		var v any
		if err := dec.Decode(&v); err != nil {
			return "", fault.New(fault.Malformed, "input is no JSON: %v", err).WithField("input")
		}
		sorted, err := json.Marshal(v) // encodes maps in the order of their keys
		if err != nil {
			return "", fmt.Errorf("canonical request: %w", err)
		}
		req.Input = sorted
	}
	b, err := json.Marshal(req)
	if err != nil {
		return "", fmt.Errorf("canonical request: %w", err)
	}
	if wait > 0 {
		b = append(b, wait.String()...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

func (o *op) submit(project string, req tasks.SubmitRequest, digest string, wait time.Duration) (Admission, error) {
	if req.IdempotencyKey != "" {
		earlier, err := o.earlier(project, req.IdempotencyKey, digest)
		if err != nil || earlier != nil {
			return o.admitted(earlier, false, err)
		}
	}
	id := ident.New("tsk", o.now)
	now := o.now.UnixMilli()
	t := &task{
		id: id, project: project, typ: req.Type, version: req.SchemaVersion, pool: req.Pool, priority: req.Priority,
		seq: o.s.nextSeq(o.now), maxAttempts: req.MaxAttempts, effectKey: "eff_" + id[len("tsk_"):],
		idempotencyKey: req.IdempotencyKey, requestHash: digest, created: now, updated: now, cursor: 1,
	}
	event, data := tasks.EventSubmit, submittedData{}
	if req.DelayMs > 0 {
		event, data.DelayMs, t.runAt = tasks.EventDelay, req.DelayMs, now+req.DelayMs
		o.effects.due = t.runAt
	}
	if req.ExpiresInMs > 0 {
		data.ExpiresInMs, t.expires = req.ExpiresInMs, now+req.ExpiresInMs
		if wait > 0 {
			data.WaitMs, t.startBy = wait.Milliseconds(), now+wait.Milliseconds()
			t.expires += wait.Milliseconds()
		}
		o.effects.due = t.expires
	}
	if len(req.Correlations) > 0 {
		t.correlations = encode(req.Correlations)
	}
	t.state, _ = tasks.Next("", event)
	if err := o.insert(t, req.Input); err != nil {
		return Admission{}, fmt.Errorf("admit: %w", err)
	}
	if err := o.append(t, []entry{{tasks.EntrySubmitted, data}}); err != nil {
		return Admission{}, err
	}
	if t.state == tasks.Queued {
		o.effects.queued = append(o.effects.queued, t.workKey())
	}
	return o.admitted(t, true, nil)
}

func (o *op) insert(t *task, input []byte) error {
	_, err := o.tx.Exec(`INSERT INTO tasks (id, seq, project, type, schema_version, pool, priority, state, max_attempts, effect_key,
		journal_cursor, idempotency_key, request_hash, correlations, created_at, updated_at, expires_at, run_at, start_by)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)`,
		t.id, t.seq, t.project, t.typ, t.version, t.pool, t.priority, t.state, t.maxAttempts, t.effectKey,
		t.cursor, t.idempotencyKey, t.requestHash, t.correlations, t.created, t.updated, t.expires, t.runAt, t.startBy)
	if err != nil || len(input) == 0 {
		return err
	}
	_, err = o.tx.Exec("INSERT INTO task_inputs (task_id, input) VALUES ($1, $2)", t.id, string(input))
	return err
}

// earlier is the task that the key admitted before, or nil.
func (o *op) earlier(project, key, digest string) (*task, error) {
	rows, err := o.tx.Query("SELECT "+taskColumns+" FROM tasks WHERE project = $1 AND idempotency_key = $2 AND idempotency_key <> ''", project, key)
	t, err := store.One(rows, err, scanTask)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up idempotency key: %w", err)
	case t.requestHash != digest:
		return nil, fault.New(fault.IdempotencyConflict, "idempotency key %q admitted task %s with another request", key, t.id).
			WithField("idempotencyKey").With("taskId", t.id).WithHint("repeat the same request, or use a new key for the new one")
	}
	return t, nil
}

func (o *op) admitted(t *task, created bool, err error) (Admission, error) {
	if err != nil {
		return Admission{}, err
	}
	v, err := t.view()
	if err != nil {
		return Admission{}, err
	}
	if v.Input, err = inputOf(o.tx, t.id); err != nil {
		return Admission{}, err
	}
	return Admission{Task: v, Created: created}, nil
}
