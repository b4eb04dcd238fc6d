package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/internal/clock"
)

// followRun calls on for the events of a run's stream and returns the run once it has ended. The
// stream may be held up by something in between, so the run itself is read now and then.
func followRun(ctx context.Context, c *client.Client, id string, on func(string, ai.StreamEvent) error, clk clock.Clock) (ai.Run, error) {
	stream, leave := context.WithCancel(ctx)
	defer leave()
	polled := make(chan struct{})
	go func() {
		defer close(polled)
		for ended := false; ; {
			select {
			case <-clk.After(pollEvery):
			case <-stream.Done():
				return
			}
			run, err := c.Run(stream, id)
			if err != nil || !run.State.Terminal() {
				continue // the stream's reader meets and reports what matters
			}
			if ended { // the stream had a whole turn to bring what it still held
				leave()
				return
			}
			ended = true
		}
	}()
	run, err := c.FollowRun(stream, id, on)
	held := err != nil && stream.Err() != nil && ctx.Err() == nil
	leave()
	<-polled
	if held {
		return c.Run(ctx, id)
	}
	return run, err
}

// answer prints the text of a run as it comes, each byte once.
type answer struct {
	out     io.Writer
	clean   bool // the reader is a terminal, which a model must not steer
	mute    bool
	note    func(string, ...any)
	attempt int
	offset  int64 // of the newest delta printed
	any     bool  // whether this attempt printed something
	text    strings.Builder
}

// event takes one event of the stream. Repeats after a reconnect carry offsets that were seen.
func (w *answer) event(kind string, ev ai.StreamEvent) error {
	switch kind {
	case ai.StreamRestarted:
		w.restart(ev.Attempt)
	case ai.StreamDelta:
		if ev.Attempt < w.attempt || (ev.Attempt == w.attempt && w.any && ev.Offset <= w.offset) {
			return nil
		}
		if ev.Attempt > w.attempt {
			w.restart(ev.Attempt)
		}
		w.offset, w.any = ev.Offset, true
		return w.write(ev.Text)
	}
	return nil
}

// restart begins the answer anew: another attempt answers from the beginning.
func (w *answer) restart(attempt int) {
	if attempt <= w.attempt && w.attempt > 0 {
		return
	}
	if w.text.Len() > 0 && !w.mute {
		w.endLine()
		w.note("attempt %d answers from the beginning: the machine before it was lost or gave the run back", attempt)
	}
	w.attempt, w.any = attempt, false
	w.text.Reset()
}

func (w *answer) write(text string) error {
	if text == "" {
		return nil
	}
	w.text.WriteString(text)
	if w.mute {
		return nil
	}
	if w.clean {
		text = cleanText(text)
	}
	if _, err := io.WriteString(w.out, text); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// finish prints what the stream did not bring: the run itself is the truth.
func (w *answer) finish(run ai.Run) {
	if run.Answer != nil {
		whole, got := *run.Answer, w.text.String()
		switch rest, ok := strings.CutPrefix(whole, got); {
		case ok:
			_ = w.write(rest) // a writer that failed before was reported then
		default:
			w.endLine()
			w.note("the stream had gaps; the whole answer follows")
			_ = w.write(whole)
		}
	}
	w.endLine()
	if len(run.ToolCalls) > 0 && string(run.ToolCalls) != "null" {
		fmt.Fprintf(w.out, "%s\n", clean(string(run.ToolCalls)))
	}
}

// endLine makes the next text begin on a line of its own.
func (w *answer) endLine() {
	s := w.text.String()
	if last, _ := utf8.DecodeLastRuneInString(s); s != "" && last != '\n' && !w.mute {
		fmt.Fprintln(w.out)
	}
}
