package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"interlock.sh/ai"
	"interlock.sh/server/ai"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// RunIn names a run.
type RunIn struct {
	InProject
	Run string `path:"run"`
}

// PageIn names a page of a list, newest first.
type PageIn struct {
	InProject
	Before string `query:"before" required:"false" doc:"next of the page before"`
	Limit  int    `query:"limit" required:"false" doc:"1 to 500, default 50"`
}

func (a *API) submitRun(ctx context.Context, in *struct {
	InProject
	Body ai.RunRequest
}) (*body[ai.Run], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.AI.Submit(ctx, project, in.Body))
}

func (a *API) getRun(ctx context.Context, in *RunIn) (*body[ai.Run], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.AI.Get(ctx, project, in.Run))
}

func (a *API) listRuns(ctx context.Context, in *PageIn) (*body[ai.RunList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.AI.List(ctx, project, in.Before, in.Limit))
}

func (a *API) cancelRun(ctx context.Context, in *struct {
	RunIn
	Body tasks.CancelRequest
}) (*body[ai.Run], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.AI.Cancel(ctx, project, in.Run, in.Body.Reason))
}

func (a *API) usage(ctx context.Context, in *PageIn) (*body[ai.UsageList], error) {
	project, err := a.project(ctx, in.Project)
	if err != nil {
		return nil, err
	}
	return answer(a.AI.Usage(ctx, project, in.Before, in.Limit))
}

// streamRun sends hello at once, then the answer as it comes in, then the end. Event ids are
// attempt:offset, so Last-Event-ID resumes without a repeat or a gap; GET stays canonical.
func (a *API) streamRun(w http.ResponseWriter, r *http.Request) error {
	ctx := r.Context()
	project, err := a.project(ctx, r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	run, err := a.AI.Get(ctx, project, r.PathValue("run"))
	if err != nil {
		return err
	}
	var from servertasks.Position
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		if _, err := fmt.Sscanf(last, "%d:%d", &from.Attempt, &from.Offset); err != nil || from.Attempt < 0 || from.Offset < 0 {
			from = servertasks.Position{} // not an id of ours: from the beginning
		}
	}
	s, err := openStream(w)
	if err != nil {
		return err
	}
	if s.event("", ai.StreamHello, ai.StreamEvent{Run: &run}) != nil {
		return nil
	}
	a.relay(ctx, s, a.AI.Follow, run, from)
	return nil
}

// relay sends a run's pieces and, while none comes, heartbeats. It returns when either side ends.
func (a *API) relay(ctx context.Context, s *stream, follow followFunc, run ai.Run, from servertasks.Position) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pieces := make(chan serverai.Piece)
	go func() {
		defer close(pieces)
		for p, err := range follow(ctx, run, from) {
			if err != nil {
				return
			}
			select {
			case pieces <- p:
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		var err error
		select {
		case p, more := <-pieces:
			if !more {
				return
			}
			err = sendPiece(s, p)
		case <-a.closing:
			return
		case <-a.info.Clock.After(heartbeat):
			err = s.comment("still here " + a.info.Clock.Now().UTC().Format(time.TimeOnly))
		}
		if err != nil {
			return
		}
	}
}

func sendPiece(s *stream, p serverai.Piece) error {
	id := fmt.Sprintf("%d:%d", p.Attempt, p.Next)
	switch p.Kind {
	case servertasks.StreamRestarted:
		return s.event(id, ai.StreamRestarted, ai.StreamEvent{Attempt: p.Attempt})
	case servertasks.StreamEnd:
		return s.event(id, ai.StreamEnd, ai.StreamEvent{Run: &p.Run, Attempt: p.Attempt, Offset: p.Offset})
	}
	text, more := serverai.Text(p.Chunk)
	ev := ai.StreamEvent{Attempt: p.Attempt, Offset: p.Offset, Text: text}
	if more {
		ev.Chunk = &p.Chunk
	}
	return s.event(id, ai.StreamDelta, ev)
}
