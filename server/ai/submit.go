package serverai

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/files"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// Submission is a run to admit, whichever door it came through.
type Submission struct {
	Model          string
	Policy         ai.Policy
	Chat           Chat // the checked body for the model server
	TimeoutMs      int64
	WaitForMs      int64 // for an eligible machine; 0 does not wait
	IdempotencyKey string
}

// Submit admits a run of the resource API.
func (s *Service) Submit(ctx context.Context, project string, req ai.RunRequest) (ai.Run, error) {
	chat, err := ChatOf(req)
	if err != nil {
		return ai.Run{}, err
	}
	return s.Admit(ctx, project, Submission{
		Model: req.Model, Policy: req.RoutePolicy, Chat: chat, TimeoutMs: req.TimeoutMs, WaitForMs: req.WaitForMs,
		IdempotencyKey: req.IdempotencyKey,
	})
}

// Admit places a run and stores it with its task in one commit.
func (s *Service) Admit(ctx context.Context, project string, sub Submission) (ai.Run, error) {
	if sub.Model == "" {
		return ai.Run{}, fault.New(fault.Invalid, "model is empty").WithField("model").WithHint("name a deployment alias, or group@channel")
	}
	if sub.TimeoutMs < 0 || sub.TimeoutMs > ai.MaxTimeout.Milliseconds() {
		return ai.Run{}, fault.New(fault.Invalid, "timeoutMs is %d; it goes from 0 to %d", sub.TimeoutMs, ai.MaxTimeout.Milliseconds()).WithField("timeoutMs")
	}
	if sub.WaitForMs < 0 || sub.WaitForMs > ai.MaxWait.Milliseconds() {
		return ai.Run{}, fault.New(fault.Invalid, "waitForMs is %d; it goes from 0 to %d", sub.WaitForMs, ai.MaxWait.Milliseconds()).WithField("waitForMs").
			WithHint("28800000 waits for 8 hours")
	}
	if sub.TimeoutMs == 0 {
		sub.TimeoutMs = ai.DefaultExpiry.Milliseconds()
	}
	if sub.IdempotencyKey != "" {
		if err := tasks.CheckLabel("idempotencyKey", sub.IdempotencyKey, true); err != nil {
			return ai.Run{}, err
		}
		if len(sub.IdempotencyKey) > maxKey {
			return ai.Run{}, fault.New(fault.Invalid, "idempotencyKey has %d bytes; the limit is %d", len(sub.IdempotencyKey), maxKey).WithField("idempotencyKey")
		}
	}
	d, policy, repeat, err := s.placeOrRepeat(ctx, project, sub)
	if err != nil {
		return ai.Run{}, err
	}
	request, err := json.Marshal(sub.Chat)
	if err != nil {
		return ai.Run{}, err
	}
	ref := files.RefOf(request)
	if !repeat { // the first one stored the body, which may be gone by now
		if ref, err = s.files.PutBytes(ctx, request); err != nil {
			return ai.Run{}, err
		}
	}
	blob := ai.BlobRef{SHA256: ref.SHA256, Size: ref.Size}
	var id string
	var admission servertasks.Admission
	err = s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		queued, err := servertasks.Queued(tx, project, ai.ChatType, ai.ChatVersion, pool(d.ID))
		if err != nil {
			return err
		}
		id, admission, err = s.insert(tx, project, sub, d, policy, blob)
		if err == nil && admission.Created && queued >= ai.MaxQueued {
			err = queueFull(d, queued)
		}
		return err
	})
	if err != nil {
		return ai.Run{}, err
	}
	s.tasks.Announce(admission)
	s.hints.Publish(hints.Runs(project))
	return s.Get(ctx, project, id)
}

// insert writes task and run. With an idempotency key whose task is there, it is that task's run.
func (s *Service) insert(tx *store.Tx, project string, sub Submission, d fleet.Deployment, policy ai.Policy, blob ai.BlobRef) (string, servertasks.Admission, error) {
	now := tx.Now()
	// The input must be the same for a repeated request: it names no run, the run names the task.
	input, err := json.Marshal(ai.ChatInput{DeploymentID: d.ID, Alias: d.Alias, Request: blob})
	if err != nil {
		return "", servertasks.Admission{}, err
	}
	adm, err := s.tasks.SubmitTx(tx, project, tasks.SubmitRequest{
		Type: ai.ChatType, SchemaVersion: ai.ChatVersion, Input: input, Pool: pool(d.ID),
		MaxAttempts: ai.MaxAttempts, ExpiresInMs: sub.TimeoutMs, IdempotencyKey: runKey(sub.IdempotencyKey),
	}, time.Duration(sub.WaitForMs)*time.Millisecond)
	if err != nil {
		return "", adm, err
	}
	if !adm.Created {
		var id string
		err := tx.QueryRow("SELECT id FROM runs WHERE task = $1", adm.Task.ID).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) { // a producer's own task took the key
			err = repeatConflict(sub.IdempotencyKey)
		}
		return id, adm, err
	}
	id := ident.New("run", now)
	_, err = tx.Exec(`INSERT INTO runs (id, task, project, model, deployment, alias, route, policy, request_sha256, request_size, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		id, adm.Task.ID, project, sub.Model, d.ID, d.Alias, d.Route, string(policy), blob.SHA256, blob.Size, now.UnixMilli())
	return id, adm, err
}

// placeOrRepeat places a new run. A repeat of a request that was admitted goes where the first one went,
// whatever became of the machines and channels since: it gets that run back, not a refusal. The third
// result says that it is a repeat.
func (s *Service) placeOrRepeat(ctx context.Context, project string, sub Submission) (fleet.Deployment, ai.Policy, bool, error) {
	err := sql.ErrNoRows
	var first ai.Run
	if sub.IdempotencyKey != "" {
		first, err = scanRun(s.db.QueryRow(ctx, "SELECT "+runColumns+runFrom+"JOIN tasks t ON t.id = r.task WHERE t.project = $1 AND t.idempotency_key = $2 AND t.idempotency_key <> ''",
			project, runKey(sub.IdempotencyKey)))
	}
	if errors.Is(err, sql.ErrNoRows) {
		d, policy, err := s.place(ctx, project, sub)
		return d, policy, false, err
	}
	if err != nil {
		return fleet.Deployment{}, "", false, err
	}
	if sub.Policy == "" {
		sub.Policy = ai.SelfHostedOnly
	}
	if first.Model != sub.Model || first.RoutePolicy != sub.Policy {
		return fleet.Deployment{}, "", false, repeatConflict(sub.IdempotencyKey)
	}
	return fleet.Deployment{ID: first.DeploymentID, Alias: first.Deployment, Route: first.Route}, first.RoutePolicy, true, nil
}

func repeatConflict(key string) error {
	return fault.New(fault.IdempotencyConflict, "idempotency key %q was used with another request", key).
		WithField("idempotencyKey").WithHint("repeat the same request, or use a new key for the new one")
}

const (
	keyPrefix = "ai-run:"
	maxKey    = tasks.MaxKeyLength - len(keyPrefix)
)

// runKey keeps the idempotency keys of runs apart from those of a producer's own tasks.
func runKey(key string) string {
	if key == "" {
		return ""
	}
	return keyPrefix + key
}
