package fakellama

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// stream answers as server-sent events, in the order that real builds were seen to keep: a role chunk
// with null content, the tokens, a chunk with the finish reason and an empty delta, with include_usage
// one with empty choices, usage and timings, and [DONE].
func (a *answer) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	out := http.NewResponseController(w)
	send := func(body map[string]any) error {
		b, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode chunk: %w", err)
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", b); err != nil {
			return fmt.Errorf("write chunk: %w", err)
		}
		return out.Flush()
	}
	chunk := func(delta map[string]any, finish any) map[string]any {
		return a.envelope("chat.completion.chunk", []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}})
	}

	if send(chunk(map[string]any{"role": "assistant", "content": nil}, nil)) != nil {
		return
	}
	var finish string
	var err error
	if call := a.toolCall(); call != nil {
		finish, err = a.streamCall(call, func(delta map[string]any) error { return send(chunk(delta, nil)) })
	} else {
		finish, err = a.generate(r, func(field, piece string) error {
			return send(chunk(map[string]any{field: piece}, nil))
		})
	}
	if err != nil {
		return // the client is gone
	}
	last := chunk(map[string]any{}, finish)
	withUsage := a.req.StreamOptions != nil && a.req.StreamOptions.IncludeUsage
	if !withUsage {
		last["timings"] = a.timings()
	}
	if send(last) != nil {
		return
	}
	if withUsage {
		body := a.envelope("chat.completion.chunk", []any{})
		body["usage"], body["timings"] = a.usage(), a.timings()
		if send(body) != nil {
			return
		}
	}
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
	_ = out.Flush()
}

// streamCall sends a tool call in two parts, as clients must be ready for: the name, then the arguments.
func (a *answer) streamCall(call *ToolCall, send func(map[string]any) error) (string, error) {
	first := callBody(&ToolCall{Name: call.Name}, true)
	rest := map[string]any{"index": 0, "function": map[string]any{"arguments": call.Arguments}}
	for _, part := range []map[string]any{first, rest} {
		a.count()
		if err := send(map[string]any{"tool_calls": []any{part}}); err != nil {
			return "", err
		}
	}
	return "tool_calls", nil
}
