package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fault"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/tasks"
)

// asked is a request to /v1/chat/completions that is under way.
type asked struct {
	t     *testing.T
	resp  *http.Response
	lines *bufio.Reader
}

// ask sends a chat completion; the answer is read by the caller. It does not wait for its header.
func (w *world) ask(more string) <-chan asked {
	w.t.Helper()
	waiting, _ := w.asking(more)
	return waiting
}

// asking is ask with a way to hang up.
func (w *world) asking(more string) (waiting <-chan asked, hangUp func()) {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	body := `{"model":"tiny","messages":[{"role":"user","content":"hi"}]` + more + `}`
	req, err := http.NewRequestWithContext(ctx, "POST", w.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.creds["sdk"])
	out := make(chan asked, 1)
	go func() {
		resp, err := w.http.Do(req)
		if err != nil {
			out <- asked{t: w.t}
			return
		}
		w.t.Cleanup(func() { _ = resp.Body.Close() })
		out <- asked{w.t, resp, bufio.NewReader(resp.Body)}
	}()
	return out, cancel
}

// chunk reads the next event's data: "[DONE]", "EOF", or a chunk.
func (a asked) chunk() (raw string, c map[string]any) {
	a.t.Helper()
	for {
		line, err := a.lines.ReadString('\n')
		if err == io.EOF {
			return "EOF", nil
		}
		if err != nil {
			a.t.Fatal(err)
		}
		data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			return data, nil
		}
		if err := json.Unmarshal([]byte(data), &c); err != nil {
			a.t.Fatal(data, err)
		}
		return data, c
	}
}

func (a asked) wants(parts ...string) {
	a.t.Helper()
	for _, part := range parts {
		if raw, _ := a.chunk(); !strings.Contains(raw, part) {
			a.t.Fatalf("chunk %s, want %s in it", raw, part)
		}
	}
}

func TestAChatInOnePiece(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	waiting := w.ask(`,"logprobs":true,"top_logprobs":1,"tools":[{"type":"function","function":{"name":"f"}}]`)
	a := w.machine.Begin(w.machine.Take())
	a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"role":"assistant","content":""}`)})
	a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"content":"o"}`), Logprobs: json.RawMessage(`{"content":[{"token":"o","logprob":-0.1}]}`)})
	a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"content":"k"}`), Logprobs: json.RawMessage(`{"content":[{"token":"k","logprob":-0.2}]}`)})
	calls := json.RawMessage(`[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]`)
	a.FinishWith(ai.ChatResult{Content: "ok", ToolCalls: calls, FinishReason: "tool_calls", Usage: ai.Usage{PromptTokens: 3, CompletionTokens: 2, TotalTokens: 5}})
	got := <-waiting
	var c struct {
		ID, Object, Model string
		Created           int64
		Choices           []struct {
			Index        int
			FinishReason string `json:"finish_reason"`
			Message      struct {
				Role      string
				Content   *string
				Refusal   *string
				ToolCalls json.RawMessage `json:"tool_calls"`
			}
			Logprobs struct{ Content []map[string]any }
		}
		Usage map[string]int
	}
	if err := json.NewDecoder(got.resp.Body).Decode(&c); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(c.ID, "chatcmpl-run_") || c.Object != "chat.completion" || c.Model != "tiny" || c.Created != noon.Unix() || len(c.Choices) != 1 {
		t.Fatalf("%+v", c)
	}
	one := c.Choices[0]
	if one.Message.Role != "assistant" || *one.Message.Content != "ok" || string(one.Message.ToolCalls) != string(calls) || one.FinishReason != "tool_calls" || len(one.Logprobs.Content) != 2 || one.Logprobs.Content[1]["token"] != "k" {
		t.Errorf("%+v", one)
	}
	if c.Usage["prompt_tokens"] != 3 || c.Usage["completion_tokens"] != 2 || c.Usage["total_tokens"] != 5 {
		t.Errorf("usage %v", c.Usage)
	}
	run, err := w.mine.Run(t.Context(), got.resp.Header.Get("X-Interlock-Run-Id"))
	if err != nil || run.State != tasks.Succeeded || "chatcmpl-"+run.ID != c.ID {
		t.Errorf("its run: %+v %v", run, err)
	}
}

func TestAChatAsAStream(t *testing.T) {
	t.Parallel()
	for _, usage := range []bool{true, false} {
		w := newWorld(t)
		waiting := w.ask(map[bool]string{true: `,"stream":true,"stream_options":{"include_usage":true}`, false: `,"stream":true`}[usage])
		a := w.machine.Begin(w.machine.Take())
		got := <-waiting // the header comes before the first word
		if got.resp.StatusCode != 200 || !strings.HasPrefix(got.resp.Header.Get("Content-Type"), "text/event-stream") || got.resp.Header.Get("X-Accel-Buffering") != "no" {
			t.Fatal(got.resp.StatusCode, got.resp.Header)
		}
		a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"role":"assistant","content":""}`)})
		got.wants(`"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null`)
		a.Say("o")
		raw, c := got.chunk()
		if c["object"] != "chat.completion.chunk" || c["model"] != "tiny" || !strings.Contains(raw, `"choices":[{"index":0,"delta":{"content":"o"},"logprobs":null,"finish_reason":null}]`) || c["usage"] != nil {
			t.Errorf("%s", raw)
		}
		a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]}`), Logprobs: json.RawMessage(`{"content":[{"token":"x"}]}`)})
		got.wants(`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{"}}]},"logprobs":{"content":[{"token":"x"}]}`)
		a.Chunk(ai.Chunk{FinishReason: "stop"})
		got.wants(`"delta":{},"logprobs":null,"finish_reason":"stop"`)
		a.Finish(2)
		if usage {
			got.wants(`"choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}`)
		}
		got.wants("[DONE]", "EOF")
	}
}

// What goes wrong is told in OpenAI's shape, before the answer by its status, in a stream by an event.
func TestChatsThatGoWrong(t *testing.T) {
	t.Parallel()
	context := tasks.Failure{Code: "exceed_context_size_error", Message: "the request has 9000 tokens, the model takes 4096"}
	fatal := tasks.Failure{Code: "CRASHED", Message: "the model server crashed"}
	t.Run("in one piece", func(t *testing.T) {
		for want, f := range map[int]tasks.Failure{400: context, 503: fatal} {
			w := newWorld(t)
			waiting := w.ask("")
			w.machine.Begin(w.machine.Take()).Fail(f)
			got := <-waiting
			text, _ := io.ReadAll(got.resp.Body)
			if got.resp.StatusCode != want || !strings.Contains(string(text), f.Message) || !strings.Contains(string(text), `"type":"`) {
				t.Errorf("%d %s", got.resp.StatusCode, text)
			}
		}
	})
	t.Run("in a stream", func(t *testing.T) {
		w := newWorld(t)
		waiting := w.ask(`,"stream":true`)
		a := w.machine.Begin(w.machine.Take())
		a.Say("well")
		got := <-waiting
		got.wants(`"well"`)
		a.Fail(fatal)
		got.wants(`{"error":{"message":"the run ended failed: the model server crashed`, "EOF")
	})
	t.Run("anew before the first word", func(t *testing.T) {
		w := newWorld(t)
		waiting := w.ask(`,"stream":true`)
		a := w.machine.Begin(w.machine.Take())
		a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"role":"assistant","content":""}`)})
		got := <-waiting
		got.wants(`"role"`)
		w.lose(w.machine)
		a = w.machine.Begin(w.machine.Take())
		a.Say("new")
		a.Finish(1)
		got.wants(`"new"`, "[DONE]", "EOF")
	})
	t.Run("anew after some words", func(t *testing.T) {
		w := newWorld(t)
		waiting := w.ask(`,"stream":true`)
		w.machine.Begin(w.machine.Take()).Say("old")
		got := <-waiting
		got.wants(`"old"`)
		w.lose(w.machine)
		a := w.machine.Begin(w.machine.Take())
		a.Say("new")
		got.wants(`"error":{"message":"the machine that answered was lost`, "EOF")
		a.Finish(1)
		if run := w.ended(got.resp.Header.Get("X-Interlock-Run-Id")); run.State != tasks.Succeeded || *run.Answer != "new" {
			t.Errorf("the run: %+v", run)
		}
	})
	t.Run("in one piece, anew", func(t *testing.T) {
		w := newWorld(t)
		waiting := w.ask(`,"logprobs":true`)
		a := w.machine.Begin(w.machine.Take())
		a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"content":"old"}`), Logprobs: json.RawMessage(`{"content":[{"token":"old"}]}`)})
		w.lose(w.machine)
		a = w.machine.Begin(w.machine.Take())
		a.Chunk(ai.Chunk{Delta: json.RawMessage(`{"content":"new"}`), Logprobs: json.RawMessage(`{"content":[{"token":"new"}]}`)})
		a.Text.WriteString("new")
		a.Finish(1)
		text, _ := io.ReadAll((<-waiting).resp.Body)
		if !strings.Contains(string(text), `"content":"new"`) || strings.Contains(string(text), "old") {
			t.Errorf("%s", text)
		}
	})
}

// A caller of /v1 that goes away cancels its run.
func TestACallerThatGoesAway(t *testing.T) {
	t.Parallel()
	for how, more := range map[string]string{"in one piece": "", "in a stream": `,"stream":true`} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			waiting, hangUp := w.asking(more)
			held := w.machine.Take()
			a := w.machine.Begin(held)
			a.Say("well")
			if more != "" {
				(<-waiting).wants(`"well"`)
			}
			hangUp()
			kit.Await(t, "the cancel request", func() bool {
				got, err := w.machine.RenewTasks(t.Context(), tasks.RenewRequest{WorkerID: w.machine.ID, Attempts: []tasks.Ref{held.Ref}})
				if err != nil {
					t.Fatal(err)
				}
				return got.Renewals[0].Cancel
			})
			a.Fail(tasks.Failure{Code: tasks.CodeCancelled, Message: "stopped"})
			v, err := w.mine.Task(t.Context(), held.TaskID)
			if err != nil || v.State != tasks.Cancelled || !strings.Contains(v.CancelReason, "went away") {
				t.Errorf("%s %q %v", v.State, v.CancelReason, err)
			}
		})
	}
}

// A control plane that goes down ends the answers, says so, and leaves the runs to go on.
func TestAShutdownLeavesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	whole, stream := w.ask(""), w.ask(`,"stream":true`)
	first, second := w.machine.Begin(w.machine.Take()), w.machine.Begin(w.machine.Take())
	first.Say("a")
	second.Say("b")
	streamed := <-stream
	streamed.wants(`"content":`)
	began := time.Now()
	w.Stop()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the shutdown took %v", took)
	}
	streamed.wants("shutting down", "EOF")
	got := <-whole
	text, _ := io.ReadAll(got.resp.Body)
	if got.resp.StatusCode != 503 || !strings.Contains(string(text), "the run goes on") {
		t.Errorf("%d %s", got.resp.StatusCode, text)
	}
	w.Again()
	m := *w.machine
	m.Client = w.Client(w.machine.Credential)
	for _, old := range []*kit.Answer{first, second} {
		a := m.Begin(old.Attempt)
		a.Sent = old.Sent
		if out := a.Finish(1); out.State != tasks.Succeeded {
			t.Errorf("%+v", out)
		}
	}
}

func TestOpenAIErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	chat := func(model string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":"hi"}]}`
	}
	for _, c := range []struct {
		as, method, path, body string
		status                 int
		typ, code, param       string
	}{
		{"none", "GET", "/v1/models", "", 401, "invalid_request_error", "invalid_api_key", ""},
		{"garbage", "POST", "/v1/chat/completions", chat("tiny"), 401, "invalid_request_error", "invalid_api_key", ""},
		{"revoked sdk", "POST", "/v1/chat/completions", chat("tiny"), 401, "invalid_request_error", "invalid_api_key", ""},
		{"task-producer", "POST", "/v1/chat/completions", chat("tiny"), 403, "invalid_request_error", string(fault.ScopeDenied), ""},
		{"sdk", "POST", "/v1/chat/completions", chat("gpt-9"), 404, "invalid_request_error", "model_not_found", "model"},
		{"sdk", "POST", "/v1/chat/completions", chat(""), 400, "invalid_request_error", string(fault.Invalid), "model"},
		{"sdk", "POST", "/v1/chat/completions", `{"model":"tiny","messages":[],"x":1}`, 400, "invalid_request_error", string(fault.Invalid), ""},
		{"sdk", "POST", "/v1/chat/completions", `{"model":"tiny","temperature":9,"messages":[{"role":"user","content":"hi"}]}`, 400, "invalid_request_error", string(fault.Invalid), "temperature"},
		{"sdk", "POST", "/v1/chat/completions", `{"model":`, 400, "invalid_request_error", string(fault.Malformed), "body"},
		{"sdk", "POST", "/v1/chat/completions", `[]`, 400, "invalid_request_error", string(fault.Malformed), "body"},
		{"sdk", "GET", "/v1/models/gpt-9", "", 404, "invalid_request_error", "model_not_found", "model"},
		{"sdk", "GET", "/v1/models/", "", 404, "invalid_request_error", "model_not_found", "model"},
		{"sdk", "GET", "/v1/models/tiny/", "", 404, "invalid_request_error", "model_not_found", "model"},
		{"sdk", "GET", "/v1/chat/completions", "", 405, "invalid_request_error", string(fault.WrongMethod), ""},
		{"sdk", "POST", "/v1/embeddings", `{}`, 404, "invalid_request_error", string(fault.NotFound), ""},
	} {
		got := w.call(c.method, c.path, w.creds[c.as], c.body)
		var e struct {
			Error struct {
				Message, Type string
				Param, Code   *string
			}
		}
		if err := json.Unmarshal([]byte(got.body), &e); err != nil {
			t.Fatal(got.body, err)
		}
		if got.status != c.status || e.Error.Message == "" || e.Error.Type != c.typ || e.Error.Code == nil || *e.Error.Code != c.code || c.param != "" && (e.Error.Param == nil || *e.Error.Param != c.param) {
			t.Errorf("%s %s as %s: %d %s", c.method, c.path, c.as, got.status, got.body)
		}
	}
	w.machine.Register(2)
	if got := w.call("POST", "/v1/chat/completions", w.creds["sdk"], chat("tiny")); got.status != 409 || !strings.Contains(got.body, string(fault.NoEligibleWorker)) {
		t.Errorf("nobody serves it: %d %s", got.status, got.body)
	}
	w.nothingHappened()
}
