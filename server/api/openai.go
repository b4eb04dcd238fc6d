package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/server/ai"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// The OpenAI-compatible door: an unmodified client of theirs works against it.

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
	case s == http.StatusNotFound && e.Field == "model":
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

// openaiModel is a model that is served now, in OpenAI's shape.
type openaiModel struct {
	ID      string `json:"id" doc:"a deployment alias, or group@channel"`
	Object  string `json:"object"`
	Created int64  `json:"created" doc:"seconds since 1970"`
	OwnedBy string `json:"owned_by" doc:"the model group"`
}

type openaiModelList struct {
	Object string        `json:"object"`
	Data   []openaiModel `json:"data"`
}

func (a *API) servedModels(r *http.Request) ([]openaiModel, error) {
	project, err := a.project(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return nil, err
	}
	served, err := a.AI.Served(r.Context(), project)
	list := []openaiModel{}
	for _, m := range served {
		list = append(list, openaiModel{ID: m.Name, Object: "model", Created: m.Created, OwnedBy: m.Group})
	}
	return list, err
}

func (a *API) openaiModels(w http.ResponseWriter, r *http.Request) error {
	list, err := a.servedModels(r)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, openaiModelList{Object: "list", Data: list})
	return nil
}

func (a *API) openaiModel(w http.ResponseWriter, r *http.Request) error {
	list, err := a.servedModels(r)
	if err != nil {
		return err
	}
	id := r.PathValue("id")
	i := slices.IndexFunc(list, func(m openaiModel) bool { return m.ID == id })
	if i < 0 {
		return fault.New(fault.NotFound, "no machine serves a model %q now", id).WithField("model").WithHint("GET /v1/models lists what is served")
	}
	writeJSON(w, http.StatusOK, list[i])
	return nil
}

// openaiChatRequest is the description of a chat request; serverai.ParseChat reads it, with the other
// parameters that it knows.
type openaiChatRequest struct {
	Model     string           `json:"model" doc:"a deployment alias, or group@channel"`
	Messages  []map[string]any `json:"messages" doc:"as OpenAI has them"`
	MaxTokens int              `json:"max_completion_tokens,omitempty"`
	Stream    bool             `json:"stream,omitempty"`
	Options   struct {
		IncludeUsage bool `json:"include_usage,omitempty"`
	} `json:"stream_options,omitempty" doc:"only with stream"`
}

// openaiChat runs one chat completion as a durable run and answers when, or while, it is done. A caller
// that goes away cancels its run; a control plane that goes down does not.
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
	answer := a.openaiWhole
	if asked.Stream {
		answer = a.openaiStream
		a.Meters.streams.Inc()
		defer a.Meters.streams.Dec()
	}
	left, err := answer(w, r, run, asked)
	if left {
		a.cancelLeft(r.Context(), run)
	}
	return err
}

// cancelLeft cancels the run of a caller that went away before the end.
func (a *API) cancelLeft(ctx context.Context, run ai.Run) {
	_, err := a.AI.Cancel(context.WithoutCancel(ctx), run.Project, run.ID, "the caller of /v1 went away")
	if err != nil {
		a.info.Logger.WarnContext(ctx, "cancel the run of a caller that went away", slog.String("run", run.ID), slog.Any("cause", err))
	}
}

// openaiCompletion is the frame of OpenAI's answers.
type openaiCompletion struct {
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

func frame(run ai.Run, object, model string) openaiCompletion {
	return openaiCompletion{ID: "chatcmpl-" + run.ID, Object: object, Created: run.CreatedAt.Unix(), Model: model, Choices: []any{}}
}

// runFailure is the error of a run that did not succeed. What the model server refuses in the request,
// such as a schema that its grammar cannot express, is the caller's error: OpenAI's clients try others
// again.
func runFailure(run ai.Run) error {
	if run.Error != nil && run.Error.Code == "exceed_context_size_error" {
		return fault.New(fault.Invalid, "%s", run.Error.Message).WithField("messages")
	}
	if run.Error != nil && run.Error.Code == "invalid_request_error" {
		return fault.New(fault.Invalid, "the model server refused the request: %s", run.Error.Message).With("run", run.ID)
	}
	msg := "the run ended " + string(run.State)
	if run.Error != nil {
		msg += ": " + run.Error.Message
	}
	return fault.New(fault.Unavailable, "%s", msg).With("run", run.ID)
}

// openaiWhole waits for the end and answers with one completion. left says that nobody waits any more.
func (a *API) openaiWhole(w http.ResponseWriter, r *http.Request, run ai.Run, asked serverai.Asked) (left bool, err error) {
	var logprobs []json.RawMessage
	for p, err := range a.follow(r.Context(), run, servertasks.Position{}, func() error { return nil }) {
		if err != nil {
			return !errors.Is(err, errClosing), err
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
				return false, runFailure(p.Run)
			}
			writeJSON(w, http.StatusOK, whole(p.Run, asked.Model, logprobs))
			return false, nil
		}
	}
	return true, r.Context().Err()
}

func whole(run ai.Run, model string, logprobs []json.RawMessage) openaiCompletion {
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
