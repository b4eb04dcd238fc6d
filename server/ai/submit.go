package serverai

import (
	"context"
	"encoding/json"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
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
	IdempotencyKey string
}

// Submit admits a run of the resource API.
func (s *Service) Submit(ctx context.Context, project string, req ai.RunRequest) (ai.Run, error) {
	chat, err := ChatOf(req)
	if err != nil {
		return ai.Run{}, err
	}
	return s.Admit(ctx, project, Submission{
		Model: req.Model, Policy: req.RoutePolicy, Chat: chat, TimeoutMs: req.TimeoutMs, IdempotencyKey: req.IdempotencyKey,
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
	if sub.TimeoutMs == 0 {
		sub.TimeoutMs = ai.DefaultExpiry.Milliseconds()
	}
	if sub.IdempotencyKey != "" {
		if err := tasks.CheckLabel("idempotencyKey", sub.IdempotencyKey, true); err != nil {
			return ai.Run{}, err
		}
	}
	d, policy, err := s.place(ctx, project, sub.Model, sub.Policy)
	if err != nil {
		return ai.Run{}, err
	}
	request, err := json.Marshal(sub.Chat)
	if err != nil {
		return ai.Run{}, err
	}
	ref, err := s.files.PutBytes(ctx, request)
	if err != nil {
		return ai.Run{}, err
	}
	blob := ai.BlobRef{SHA256: ref.SHA256, Size: ref.Size}
	var id string
	var admission servertasks.Admission
	err = s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		queued, err := servertasks.Queued(tx, project, ai.ChatType, ai.ChatVersion, fleet.Pool(d.ID))
		if err != nil {
			return err
		}
		if queued >= ai.MaxQueued {
			return fault.New(fault.QueueFull, "%d runs wait for %s; the limit is %d", queued, d.Alias, ai.MaxQueued).
				With("limit", ai.MaxQueued).With("retryAfterSeconds", 10).WithHint("try again in a while, or add a machine to the group")
		}
		id, admission, err = s.insert(tx, project, sub, d, policy, blob)
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
		Type: ai.ChatType, SchemaVersion: ai.ChatVersion, Input: input, Pool: fleet.Pool(d.ID),
		MaxAttempts: ai.MaxAttempts, ExpiresInMs: sub.TimeoutMs, IdempotencyKey: runKey(sub.IdempotencyKey),
	})
	if err != nil {
		return "", adm, err
	}
	if !adm.Created {
		var id string
		err := tx.QueryRow("SELECT id FROM runs WHERE task = $1", adm.Task.ID).Scan(&id)
		return id, adm, err
	}
	id := ident.New("run", now)
	_, err = tx.Exec(`INSERT INTO runs (id, task, project, model, deployment, alias, route, policy, request_sha256, request_size, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
		id, adm.Task.ID, project, sub.Model, d.ID, d.Alias, d.Route, string(policy), blob.SHA256, blob.Size, now.UnixMilli())
	return id, adm, err
}

// runKey keeps the idempotency keys of runs apart from those of a producer's own tasks.
func runKey(key string) string {
	if key == "" {
		return ""
	}
	return "ai-run:" + key
}
