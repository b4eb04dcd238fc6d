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

// wholeRun is a run with all that its task, its usage event and its newest attempt know, in one read: so
// a run that ended is never seen without its usage event. The newest attempt may be one that was handed
// back and does not count against the task.
const wholeRun = "SELECT " + runColumns + `, t.state, t.error, t.result, t.worker_id, t.started_at, t.ended_at, t.start_by, COALESCE(a.number, 0), COALESCE(m.name, '')` +
	runFrom + `JOIN tasks t ON t.id = r.task
	LEFT JOIN attempts a ON a.task_id = r.task AND a.number = (SELECT MAX(n.number) FROM attempts n WHERE n.task_id = r.task)
	LEFT JOIN machines m ON m.id = a.machine `

// beside is a row that begins with a run's own columns.
type beside struct {
	store.Scanner
	rest []any
}

// Scan scans the run's columns into dest and the rest beside them.
func (b beside) Scan(dest ...any) error { return b.Scanner.Scan(append(dest, b.rest...)...) }

func scanWhole(r store.Scanner) (ai.Run, error) {
	var state tasks.State
	var failure, result, worker, machine string
	var started, ended, startBy int64
	var attempt int
	v, err := scanRun(beside{r, []any{&state, &failure, &result, &worker, &started, &ended, &startBy, &attempt, &machine}})
	if err != nil {
		return v, err
	}
	v.State, v.WorkerID, v.Attempt, v.Machine = state, worker, attempt, machine
	v.StartedAt, v.EndedAt = maybe(started), maybe(ended)
	if state == tasks.Queued && (startBy > 0 || attempt > 0) {
		v.Waiting = &ai.Waiting{Until: maybe(startBy)}
	}
	if failure != "" {
		if err := json.Unmarshal([]byte(failure), &v.Error); err != nil {
			return v, err
		}
	}
	var res ai.ChatResult
	if result == "" || json.Unmarshal([]byte(result), &res) != nil {
		return v, nil // none, or one of another shape: the task has it whole
	}
	v.ToolCalls, v.FinishReason, v.TokensPerSecond = res.ToolCalls, res.FinishReason, res.TokensPerSecond
	v.Usage = &res.Usage
	if state == tasks.Succeeded || res.Content != "" {
		v.Answer = &res.Content
	}
	return v, nil
}

func maybe(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := at(ms)
	return &t
}

// Get reads a run: the canonical state, whatever became of a stream.
func (s *Service) Get(ctx context.Context, project, id string) (ai.Run, error) {
	run, err := scanWhole(s.db.QueryRow(ctx, wholeRun+"WHERE r.id = $1 AND r.project = $2", id, project))
	if errors.Is(err, sql.ErrNoRows) {
		err = fault.New(fault.NotFound, "project %s has no run %q", project, id).WithHint("list them: interlock runs list")
	}
	if err == nil {
		err = s.explain(ctx, project, &run)
	}
	return run, err
}

// List reads a page of runs, newest first. before is List.Next of the page before.
func (s *Service) List(ctx context.Context, project, before string, limit int) (ai.RunList, error) {
	limit, err := pageSize(limit)
	if err != nil {
		return ai.RunList{}, err
	}
	rows, err := s.db.Query(ctx, wholeRun+"WHERE r.project = $1 AND ($2 = '' OR r.id < $2) ORDER BY r.id DESC LIMIT $3", project, before, limit)
	runs, err := store.All(rows, err, scanWhole)
	if err != nil {
		return ai.RunList{}, err
	}
	out := ai.RunList{Runs: append([]ai.Run{}, runs...)}
	if err := s.explain(ctx, project, pointers(out.Runs)...); err != nil {
		return ai.RunList{}, err
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
