package serverai

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

const runColumns = "r.id, r.task, r.project, r.model, r.deployment, r.alias, r.route, r.policy, r.created_at, COALESCE(u.id, ''), COALESCE(u.duration_ms, 0)"
const runFrom = " FROM runs r LEFT JOIN usage_events u ON u.run = r.id "

func scanRun(r store.Scanner) (ai.Run, error) {
	var v ai.Run
	var created int64
	err := r.Scan(&v.ID, &v.TaskID, &v.Project, &v.Model, &v.DeploymentID, &v.Deployment, &v.Route, &v.RoutePolicy, &created, &v.UsageEventID, &v.DurationMs)
	v.CreatedAt = at(created)
	return v, err
}

// Get reads a run: the canonical state, whatever became of a stream.
func (s *Service) Get(ctx context.Context, project, id string) (ai.Run, error) {
	run, err := s.row(ctx, project, id)
	if err != nil {
		return run, err
	}
	return s.fill(ctx, run)
}

func (s *Service) row(ctx context.Context, project, id string) (ai.Run, error) {
	run, err := scanRun(s.db.QueryRow(ctx, "SELECT "+runColumns+runFrom+"WHERE r.id = $1 AND r.project = $2", id, project))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, "project %s has no run %q", project, id).WithHint("list them: interlock runs list")
	}
	return run, err
}

// fill adds what the run's task knows.
func (s *Service) fill(ctx context.Context, run ai.Run) (ai.Run, error) {
	v, err := s.tasks.Get(ctx, run.Project, run.TaskID)
	if err != nil {
		return run, err
	}
	if v.State.Terminal() && run.UsageEventID == "" {
		// The run may have ended between the two reads; its usage event was written in that commit.
		if run, err = s.row(ctx, run.Project, run.ID); err != nil {
			return run, err
		}
	}
	run.State, run.Error, run.WorkerID = v.State, v.Error, v.WorkerID
	run.StartedAt, run.EndedAt = v.StartedAt, v.EndedAt
	// The newest attempt, also one that was handed back and does not count against the task.
	err = s.db.QueryRow(ctx, `SELECT a.number, COALESCE(m.name, '') FROM attempts a LEFT JOIN machines m ON m.id = a.machine
		WHERE a.task_id = $1 ORDER BY a.number DESC LIMIT 1`, v.ID).Scan(&run.Attempt, &run.Machine)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return run, err
	}
	if len(v.Result) == 0 {
		return run, nil
	}
	var res ai.ChatResult
	if err := json.Unmarshal(v.Result, &res); err != nil {
		return run, nil // a result of another shape: the task has it whole
	}
	run.ToolCalls, run.FinishReason, run.TokensPerSecond = res.ToolCalls, res.FinishReason, res.TokensPerSecond
	run.Usage = &res.Usage
	if v.State == tasks.Succeeded || res.Content != "" {
		run.Answer = &res.Content
	}
	return run, nil
}

// List reads a page of runs, newest first. before is List.Next of the page before.
func (s *Service) List(ctx context.Context, project, before string, limit int) (ai.RunList, error) {
	limit, err := pageSize(limit)
	if err != nil {
		return ai.RunList{}, err
	}
	rows, err := s.db.Query(ctx, "SELECT "+runColumns+runFrom+"WHERE r.project = $1 AND ($2 = '' OR r.id < $2) ORDER BY r.id DESC LIMIT $3", project, before, limit)
	runs, err := store.All(rows, err, scanRun)
	if err != nil {
		return ai.RunList{}, err
	}
	out := ai.RunList{Runs: []ai.Run{}}
	for _, r := range runs {
		if r, err = s.fill(ctx, r); err != nil {
			return out, err
		}
		out.Runs = append(out.Runs, r)
	}
	if len(runs) == limit {
		out.Next = runs[limit-1].ID
	}
	return out, nil
}

// Cancel asks a run's task to stop.
func (s *Service) Cancel(ctx context.Context, project, id, reason string) (ai.Run, error) {
	run, err := s.Get(ctx, project, id)
	if err != nil {
		return run, err
	}
	if _, err := s.tasks.Cancel(ctx, project, run.TaskID, reason); err != nil {
		return run, err
	}
	return s.Get(ctx, project, id)
}

// MayRead reports whether a machine holds a run whose request these bytes are.
func (s *Service) MayRead(ctx context.Context, machine, sha256 string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM runs r JOIN tasks t ON t.id = r.task
		WHERE r.request_sha256 = $1 AND t.worker_id = $2 AND t.state IN ('leased', 'running')`, sha256, machine).Scan(&n)
	return n > 0, err
}

func pageSize(n int) (int, error) {
	switch {
	case n == 0:
		return 50, nil
	case n < 0 || n > 500:
		return 0, fault.New(fault.Invalid, "limit is %d; it goes from 1 to 500", n).WithField("limit")
	}
	return n, nil
}

// since is the length of an attempt in milliseconds, counted from its claim: its first report comes with
// the first word, after the prompt was read, and for a short answer together with its end.
func since(start, end time.Time) int64 {
	if start.IsZero() || end.Before(start) {
		return 0
	}
	return end.Sub(start).Milliseconds()
}
