package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"interlock.sh/tasks"
)

// SubmitTask admits one task. With an idempotency key a repeat returns the same task.
func (c *Client) SubmitTask(ctx context.Context, req tasks.SubmitRequest) (tasks.View, error) {
	var out tasks.View
	return out, c.Do(ctx, http.MethodPost, "/api/tasks", req, &out)
}

// Task reads one task: the canonical state and result.
func (c *Client) Task(ctx context.Context, id string) (tasks.View, error) {
	var out tasks.View
	return out, c.Do(ctx, http.MethodGet, "/api/tasks/"+url.PathEscape(id), nil, &out)
}

// TaskFilter narrows ListTasks; zero fields do not.
type TaskFilter struct {
	State  tasks.State
	Type   string
	Before string // List.Next of the page before
	Limit  int    // default 50, at most 500
}

// ListTasks reads a page of tasks, newest first.
func (c *Client) ListTasks(ctx context.Context, f TaskFilter) (tasks.List, error) {
	q := url.Values{}
	set(q, "state", string(f.State))
	set(q, "type", f.Type)
	set(q, "before", f.Before)
	setInt(q, "limit", int64(f.Limit))
	var out tasks.List
	return out, c.Do(ctx, http.MethodGet, "/api/tasks"+query(q), nil, &out)
}

// CancelTask asks a task to stop and returns it as it stands then.
func (c *Client) CancelTask(ctx context.Context, id, reason string) (tasks.View, error) {
	var out tasks.View
	return out, c.Do(ctx, http.MethodPost, "/api/tasks/"+url.PathEscape(id)+"/cancel", tasks.CancelRequest{Reason: reason}, &out)
}

// TaskJournal reads the entries after a cursor, in order.
func (c *Client) TaskJournal(ctx context.Context, id string, after int64, limit int) (tasks.Journal, error) {
	q := url.Values{}
	setInt(q, "after", after)
	setInt(q, "limit", int64(limit))
	var out tasks.Journal
	return out, c.Do(ctx, http.MethodGet, "/api/tasks/"+url.PathEscape(id)+"/journal"+query(q), nil, &out)
}

// TaskWorkers lists the project's workers, those of machines included.
func (c *Client) TaskWorkers(ctx context.Context) ([]tasks.WorkerView, error) {
	var out struct {
		Workers []tasks.WorkerView `json:"workers"`
	}
	return out.Workers, c.Do(ctx, http.MethodGet, "/api/workers", nil, &out)
}

// RegisterWorker says what a worker can do; repeat it within the answer's SeenMs.
func (c *Client) RegisterWorker(ctx context.Context, req tasks.RegisterRequest) (tasks.RegisterResponse, error) {
	var out tasks.RegisterResponse
	return out, c.Do(ctx, http.MethodPost, "/api/workers/register", req, &out)
}

// ClaimTasks leases up to req.Max attempts, waiting as long as req.WaitMs for the first.
func (c *Client) ClaimTasks(ctx context.Context, req tasks.ClaimRequest) (tasks.ClaimResponse, error) {
	var out tasks.ClaimResponse
	return out, c.Do(ctx, http.MethodPost, "/api/workers/claim", req, &out)
}

// RenewTasks extends several leases.
func (c *Client) RenewTasks(ctx context.Context, req tasks.RenewRequest) (tasks.RenewResponse, error) {
	var out tasks.RenewResponse
	return out, c.Do(ctx, http.MethodPost, "/api/workers/renew", req, &out)
}

// ReportProgress is the newest word on an attempt.
func (c *Client) ReportProgress(ctx context.Context, req tasks.ProgressReport) error {
	return c.Do(ctx, http.MethodPost, "/api/workers/progress", req, nil)
}

// ReportLog appends lines to the task's journal.
func (c *Client) ReportLog(ctx context.Context, req tasks.LogReport) error {
	return c.Do(ctx, http.MethodPost, "/api/workers/log", req, nil)
}

// ReportDelta sends bytes of the attempt's output stream.
func (c *Client) ReportDelta(ctx context.Context, req tasks.DeltaReport) (tasks.DeltaResponse, error) {
	var out tasks.DeltaResponse
	return out, c.Do(ctx, http.MethodPost, "/api/workers/delta", req, &out)
}

// CompleteTasks ends several attempts with results.
func (c *Client) CompleteTasks(ctx context.Context, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
	var out tasks.CompleteResponse
	return out, c.Do(ctx, http.MethodPost, "/api/workers/complete", req, &out)
}

// FailTask ends an attempt without a result.
func (c *Client) FailTask(ctx context.Context, req tasks.FailReport) (tasks.Outcome, error) {
	var out tasks.Outcome
	return out, c.Do(ctx, http.MethodPost, "/api/workers/fail", req, &out)
}

// ReportUnknown says that an effect may have happened and cannot be proved.
func (c *Client) ReportUnknown(ctx context.Context, req tasks.UnknownReport) (tasks.Outcome, error) {
	var out tasks.Outcome
	return out, c.Do(ctx, http.MethodPost, "/api/workers/unknown", req, &out)
}

// TaskWatchPath is the event stream of one task: journal entries, id = sequence number.
func TaskWatchPath(id string) string { return "/api/tasks/" + url.PathEscape(id) + "/watch" }

// WorkerEventsPath is the wake-up stream of a worker: an event "work" whenever a claim may succeed and
// "desired" when a machine's desired state changed.
const WorkerEventsPath = "/api/workers/events"

// ProjectEventsPath is the hint stream of a dashboard: an event names what kind of thing changed.
const ProjectEventsPath = "/api/events"

func set(q url.Values, k, v string) {
	if v != "" {
		q.Set(k, v)
	}
}

func setInt(q url.Values, k string, v int64) {
	if v != 0 {
		q.Set(k, strconv.FormatInt(v, 10))
	}
}

func query(q url.Values) string {
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}
