package pages

import (
	"fmt"
	"strings"
	"time"

	"interlock.sh/ai"
	"interlock.sh/tasks"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// talk is one question with its answer so far.
type talk struct {
	prompt, model string
	answer        string // as it came, cleaned when drawn
	run           ai.Run
	attempt       int
	offset        int64 // of the last delta of the attempt, plus one
	restarted     bool
	asked         bool // the machine was asked for
	live          bool
	failure       string
}

func (t *talk) update(run ai.Run) {
	if run.ID != "" {
		t.run = run
	}
}

func (t *talk) event(event string, ev ai.StreamEvent) (read bool) {
	switch event {
	case ai.StreamHello, ai.StreamEnd:
		if ev.Run != nil {
			t.update(*ev.Run)
		}
	case ai.StreamRestarted:
		t.begin(ev.Attempt)
		t.restarted = true
	case ai.StreamDelta:
		if ev.Attempt != 0 && ev.Attempt != t.attempt {
			t.begin(ev.Attempt)
		}
		if ev.Offset < t.offset {
			return false // repeated after a reconnect
		}
		t.offset = ev.Offset + 1
		t.answer += ev.Text
	}
	if !t.asked && event != ai.StreamHello && event != ai.StreamEnd && t.run.Machine == "" {
		t.asked = true
		return true
	}
	return false
}

// begin starts the answer again with another attempt, perhaps on another machine.
func (t *talk) begin(attempt int) {
	t.attempt, t.offset, t.answer, t.asked, t.run.Machine = attempt, 0, "", false, ""
}

func (t *talk) lines(style look.Style, w int) []string {
	var out []string
	for i, l := range text.Wrap(text.Lines(t.prompt), w-2) {
		mark := "  "
		if i == 0 {
			mark = style.Accent.Render("› ")
		}
		out = append(out, mark+style.Strong.Render(l))
	}
	if t.restarted {
		out = append(out, style.Rest.Render("the first attempt was lost; this is its repeat"))
	}
	answer := strings.TrimSpace(t.answer)
	if answer != "" {
		out = append(out, text.Wrap(text.Lines(answer), w)...)
	}
	if t.failure != "" {
		for _, l := range text.Wrap([]string{text.Clean(t.failure)}, w) {
			out = append(out, style.Bad.Render(l))
		}
	}
	return append(out, text.Cut(t.status(style), w), "")
}

// status says who answers and how it goes.
func (t *talk) status(style look.Style) string {
	who := text.Clean(t.model)
	if t.run.Machine != "" {
		who = text.Clean(t.run.Machine) + " · " + who
	}
	if t.live {
		doing := "waits for a machine"
		switch {
		case t.answer != "":
			doing = "answers"
		case t.run.State.Held():
			doing = "begins"
		case t.run.Waiting != nil:
			doing = "waits: " + text.Clean(t.run.Waiting.Reason)
		}
		return style.Work.Render(look.MarkWork+" "+doing) + style.Dim.Render("  "+who)
	}
	if t.failure != "" && t.run.ID == "" {
		return style.Bad.Render(look.MarkBad+" refused") + style.Dim.Render("  "+who)
	}
	mark, colour := style.Task(t.run.State)
	words := []string{who}
	if u := t.run.Usage; u != nil {
		words = append(words, text.Count(u.CompletionTokens, "token", "tokens"))
	}
	if t.run.TokensPerSecond != nil {
		words = append(words, text.Number(t.run.TokensPerSecond)+" tok/s")
	}
	if t.run.DurationMs > 0 {
		words = append(words, span(time.Duration(t.run.DurationMs)*time.Millisecond))
	}
	if t.run.State == tasks.Succeeded && t.run.FinishReason == "length" {
		words = append(words, "cut at the token limit")
	}
	return colour.Render(fmt.Sprintf("%s %s", mark, text.Clean(string(t.run.State)))) + style.Dim.Render("  "+strings.Join(words, " · "))
}
