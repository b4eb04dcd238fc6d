package fakellama

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"interlock.sh/internal/ident"
)

// request is what the fake reads of a chat completion.
type request struct {
	Messages      []message         `json:"messages"`
	Stream        bool              `json:"stream"`
	StreamOptions *streamOptions    `json:"stream_options"`
	MaxTokens     int               `json:"max_tokens"`
	MaxCompletion int               `json:"max_completion_tokens"`
	NPredict      int               `json:"n_predict"`
	Tools         []json.RawMessage `json:"tools"`
	Prompt        string            `json:"prompt"` // of /completion
}

type message struct {
	Content any `json:"content"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// answer is one completion on its way out.
type answer struct {
	f       *fake
	req     request
	id      string
	created int64
	began   time.Time
	prompt  int // tokens
	sent    int // tokens
}

func (f *fake) chat(w http.ResponseWriter, r *http.Request) {
	a, release := f.begin(w, r)
	if a == nil {
		return
	}
	defer release()
	if a.req.Stream {
		a.stream(w, r)
		return
	}
	a.whole(w, r)
}

// completion is the older endpoint, which warm-ups and probes use: text in, text out, never streamed.
func (f *fake) completion(w http.ResponseWriter, r *http.Request) {
	a, release := f.begin(w, r)
	if a == nil {
		return
	}
	defer release()
	text, finish, err := a.collect(r)
	if err != nil {
		return
	}
	kind := "eos"
	if finish == "length" {
		kind = "limit"
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"index": 0, "content": text, "stop": true, "stop_type": kind, "model": f.opt.alias,
		"tokens_predicted": a.sent, "tokens_evaluated": a.prompt, "truncated": false, "timings": a.timings(),
	})
}

// begin reads the request, misbehaves as scripted, and waits for a free slot. It answers by itself and
// returns nil when there is nothing to go on with.
func (f *fake) begin(w http.ResponseWriter, r *http.Request) (*answer, func()) {
	a := &answer{f: f, id: ident.Secret("chatcmpl-")[:41], created: time.Now().Unix(), began: time.Now()}
	if err := json.NewDecoder(r.Body).Decode(&a.req); err != nil {
		writeError(w, http.StatusBadRequest, "parse error: "+err.Error(), "invalid_request_error", nil)
		return nil, nil
	}
	a.prompt = countTokens(a.req)
	if limit := f.slotCtx(); a.prompt >= limit {
		writeError(w, http.StatusBadRequest,
			fmt.Sprintf("request (%d tokens) exceeds the available context size (%d tokens), try increasing it", a.prompt, limit),
			"exceed_context_size_error", map[string]any{"n_prompt_tokens": a.prompt, "n_ctx": limit})
		return nil, nil
	}
	n := int(f.asked.Add(1))
	if f.cfg.CrashAfter > 0 && n >= f.cfg.CrashAfter {
		c := Crash{Code: 134, Stderr: "GGML_ASSERT: scripted crash"}
		if f.cfg.Crash != nil {
			c = *f.cfg.Crash
		}
		f.crash <- c
		<-r.Context().Done() // the end of the process, or of the client, comes before any answer
		return nil, nil
	}
	if f.cfg.HangCompletions || f.cfg.HangAfter > 0 && n > f.cfg.HangAfter {
		<-r.Context().Done()
		return nil, nil
	}
	f.waiting.Add(1)
	defer f.waiting.Add(-1)
	select {
	case f.slots <- struct{}{}:
		return a, func() {
			<-f.slots
			f.millis.Add(time.Since(a.began).Milliseconds())
		}
	case <-r.Context().Done():
		return nil, nil
	}
}

// pieces are what to say, and the limit in tokens.
func (a *answer) pieces() (reasoning, text []string, limit int) {
	reasoning, text = a.f.cfg.Reasoning, a.f.cfg.Tokens
	if len(text) == 0 {
		text = []string{"Hello", ",", " world", "."}
	}
	limit = max(a.req.MaxTokens, a.req.MaxCompletion, a.req.NPredict)
	if limit <= 0 {
		limit = len(reasoning) + len(text)
	}
	return reasoning, text, limit
}

// generate says the answer piece by piece, each after its gate, and returns the finish reason.
func (a *answer) generate(r *http.Request, say func(field, piece string) error) (string, error) {
	reasoning, text, limit := a.pieces()
	for i := range len(reasoning) + len(text) {
		if a.sent == limit {
			return "length", nil
		}
		if a.f.cfg.GateTokens {
			if err := await(r.Context(), a.f.cfg.Control, "token"); err != nil {
				return "", err
			}
		}
		select {
		case <-r.Context().Done():
			return "", r.Context().Err()
		case <-time.After(time.Duration(a.f.cfg.TokenMS) * time.Millisecond):
		}
		a.count()
		field, piece := "reasoning_content", ""
		if i < len(reasoning) {
			piece = reasoning[i]
		} else {
			field, piece = "content", text[i-len(reasoning)]
		}
		if err := say(field, piece); err != nil {
			return "", err
		}
	}
	return "stop", nil
}

func (a *answer) collect(r *http.Request) (text, finish string, err error) {
	var b strings.Builder
	finish, err = a.generate(r, func(field, piece string) error {
		if field == "content" {
			b.WriteString(piece)
		}
		return nil
	})
	return b.String(), finish, err
}

// count counts a token that was generated.
func (a *answer) count() {
	a.sent++
	a.f.tokens.Add(1)
}

// toolCall is the scripted call, when the request offered tools.
func (a *answer) toolCall() *ToolCall {
	if len(a.req.Tools) == 0 {
		return nil
	}
	return a.f.cfg.ToolCall
}

// whole answers without a stream.
func (a *answer) whole(w http.ResponseWriter, r *http.Request) {
	message := map[string]any{"role": "assistant"}
	finish := "tool_calls"
	if call := a.toolCall(); call != nil {
		a.count()
		message["content"] = nil
		message["tool_calls"] = []any{callBody(call, false)}
	} else {
		text, why, err := a.collect(r)
		if err != nil {
			return
		}
		finish = why
		message["content"] = text
		if len(a.f.cfg.Reasoning) > 0 {
			message["reasoning_content"] = strings.Join(a.f.cfg.Reasoning, "")
		}
	}
	body := a.envelope("chat.completion", []any{map[string]any{"index": 0, "finish_reason": finish, "message": message}})
	body["usage"], body["timings"] = a.usage(), a.timings()
	writeJSON(w, http.StatusOK, body)
}

func (a *answer) envelope(object string, choices []any) map[string]any {
	return map[string]any{
		"id": a.id, "object": object, "created": a.created, "model": a.f.opt.alias,
		"system_fingerprint": "b" + a.f.build + "-pypi", "choices": choices,
	}
}

func (a *answer) usage() map[string]any {
	return map[string]any{
		"prompt_tokens": a.prompt, "completion_tokens": a.sent, "total_tokens": a.prompt + a.sent,
		"prompt_tokens_details": map[string]any{"cached_tokens": 0},
	}
}

// timings has the fields of the real server; the times are the fake's own.
func (a *answer) timings() map[string]any {
	ms := max(0.001, float64(time.Since(a.began).Microseconds())/1000)
	per := func(n int) float64 { return ms / float64(max(1, n)) }
	return map[string]any{
		"cache_n": 0, "prompt_n": a.prompt, "prompt_ms": ms, "prompt_per_token_ms": per(a.prompt),
		"prompt_per_second": 1000 / per(a.prompt), "predicted_n": a.sent, "predicted_ms": ms,
		"predicted_per_token_ms": per(a.sent), "predicted_per_second": 1000 / per(a.sent),
	}
}

// countTokens is one token a word, and one for each message: near enough for limits.
func countTokens(req request) int {
	n := len(strings.Fields(req.Prompt)) + 1
	for _, m := range req.Messages {
		n += len(strings.Fields(fmt.Sprint(m.Content))) + 1
	}
	return n
}

// callBody is a tool call as OpenAI has it; a stream's carries the call's index.
func callBody(call *ToolCall, indexed bool) map[string]any {
	body := map[string]any{
		"id": ident.Secret("")[:32], "type": "function",
		"function": map[string]any{"name": call.Name, "arguments": call.Arguments},
	}
	if indexed {
		body["index"] = 0
	}
	return body
}
