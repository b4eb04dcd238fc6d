package inference

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"interlock.sh/ai"
	"interlock.sh/llama"
)

// modelError is a refusal by the model server.
type modelError struct {
	Status  int    `json:"code"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Error has the status, since a refusal may have no words of its own.
func (e *modelError) Error() string { return fmt.Sprintf("model server: %s (%d)", e.Message, e.Status) }

// final: a client error other than "busy" would be the same on every machine.
func (e *modelError) final() bool {
	return e.Status >= 400 && e.Status < 500 && e.Status != http.StatusTooManyRequests && e.Status != http.StatusUnauthorized
}

// answer collects one answer while it streams through.
type answer struct {
	out   io.Writer
	began time.Time

	chunks  atomic.Int64 // how many came in
	passing atomic.Bool  // one is being passed on

	content   bytes.Buffer
	toolCalls []toolCall
	finish    string
	usage     ai.Usage
	perSecond *float64
}

type toolCall struct {
	Index    int    `json:"index"`
	ID       string `json:"id,omitempty"`
	Type     string `json:"type,omitempty"`
	Function struct {
		Name      string `json:"name,omitempty"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

const maxLine = 1 << 20

// ask sends the request and passes every chunk on as it comes.
func (w *answer) ask(ctx context.Context, model *llama.Client, request []byte) error {
	resp, err := model.Chat(ctx, request)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // the stream is read to its end, or given up
	if resp.StatusCode != http.StatusOK {
		return refusal(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			// Some builds end a stream that failed in this way.
			if data, ok = bytes.CutPrefix(lines.Bytes(), []byte("error: ")); !ok {
				continue
			}
			data = fmt.Appendf(nil, `{"error":%s}`, data)
		}
		if string(data) == "[DONE]" {
			return nil
		}
		if err := w.chunk(data); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return fmt.Errorf("read answer: %w", io.ErrUnexpectedEOF)
}

func refusal(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // what there is of a reason
	var body struct {
		Error modelError `json:"error"`
	}
	if json.Unmarshal(b, &body) != nil || body.Error.Message == "" {
		body.Error = modelError{Type: "model_server_error", Message: http.StatusText(resp.StatusCode)}
	}
	body.Error.Status = resp.StatusCode
	return &body.Error
}

// chunk takes one chunk of the model server's stream.
func (w *answer) chunk(data []byte) error {
	var c struct {
		Choices []struct {
			Delta        json.RawMessage `json:"delta"`
			Logprobs     json.RawMessage `json:"logprobs"`
			FinishReason *string         `json:"finish_reason"`
		} `json:"choices"`
		Usage *struct {
			Prompt     int `json:"prompt_tokens"`
			Completion int `json:"completion_tokens"`
		} `json:"usage"`
		Timings *struct {
			PerSecond float64 `json:"predicted_per_second"`
		} `json:"timings"`
		Error *modelError `json:"error"`
	}
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("read answer: chunk is no JSON: %w", err)
	}
	if c.Error != nil {
		return c.Error
	}
	if c.Usage != nil {
		w.usage = ai.Usage{PromptTokens: c.Usage.Prompt, CompletionTokens: c.Usage.Completion, TotalTokens: c.Usage.Prompt + c.Usage.Completion}
	}
	if c.Timings != nil && c.Timings.PerSecond > 0 {
		w.perSecond = &c.Timings.PerSecond
	}
	w.chunks.Add(1)
	for _, ch := range c.Choices {
		out := ai.Chunk{Delta: ch.Delta}
		if len(ch.Logprobs) > 0 && string(ch.Logprobs) != "null" {
			out.Logprobs = ch.Logprobs
		}
		if ch.FinishReason != nil {
			out.FinishReason, w.finish = *ch.FinishReason, *ch.FinishReason
		}
		if err := w.collect(ch.Delta); err != nil {
			return err
		}
		line, err := json.Marshal(out)
		if err != nil {
			return err
		}
		if err := w.pass(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// errPassOn is an answer that could not be passed on, whoever gave it.
var errPassOn = errors.New("pass the answer on")

func (w *answer) pass(line []byte) error {
	w.passing.Store(true)
	defer w.passing.Store(false)
	if _, err := w.out.Write(line); err != nil {
		return fmt.Errorf("%w: %w", errPassOn, err)
	}
	return nil
}

// collect adds a delta to the whole answer: text is appended, tool calls are merged by their index.
func (w *answer) collect(delta json.RawMessage) error {
	var d struct {
		Content   string     `json:"content"`
		ToolCalls []toolCall `json:"tool_calls"`
	}
	if err := json.Unmarshal(delta, &d); err != nil {
		return fmt.Errorf("read answer: delta is no object: %w", err)
	}
	w.content.WriteString(d.Content)
	for _, tc := range d.ToolCalls {
		for len(w.toolCalls) <= tc.Index && tc.Index < 128 {
			w.toolCalls = append(w.toolCalls, toolCall{Index: len(w.toolCalls), Type: "function"})
		}
		if tc.Index < 0 || tc.Index >= len(w.toolCalls) {
			return fmt.Errorf("read answer: tool call %d is out of bounds", tc.Index)
		}
		have := &w.toolCalls[tc.Index]
		if tc.ID != "" {
			have.ID = tc.ID
		}
		have.Function.Name += tc.Function.Name
		have.Function.Arguments += tc.Function.Arguments
	}
	return nil
}

// result is the whole answer.
func (w *answer) result(now time.Time) ai.ChatResult {
	res := ai.ChatResult{
		Content: w.content.String(), FinishReason: w.finish, Usage: w.usage, TokensPerSecond: w.perSecond,
		DurationMs: now.Sub(w.began).Milliseconds(),
	}
	if len(w.toolCalls) > 0 {
		type call struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Function any    `json:"function"`
		}
		var calls []call
		for _, tc := range w.toolCalls {
			calls = append(calls, call{tc.ID, tc.Type, tc.Function})
		}
		res.ToolCalls, _ = json.Marshal(calls) // strings only: it always encodes
	}
	return res
}
