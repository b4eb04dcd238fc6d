package api

import (
	"context"
	"net/http"
	"strconv"

	"interlock.sh/fault"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// The routes of those who hand work out: producers, and the owners of a project.

// TaskIn names a task.
type TaskIn struct {
	InProject
	Task string `path:"task"`
}

func (a *API) submitTask(ctx context.Context, in *struct {
	InProject
	Body tasks.SubmitRequest
}) (*body[tasks.View], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Tasks.Submit(ctx, project, in.Body))
}

func (a *API) getTask(ctx context.Context, in *TaskIn) (*body[tasks.View], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Tasks.Get(ctx, project, in.Task))
}

func (a *API) listTasks(ctx context.Context, in *struct {
	PageIn
	State string `query:"state" required:"false" doc:"only tasks in this state"`
	Type  string `query:"type" required:"false" doc:"only tasks of this literal type"`
}) (*body[tasks.List], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Tasks.List(ctx, project, servertasks.Filter{
		State: tasks.State(in.State), Type: in.Type, Before: in.Before, Limit: in.Limit,
	}))
}

func (a *API) cancelTask(ctx context.Context, in *struct {
	TaskIn
	Body tasks.CancelRequest
}) (*body[tasks.View], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Tasks.Cancel(ctx, project, in.Task, in.Body.Reason))
}

func (a *API) taskJournal(ctx context.Context, in *struct {
	TaskIn
	After int64 `query:"after" required:"false" doc:"cursor of the page before"`
	Limit int   `query:"limit" required:"false" doc:"1 to 500, default 500"`
}) (*body[tasks.Journal], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.Tasks.Journal(ctx, project, in.Task, in.After, in.Limit))
}

// watchTask streams a task's journal: the event is the entry's kind, its id the entry's number, so that
// Last-Event-ID resumes without a gap. The stream ends with the task.
func (a *API) watchTask(w http.ResponseWriter, r *http.Request) error {
	ctx, id := r.Context(), r.PathValue("task")
	project, err := a.project(ctx, r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	var after int64
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
			return fault.New(fault.Invalid, "Last-Event-ID is %q; it is the number of a journal entry", last).WithField("Last-Event-ID")
		}
	}
	changed, cancel := a.Tasks.SubscribeTask(id) // before the first look
	defer cancel()
	page, err := a.Tasks.Journal(ctx, project, id, after, 0)
	if err != nil {
		return err
	}
	s, err := openStream(w)
	if err != nil {
		return err
	}
	for {
		for _, e := range page.Entries {
			if s.event(strconv.FormatInt(e.Seq, 10), string(e.Kind), e) != nil {
				return nil // the reader is gone; the journal stays
			}
		}
		// A page that was read after the task had ended, and is empty, is the last.
		if len(page.Entries) == 0 {
			if page.State.Terminal() {
				return nil
			}
			if !a.nextChange(s, r, changed) {
				return nil
			}
		}
		if page, err = a.Tasks.Journal(ctx, project, id, page.Cursor, 0); err != nil {
			return nil
		}
	}
}

// nextChange waits for a hint, or for a heartbeat's time, after which a lost hint no longer matters. It
// is false when either side ended.
func (a *API) nextChange(s *stream, r *http.Request, changed <-chan struct{}) bool {
	select {
	case <-changed:
		return true
	case <-a.info.Clock.After(heartbeat):
		return s.comment("still here") == nil
	case <-a.closing:
	case <-r.Context().Done():
	}
	return false
}
