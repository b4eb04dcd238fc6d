package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/server/ai"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// openaiStream sends the answer as OpenAI's chunks. When an attempt is lost after its first words were
// sent, the stream ends with an error instead of repeating them. left says that nobody reads any more.
func (a *API) openaiStream(w http.ResponseWriter, r *http.Request, run ai.Run, asked serverai.Asked) (left bool, err error) {
	s, err := openStream(w)
	if err != nil {
		return true, err
	}
	f := &openaiFrames{s: s, frame: frame(run, "chat.completion.chunk", asked.Model), usage: asked.IncludeUsage}
	idle := func() error { return s.comment("still here") }
	for p, err := range a.follow(r.Context(), run, servertasks.Position{}, idle) {
		if errors.Is(err, errClosing) {
			return false, f.fail(errClosing)
		}
		if err != nil {
			_ = f.fail(err) // the reader may be gone
			return true, nil
		}
		done, err := f.piece(p)
		if err != nil {
			return true, err
		}
		if done {
			return false, nil
		}
	}
	return true, nil
}

var errClosing = fault.New(fault.Unavailable, "the control plane is shutting down; the run goes on").WithHint("read it with GET /api/ai/runs/{id}")

// openaiFrames writes the chunks of one stream.
type openaiFrames struct {
	s     *stream
	frame openaiCompletion
	usage bool
	begun bool // something of the answer was sent, more than who speaks
}

func (f *openaiFrames) piece(p serverai.Piece) (done bool, err error) {
	switch p.Kind {
	case servertasks.StreamText:
		words, more := serverai.Text(p.Chunk)
		f.begun = f.begun || words != "" || more
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

type chunkChoice struct {
	Index        int             `json:"index"`
	Delta        json.RawMessage `json:"delta"`
	Logprobs     json.RawMessage `json:"logprobs"`
	FinishReason *string         `json:"finish_reason"`
}

var emptyDelta, null = json.RawMessage("{}"), json.RawMessage("null")
