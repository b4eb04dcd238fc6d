//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/tasks"
)

// toolCaller is a model server that calls a tool whenever one is offered: models as small as a test can
// run never do.
func toolCaller(t testing.TB) string {
	return fakellama.Install(t, fakellama.Config{ToolCall: &fakellama.ToolCall{Name: "weather", Arguments: `{"town":"Ulm"}`}})
}

// An application that uses OpenAI's Python client works with a fleet when only its base URL and key are
// changed: testdata/openai_client.py has what it does.
func TestOpenAIPythonClient(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, server string
		args         []string
	}{
		{"real model", realServer(t), nil},
		{"model that calls tools", toolCaller(t), []string{"tool"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPlane(t).signIn()
			g, keys := p.tinyGroup("small")
			serving(t, p, g.ID, keys, c.server)
			env := []string{
				"PATH=" + os.Getenv("PATH"), "HOME=" + p.dir, "PYTHONPATH=" + testkit.OpenAIPython(t), "PYTHONDONTWRITEBYTECODE=1",
				"OPENAI_BASE_URL=" + p.base + "/v1", "OPENAI_API_KEY=" + p.key(access.SDK),
			}
			got := runProgram(t, env, "", append([]string{"python3", "testdata/openai_client.py", "small"}, c.args...)...)
			if got.code != 0 {
				t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
			}
		})
	}
}

// The same with OpenAI's Go client.
func TestOpenAIGoClient(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := serving(t, p, g.ID, keys, realServer(t))
	key := p.key(access.SDK)
	api := openai.NewClient(option.WithBaseURL(p.base+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
	asked := func(maxTokens int64) openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{
			Model: "small", MaxTokens: openai.Int(maxTokens), Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
		}
	}

	t.Run("models", func(t *testing.T) {
		page, err := api.Models.List(t.Context())
		if err != nil || len(page.Data) != 1 || page.Data[0].ID != "small" {
			t.Fatalf("%v, %v; want small alone", page, err)
		}
	})
	t.Run("stream", func(t *testing.T) {
		params := asked(12)
		params.StreamOptions = openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)}
		stream := api.Chat.Completions.NewStreaming(t.Context(), params)
		var all openai.ChatCompletionAccumulator
		for stream.Next() {
			if !all.AddChunk(stream.Current()) {
				t.Fatalf("chunk does not continue the answer: %s", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		if len(all.Choices) != 1 || all.Choices[0].Message.Content == "" || all.Choices[0].FinishReason != "length" || all.Usage.CompletionTokens != 12 {
			t.Errorf("answer %+v, usage %+v", all.Choices, all.Usage)
		}
	})
	t.Run("JSON schema", func(t *testing.T) {
		params := asked(200)
		params.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "weather", Strict: openai.Bool(true), Schema: map[string]any{
				"type": "object", "properties": map[string]any{"sunny": map[string]any{"type": "boolean"}}, "required": []string{"sunny"}, "additionalProperties": false,
			}},
		}}
		got, err := api.Chat.Completions.New(t.Context(), params)
		if err != nil {
			t.Fatal(err)
		}
		var said struct {
			Sunny *bool `json:"sunny"`
		}
		if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &said); err != nil || said.Sunny == nil {
			t.Errorf("answer %q is not of the schema: %v", got.Choices[0].Message.Content, err)
		}
	})
	t.Run("errors", func(t *testing.T) {
		hot, elsewhere := asked(3), asked(3)
		hot.Temperature = openai.Float(9)
		elsewhere.Model = "no-such-model"
		_, err := api.Chat.Completions.New(t.Context(), hot)
		wantRefusal(t, err, http.StatusBadRequest, "temperature", "INVALID")
		_, err = api.Chat.Completions.New(t.Context(), elsewhere)
		wantRefusal(t, err, http.StatusNotFound, "model", "model_not_found")
		_, err = api.Models.List(t.Context(), option.WithAPIKey("il_wrong"))
		wantRefusal(t, err, http.StatusUnauthorized, "", "invalid_api_key")
		_, err = api.Models.List(t.Context(), option.WithAPIKey(p.key(access.TaskWorker)))
		wantRefusal(t, err, http.StatusForbidden, "", "SCOPE_DENIED")
	})
	t.Run("caller goes away", func(t *testing.T) {
		ctx, leave := context.WithCancel(t.Context())
		stream := api.Chat.Completions.NewStreaming(ctx, asked(3500))
		if !stream.Next() {
			t.Fatalf("no first chunk: %v", stream.Err())
		}
		leave()
		_ = stream.Close()
		until(t, "the run of a caller that left is cancelled", func() error {
			list, err := p.Runs(t.Context(), "", 1)
			if err != nil {
				return err
			}
			if state := list.Runs[0].State; state != tasks.Cancelled {
				return fmt.Errorf("it is %s", state)
			}
			return nil
		})
		p.wantReady(g.ID) // its slot is free again
	})
	t.Run("no machine", func(t *testing.T) {
		h.ok("agent", "pause")
		p.wantState(g.ID, isPaused, "paused")
		_, err := api.Chat.Completions.New(t.Context(), asked(3))
		wantRefusal(t, err, http.StatusConflict, "model", "NO_ELIGIBLE_INFERENCE_WORKER")
		before, err := p.Runs(t.Context(), "", 1)
		if err != nil || before.Runs[0].State != tasks.Cancelled {
			t.Errorf("a refusal made a run: %+v, %v", before.Runs, err)
		}
	})
}

// wantRefusal fails unless err is an error of OpenAI's shape with these parts.
func wantRefusal(t *testing.T, err error, status int, param, code string) {
	t.Helper()
	var e *openai.Error
	if !errors.As(err, &e) {
		t.Errorf("error %v is not of OpenAI's shape", err)
		return
	}
	if e.StatusCode != status || e.Param != param || e.Code != code || e.Message == "" || e.Type != "invalid_request_error" {
		t.Errorf("refused with %d %q param %q code %q type %q, want %d, param %q, code %q", e.StatusCode, e.Message, e.Param, e.Code, e.Type, status, param, code)
	}
}

// The durable door does not depend on its caller: a run whose reader leaves goes on to its end.
func TestDurableRunOutlivesItsReader(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	serving(t, p, g.ID, keys, realServer(t))
	run, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: "small", Prompt: "Hello", MaxTokens: 1500})
	if err != nil {
		t.Fatal(err)
	}
	left := errors.New("left")
	_, err = p.FollowRun(t.Context(), run.ID, func(event string, _ ai.StreamEvent) error {
		if event == ai.StreamDelta {
			return left
		}
		return nil
	})
	if !errors.Is(err, left) {
		t.Fatalf("follow: %v", err)
	}
	until(t, "the run succeeds", func() error {
		if run, err = p.Run(t.Context(), run.ID); err == nil && run.State != tasks.Succeeded {
			err = fmt.Errorf("it is %s", run.State)
		}
		return err
	})
	if run.Usage == nil || run.Usage.CompletionTokens != 1500 || usageOf(t, p, run.ID) != 1 {
		t.Errorf("usage %+v with %d events, want 1500 tokens and one", run.Usage, usageOf(t, p, run.ID))
	}
}
