package api

import (
	"context"
	"fmt"
	"iter"
	"net/http"

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
	idle := func() error { return s.comment("still here") }
	for p, err := range a.follow(ctx, run, from, idle) {
		if err != nil || sendPiece(s, p) != nil {
			return nil // the reader comes back with its last id
		}
	}
	return nil
}

// follow reads a run's pieces from a position on. It calls idle at each heartbeat's time while none
// comes, ends with idle's error, with the cause of the context's end, and with errClosing when the
// control plane goes down.
func (a *API) follow(ctx context.Context, run ai.Run, from servertasks.Position, idle func() error) iter.Seq2[serverai.Piece, error] {
	type result struct {
		p   serverai.Piece
		err error
	}
	return func(yield func(serverai.Piece, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		results, ended := make(chan result), make(chan struct{})
		defer func() {
			cancel()
			<-ended
		}()
		go func() {
			defer close(ended)
			defer close(results)
			for p, err := range a.AI.Follow(ctx, run, from) {
				select {
				case results <- result{p, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case res, more := <-results:
				if ctx.Err() != nil {
					yield(serverai.Piece{}, context.Cause(ctx))
					return
				}
				if !more || !yield(res.p, res.err) {
					return
				}
			case <-a.closing:
				yield(serverai.Piece{}, errClosing)
				return
			case <-a.info.Clock.After(heartbeat):
				if err := idle(); err != nil {
					yield(serverai.Piece{}, err)
					return
				}
			}
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
	if text == "" && !more {
		return nil // it only says who speaks
	}
	ev := ai.StreamEvent{Attempt: p.Attempt, Offset: p.Offset, Text: text}
	if more {
		ev.Chunk = &p.Chunk
	}
	return s.event(id, ai.StreamDelta, ev)
}
