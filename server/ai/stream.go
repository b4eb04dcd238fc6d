package serverai

import (
	"context"
	"encoding/json"
	"iter"
	"strings"

	"interlock.sh/ai"
	"interlock.sh/server/tasks"
)

// Piece is one event of a run's answer.
type Piece struct {
	Kind    servertasks.StreamKind
	Attempt int
	Offset  int64    // bytes of the attempt's stream before the chunk
	Next    int64    // and after it: where to read on
	Chunk   ai.Chunk // of StreamText
	Run     ai.Run   // of StreamEnd
}

// maxLine bounds one chunk: a longer line is passed over, so that no reader holds a whole stream.
const maxLine = 1 << 20

// Follow reads a run's answer from a position to its end, chunk by chunk, as it comes in.
func (s *Service) Follow(ctx context.Context, run ai.Run, from servertasks.Position) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		line, start, skipping := "", from.Offset, false
		for e, err := range s.tasks.Stream(ctx, run.Project, run.TaskID, from) {
			if err != nil {
				yield(Piece{}, err)
				return
			}
			switch e.Kind {
			case servertasks.StreamRestarted:
				line, start, skipping = "", 0, false
				if !yield(Piece{Kind: e.Kind, Attempt: e.Attempt}, nil) {
					return
				}
			case servertasks.StreamEnd:
				done, err := s.Get(ctx, run.Project, run.ID)
				yield(Piece{Kind: e.Kind, Attempt: e.Attempt, Offset: start, Next: start, Run: done}, err)
				return
			case servertasks.StreamText:
				text, offset := e.Text, e.Offset
				if skipping {
					_, rest, whole := strings.Cut(text, "\n")
					if !whole {
						continue
					}
					offset += int64(len(text) - len(rest))
					text, skipping = rest, false
				}
				if line == "" {
					start = offset
				}
				line += text
				for {
					one, rest, whole := strings.Cut(line, "\n")
					if !whole {
						break
					}
					p := Piece{Kind: e.Kind, Attempt: e.Attempt, Offset: start, Next: start + int64(len(one)) + 1}
					line, start = rest, p.Next
					// A worker that writes no chunks is its own problem: the line is passed over.
					if json.Unmarshal([]byte(one), &p.Chunk) == nil && !yield(p, nil) {
						return
					}
				}
				if len(line) > maxLine {
					line, skipping = "", true
				}
			}
		}
	}
}

// Text is the answer text that a chunk carries, and whether it carries anything else.
func Text(c ai.Chunk) (text string, more bool) {
	d := deltaOf(c)
	return d.Content, len(d.ToolCalls) > 0 || len(c.Logprobs) > 0 || d.Reasoning != "" || c.FinishReason != ""
}

// delta is what a chunk adds to the answer.
type delta struct {
	Content   string          `json:"content"`
	Reasoning string          `json:"reasoning_content"`
	ToolCalls json.RawMessage `json:"tool_calls"`
}

func deltaOf(c ai.Chunk) (d delta) {
	_ = json.Unmarshal(c.Delta, &d) // a delta of another shape adds nothing
	return d
}

// token reports whether a chunk carries one: the first only says who speaks, the last only why it ends.
func (d delta) token() bool { return d.Content != "" || d.Reasoning != "" || len(d.ToolCalls) > 0 }
