package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/server/ai"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// The OpenAI-compatible door: an unmodified client of theirs works against it.

type followFunc func(ctx context.Context, run ai.Run, from servertasks.Position) iter.Seq2[serverai.Piece, error]

// openaiError is an error in OpenAI's shape.
type openaiError struct {
	Error struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    *string `json:"code"`
	} `json:"error"`
}

// inOpenAI is a coded error as /v1 answers it, with the same status.
func inOpenAI(e *fault.Error) openaiError {
	var out openaiError
	out.Error.Message = e.Error()
	code := string(e.Code)
	switch s := e.Code.Status(); {
	case s == http.StatusUnauthorized:
		out.Error.Type, code = "invalid_request_error", "invalid_api_key"
	case s == http.StatusNotFound:
		out.Error.Type, code = "invalid_request_error", "model_not_found"
	case s == http.StatusTooManyRequests:
		out.Error.Type = "rate_limit_error"
	case s >= 500:
		out.Error.Type = "server_error"
	default:
		out.Error.Type = "invalid_request_error"
	}
	out.Error.Code = &code
	if e.Field != "" {
		out.Error.Param = &e.Field
	}
	return out
}

func (a *API) openaiModels(w http.ResponseWriter, r *http.Request) error {
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	served, err := a.AI.Served(r.Context(), project)
	if err != nil {
		return err
	}
	type model struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := []model{}
	for _, m := range served {
		list = append(list, model{ID: m.Name, Object: "model", Created: m.Created, OwnedBy: m.Group})
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": list})
	return nil
}

// openaiChat runs one chat completion as a durable run and answers when, or while, it is done. A caller
// that goes away cancels its run.
func (a *API) openaiChat(w http.ResponseWriter, r *http.Request) error {
	var raw map[string]json.RawMessage
	if err := readJSON(r, &raw); err != nil {
		return err
	}
	chat, asked, err := serverai.ParseChat(raw)
	if err != nil {
		return err
	}
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return err
	}
	run, err := a.AI.Admit(r.Context(), project, serverai.Submission{Model: asked.Model, Chat: chat})
	if err != nil {
		return err
	}
	w.Header().Set("X-Interlock-Run-Id", run.ID)
	defer a.cancelLeft(r.Context(), run)
	if asked.Stream {
		return a.openaiStream(w, r, run, asked)
	}
	return a.openaiWhole(w, r, run, asked)
}

// cancelLeft cancels the run of a caller that went away before the end.
func (a *API) cancelLeft(ctx context.Context, run ai.Run) {
	if ctx.Err() == nil {
		return
	}
	_, err := a.AI.Cancel(context.WithoutCancel(ctx), run.Project, run.ID, "the caller of /v1 went away")
	if err != nil {
		a.info.Logger.Warn("cancel the run of a caller that went away", "run", run.ID, "cause", err)
	}
}

// completion is the frame of OpenAI's answers.
type completion struct {
	ID      string       `json:"id"`
	Object  string       `json:"object"`
	Created int64        `json:"created"`
	Model   string       `json:"model"`
	Choices []any        `json:"choices"`
	Usage   *openaiUsage `json:"usage,omitempty"`
}

type openaiUsage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

func usageOf(run ai.Run) *openaiUsage {
	if run.Usage == nil {
		return &openaiUsage{}
	}
	return &openaiUsage{run.Usage.PromptTokens, run.Usage.CompletionTokens, run.Usage.TotalTokens}
}

type chunkChoice struct {
	Index        int             `json:"index"`
	Delta        json.RawMessage `json:"delta"`
	Logprobs     json.RawMessage `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
}

var emptyDelta, null = json.RawMessage("{}"), json.RawMessage("null")

func frame(run ai.Run, object, model string) completion {
	return completion{ID: "chatcmpl-" + run.ID, Object: object, Created: run.CreatedAt.Unix(), Model: model, Choices: []any{}}
}

// openaiStream sends the answer as OpenAI's chunks. When an attempt is lost after its first words were
// sent, the stream ends with an error instead of repeating them.
func (a *API) openaiStream(w http.ResponseWriter, r *http.Request, run ai.Run, asked serverai.Asked) error {
	s, err := openStream(w)
	if err != nil {
		return err
	}
	f := &openaiFrames{s: s, frame: frame(run, "chat.completion.chunk", asked.Model), usage: asked.IncludeUsage}
	next, stop := iter.Pull2(a.withHeartbeats(r.Context(), s, run))
	defer stop()
	for {
		p, err, more := next()
		if !more || err != nil {
			return err
		}
		done, err := f.piece(p)
		if done || err != nil {
			return err
		}
	}
}

// withHeartbeats follows a run and sends comments while nothing comes.
func (a *API) withHeartbeats(ctx context.Context, s *stream, run ai.Run) iter.Seq2[serverai.Piece, error] {
	return func(yield func(serverai.Piece, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		type result struct {
			p   serverai.Piece
			err error
		}
		pieces := make(chan result)
		go func() {
			defer close(pieces)
			for p, err := range a.AI.Follow(ctx, run, servertasks.Position{}) {
				select {
				case pieces <- result{p, err}:
				case <-ctx.Done():
					return
				}
			}
		}()
		for {
			select {
			case res, more := <-pieces:
				if !more || !yield(res.p, res.err) {
					return
				}
			case <-a.closing:
				yield(serverai.Piece{}, errClosing)
				return
			case <-a.info.Clock.After(heartbeat):
				if err := s.comment("still here"); err != nil {
					yield(serverai.Piece{}, err)
					return
				}
			}
		}
	}
}

var errClosing = fault.New(fault.Unavailable, "the control plane is shutting down; the run goes on").WithHint("read it with GET /api/ai/runs/{id}")

// openaiFrames writes the chunks of one stream.
type openaiFrames struct {
	s     *stream
	frame completion
	usage bool
	begun bool
}

func (f *openaiFrames) piece(p serverai.Piece) (done bool, err error) {
	switch p.Kind {
	case servertasks.StreamText:
		f.begun = true
		return false, f.chunk(p.Chunk)
	case servertasks.StreamRestarted:
		if !f.begun {
			return false, nil
		}
		return true, f.fail(fault.New(fault.Unavailable, "the machine that answered was lost, and the answer begins anew elsewhere").
			WithHint("read the run with GET /api/ai/runs/{id}, or ask again"))
	}
	if p.Run.State != tasks.Succeeded {
		return true, f.fail(runFailure(p.Run))
	}
	if f.usage {
		last := f.frame
		last.Usage = usageOf(p.Run)
		if err := f.s.event("", "", last); err != nil {
			return true, err
		}
	}
	return true, f.s.send("data: [DONE]\n\n")
}

func (f *openaiFrames) chunk(c ai.Chunk) error {
	choice := chunkChoice{Delta: c.Delta, Logprobs: c.Logprobs}
	if len(choice.Delta) == 0 {
		choice.Delta = emptyDelta
	}
	if len(choice.Logprobs) == 0 {
		choice.Logprobs = null
	}
	if c.FinishReason != "" {
		choice.FinishReason = &c.FinishReason
	}
	out := f.frame
	out.Choices = []any{choice}
	return f.s.event("", "", out)
}

func (f *openaiFrames) fail(err error) error {
	return f.s.event("", "", inOpenAI(fault.Of(err)))
}

// runFailure is the error of a run that did not succeed.
func runFailure(run ai.Run) error {
	if run.Error != nil && run.Error.Code == "exceed_context_size_error" {
		return fault.New(fault.Invalid, "%s", run.Error.Message).WithField("messages")
	}
	msg := "the run ended " + string(run.State)
	if run.Error != nil {
		msg += ": " + run.Error.Message
	}
	return fault.New(fault.Unavailable, "%s", msg).With("run", run.ID)
}

// openaiWhole waits for the end and answers with one completion.
func (a *API) openaiWhole(w http.ResponseWriter, r *http.Request, run ai.Run, asked serverai.Asked) error {
	var logprobs []json.RawMessage
	for p, err := range a.AI.Follow(r.Context(), run, servertasks.Position{}) {
		if err != nil {
			return err
		}
		switch p.Kind {
		case servertasks.StreamRestarted:
			logprobs = nil
		case servertasks.StreamText:
			var lp struct {
				Content []json.RawMessage `json:"content"`
			}
			if len(p.Chunk.Logprobs) > 0 && json.Unmarshal(p.Chunk.Logprobs, &lp) == nil {
				logprobs = append(logprobs, lp.Content...)
			}
		case servertasks.StreamEnd:
			if p.Run.State != tasks.Succeeded {
				return runFailure(p.Run)
			}
			writeJSON(w, http.StatusOK, whole(p.Run, asked.Model, logprobs))
			return nil
		}
	}
	return errors.Join(r.Context().Err(), errClosing)
}

func whole(run ai.Run, model string, logprobs []json.RawMessage) completion {
	message := map[string]any{"role": "assistant", "content": run.Answer, "refusal": nil}
	if len(run.ToolCalls) > 0 && !bytes.Equal(run.ToolCalls, null) {
		message["tool_calls"] = run.ToolCalls
		if run.Answer != nil && *run.Answer == "" {
			message["content"] = nil
		}
	}
	choice := map[string]any{"index": 0, "message": message, "finish_reason": run.FinishReason, "logprobs": nil}
	if logprobs != nil {
		choice["logprobs"] = map[string]any{"content": logprobs}
	}
	out := frame(run, "chat.completion", model)
	out.Choices = []any{choice}
	out.Usage = usageOf(run)
	return out
}
