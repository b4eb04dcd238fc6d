package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/internal/clock"
	"interlock.sh/llama"
)

// modelServer answers every chat so.
func modelServer(t *testing.T, status int, body string) *llama.Client {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	c := llama.NewClient(srv.URL, "")
	t.Cleanup(c.CloseStreams)
	return c
}

func sse(chunks ...string) string {
	var b strings.Builder
	for _, c := range chunks {
		fmt.Fprintf(&b, "data: %s\n\n", c)
	}
	return b.String()
}

func TestAnAnswerIsPassedOnChunkByChunkAndGatheredWhole(t *testing.T) {
	var out bytes.Buffer
	began := time.Unix(100, 0)
	w := &answer{out: &out, began: began}
	err := w.ask(t.Context(), modelServer(t, 200, ": a comment\n"+sse(
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"Hé"},"logprobs":{"content":[]},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{"content":"llo"},"finish_reason":null}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2},"timings":{"predicted_per_second":12.5}}`,
		`[DONE]`)), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasSuffix(out.String(), "\n") {
		t.Fatalf("passed on: %q", out.String())
	}
	var second, last ai.Chunk
	if err := errors.Join(json.Unmarshal([]byte(lines[1]), &second), json.Unmarshal([]byte(lines[3]), &last)); err != nil {
		t.Fatal(err)
	}
	if string(second.Delta) != `{"content":"Hé"}` || string(second.Logprobs) != `{"content":[]}` || last.FinishReason != "stop" {
		t.Errorf("chunks are %+v and %+v", second, last)
	}
	res := w.result(began.Add(1500 * time.Millisecond))
	want := ai.Usage{PromptTokens: 7, CompletionTokens: 2, TotalTokens: 9}
	if res.Content != "Héllo" || res.FinishReason != "stop" || res.Usage != want || res.TokensPerSecond == nil || *res.TokensPerSecond != 12.5 || res.DurationMs != 1500 {
		t.Errorf("the whole is %+v", res)
	}
}

func TestToolCallsAreMergedByTheirIndex(t *testing.T) {
	w := &answer{out: io.Discard}
	err := w.ask(t.Context(), modelServer(t, 200, sse(
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"look","arguments":""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"go","arguments":"{}"}},{"index":0,"function":{"arguments":"{\"at\":"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"1}"}}]},"finish_reason":"tool_calls"}]}`,
		`[DONE]`)), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"id":"a","type":"function","function":{"name":"look","arguments":"{\"at\":1}"}},{"id":"b","type":"function","function":{"name":"go","arguments":"{}"}}]`
	if got := w.result(time.Time{}); string(got.ToolCalls) != want || got.FinishReason != "tool_calls" {
		t.Errorf("calls are %s", got.ToolCalls)
	}
}

func TestWhatAModelServerRefusesIsFinalOnlyWhenItWouldRefuseAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		kind   string // of the model server's refusal; "" is a broken answer
		final  bool
	}{
		{"too long for its context", 400, `{"error":{"code":400,"message":"request (9 tokens) exceeds","type":"exceed_context_size_error"}}`, "exceed_context_size_error", true},
		{"a refusal without words", 404, `no`, "model_server_error", true},
		{"busy", 429, `{"error":{"message":"busy","type":"rate"}}`, "rate", false},
		{"our key is not its key", 401, `{"error":{"message":"Invalid API Key","type":"authentication_error"}}`, "authentication_error", false},
		{"loading again", 503, `{"error":{"message":"Loading model","type":"unavailable_error"}}`, "unavailable_error", false},
		{"fails in the stream", 200, sse(`{"error":{"code":500,"message":"Compute error.","type":"server_error"}}`), "server_error", false},
		{"refuses in the stream", 200, sse(`{"error":{"code":400,"message":"the grammar is none","type":"invalid_request_error"}}`), "invalid_request_error", true},
		{"fails in an older build's stream", 200, `error: {"code":500,"message":"Compute error.","type":"server_error"}` + "\n\n", "server_error", false},
		{"ends without its end", 200, sse(`{"choices":[{"delta":{"content":"He"}}]}`), "", false},
		{"sends no JSON", 200, sse(`{"choices":`), "", false},
		{"sends a delta that is none", 200, sse(`{"choices":[{"delta":7}]}`), "", false},
		{"calls a tool out of bounds", 200, sse(`{"choices":[{"delta":{"tool_calls":[{"index":128,"function":{}}]}}]}`), "", false},
		{"sends a line without end", 200, "data: " + strings.Repeat("x", maxLine+1), "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &answer{out: io.Discard}
			err := w.ask(t.Context(), modelServer(t, c.status, c.body), []byte(`{}`))
			var refused *modelError
			switch {
			case err == nil:
				t.Fatal("taken for a whole answer")
			case errors.As(err, &refused) != (c.kind != ""):
				t.Fatalf("%v", err)
			case refused != nil && (refused.Type != c.kind || refused.final() != c.final):
				t.Errorf("type %q, final %v", refused.Type, refused.final())
			}
		})
	}
}

// brokenPipe is a way to the control plane that takes nothing.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestAnAnswerThatCannotBePassedOnIsNotTheModelsFault(t *testing.T) {
	w := &answer{out: brokenPipe{}}
	err := w.ask(t.Context(), modelServer(t, 200, sse(`{"choices":[{"delta":{"content":"He"}}]}`, `[DONE]`)), []byte(`{}`))
	if !errors.Is(err, errPassOn) || !errors.Is(err, io.ErrClosedPipe) {
		t.Fatalf("%v", err)
	}
}

func TestAModelThatStandsStillIsGivenUp(t *testing.T) {
	for _, c := range []struct {
		name   string
		chunks int64
		limit  time.Duration
	}{{"before the first token", 0, firstWithin}, {"in the middle", 3, nextWithin}} {
		t.Run(c.name, func(t *testing.T) {
			fake := clock.NewFake(time.Unix(0, 0))
			w := &answer{}
			w.chunks.Store(c.chunks)
			began := fake.Now()
			ended := make(chan error, 1)
			reads := 0
			go func() {
				ended <- watched(t.Context(), fake, w, func() { reads++ }, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
			}()
			for fake.Now().Sub(began) < c.limit+watchEvery { // the first look only sees that tokens came
				fake.AwaitWaiters(1)
				if len(ended) > 0 {
					t.Fatalf("given up after %v", fake.Now().Sub(began))
				}
				fake.Advance(watchEvery)
				if c.chunks == 0 && fake.Now().Sub(began) == c.limit {
					break
				}
			}
			if err := <-ended; !errors.Is(err, errWedged) {
				t.Fatalf("%v", err)
			}
			if want := map[bool]int{true: 1}[c.chunks == 0]; reads != want {
				t.Errorf("said %d times that the prompt is read, want %d", reads, want)
			}
		})
	}
}

func TestAControlPlaneThatTakesNothingIsNotAModelThatStandsStill(t *testing.T) {
	fake := clock.NewFake(time.Unix(0, 0))
	w := &answer{}
	w.chunks.Store(3)
	w.passing.Store(true)
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- watched(t.Context(), fake, w, func() {}, func(ctx context.Context) error {
			select {
			case <-done:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	}()
	for range 20 {
		fake.AwaitWaiters(1)
		fake.Advance(watchEvery)
	}
	fake.AwaitWaiters(1)
	close(done)
	if err := <-ended; err != nil {
		t.Fatalf("%v", err)
	}
}
