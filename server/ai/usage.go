package serverai

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"interlock.sh/ai"
	"interlock.sh/internal/ident"
	"interlock.sh/server/store"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// meter runs in the commit that ends a task: the run's one usage event is written there, when an
// attempt reached a model. The task underneath makes no charge of its own.
func (s *Service) meter(tx *store.Tx, v tasks.View, a servertasks.AttemptInfo) error {
	if !isRun(v) {
		return nil
	}
	run, err := scanRun(tx.QueryRow("SELECT "+runColumns+runFrom+"WHERE r.task = $1", v.ID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil // a producer's own task of that type
	}
	if err != nil {
		return err
	}
	if a, err = reached(tx, v, a); err != nil || a.ID == "" {
		return err
	}
	usage, err := s.tokens(tx, v, a)
	if err != nil {
		return err
	}
	now := tx.Now()
	_, err = tx.Exec(`INSERT INTO usage_events (id, run, task, project, route, policy, alias, deployment, worker, attempt, prompt_tokens, completion_tokens, duration_ms, state, at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15) ON CONFLICT (run) DO NOTHING`,
		ident.New("use", now), run.ID, v.ID, run.Project, run.Route, string(run.RoutePolicy), run.Deployment, run.DeploymentID,
		a.WorkerID, a.Number, usage.PromptTokens, usage.CompletionTokens, since(a.LeasedAt, a.EndedAt), string(v.State), now.UnixMilli())
	return err
}

// reached is the attempt to bill: the last one when it gave the result, else the newest that got words
// out of a model, else the newest whose model read the prompt, of which the machine's progress report
// tells; none (an empty ID) when no attempt came so far. That an attempt was renewed tells nothing.
func reached(tx *store.Tx, v tasks.View, last servertasks.AttemptInfo) (servertasks.AttemptInfo, error) {
	if v.State == tasks.Succeeded || last.StreamBytes > 0 {
		return last, nil
	}
	var a servertasks.AttemptInfo
	var leased, ended int64
	err := tx.QueryRow(`SELECT a.id, a.number, a.worker_id, a.stream_bytes, a.leased_at, a.ended_at FROM attempts a
		WHERE a.task_id = $1 AND (a.stream_bytes > 0
			OR EXISTS (SELECT 1 FROM journal j WHERE j.task_id = a.task_id AND j.attempt_id = a.id AND j.kind = $2))
		ORDER BY a.stream_bytes > 0 DESC, a.number DESC LIMIT 1`, v.ID, string(tasks.EntryProgress)).
		Scan(&a.ID, &a.Number, &a.WorkerID, &a.StreamBytes, &leased, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		return a, nil
	}
	a.LeasedAt, a.EndedAt = at(leased), at(ended)
	return a, err
}

// tokens are the worker's own count when it sent one. An attempt that broke off after its first words
// is counted by the chunks of its stream that carry one: a model server sends one for each token.
func (s *Service) tokens(tx *store.Tx, v tasks.View, a servertasks.AttemptInfo) (ai.Usage, error) {
	var res ai.ChatResult
	if len(v.Result) > 0 && json.Unmarshal(v.Result, &res) == nil && res.Usage.TotalTokens > 0 {
		u := ai.Usage{PromptTokens: max(res.Usage.PromptTokens, 0), CompletionTokens: max(res.Usage.CompletionTokens, 0)}
		u.TotalTokens = u.PromptTokens + u.CompletionTokens
		return u, nil
	}
	rows, err := tx.Query("SELECT data FROM journal WHERE task_id = $1 AND attempt_id = $2 AND kind = $3 ORDER BY seq", v.ID, a.ID, string(tasks.EntryDelta))
	texts, err := store.All(rows, err, func(r store.Scanner) (string, error) {
		var data string
		var d tasks.DeltaData
		if err := r.Scan(&data); err != nil {
			return "", err
		}
		err := json.Unmarshal([]byte(data), &d)
		return d.Text, err
	})
	n := 0
	for line := range strings.Lines(strings.Join(texts, "")) {
		var c ai.Chunk
		if json.Unmarshal([]byte(line), &c) == nil && deltaOf(c).token() {
			n++
		}
	}
	return ai.Usage{CompletionTokens: n, TotalTokens: n}, err
}

// Usage reads a page of usage events, newest first, with the totals of the whole project.
func (s *Service) Usage(ctx context.Context, project, before string, limit int) (ai.UsageList, error) {
	limit, err := pageSize(limit)
	if err != nil {
		return ai.UsageList{}, err
	}
	out := ai.UsageList{Events: []ai.UsageEvent{}}
	err = s.db.QueryRow(ctx, "SELECT COUNT(*), COALESCE(SUM(prompt_tokens), 0), COALESCE(SUM(completion_tokens), 0) FROM usage_events WHERE project = $1", project).
		Scan(&out.Runs, &out.Total.PromptTokens, &out.Total.CompletionTokens)
	if err != nil {
		return out, err
	}
	out.Total.TotalTokens = out.Total.PromptTokens + out.Total.CompletionTokens
	rows, err := s.db.Query(ctx, `SELECT id, run, task, project, route, policy, alias, deployment, worker, attempt, prompt_tokens, completion_tokens, duration_ms, state, at
		FROM usage_events WHERE project = $1 AND ($2 = '' OR id < $2) ORDER BY id DESC LIMIT $3`, project, before, limit)
	events, err := store.All(rows, err, scanUsage)
	if err != nil {
		return out, err
	}
	out.Events = append(out.Events, events...)
	if len(events) == limit {
		out.Next = events[limit-1].ID
	}
	return out, nil
}

func scanUsage(r store.Scanner) (ai.UsageEvent, error) {
	var e ai.UsageEvent
	var when int64
	err := r.Scan(&e.ID, &e.RunID, &e.TaskID, &e.Project, &e.Route, &e.RoutePolicy, &e.Deployment, &e.DeploymentID, &e.WorkerID, &e.Attempt,
		&e.Usage.PromptTokens, &e.Usage.CompletionTokens, &e.DurationMs, &e.State, &when)
	e.Usage.TotalTokens = e.Usage.PromptTokens + e.Usage.CompletionTokens
	e.At = at(when)
	return e, err
}
