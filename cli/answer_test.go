package cli

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"interlock.sh/ai"
)

func delta(attempt int, offset int64, text string) func(*answer) error {
	return func(w *answer) error {
		return w.event(ai.StreamDelta, ai.StreamEvent{Attempt: attempt, Offset: offset, Text: text})
	}
}

func restarted(attempt int) func(*answer) error {
	return func(w *answer) error { return w.event(ai.StreamRestarted, ai.StreamEvent{Attempt: attempt}) }
}

func TestAnswerPrintsEachByteOnce(t *testing.T) {
	tests := []struct {
		name   string
		events []func(*answer) error
		whole  string
		clean  bool
		want   string
		notes  int
	}{
		{name: "in order", events: []func(*answer) error{delta(1, 0, "a"), delta(1, 9, "b")}, whole: "ab", want: "ab\n"},
		{name: "a reconnect repeats", events: []func(*answer) error{delta(1, 0, "a"), delta(1, 9, "b"), delta(1, 0, "a"), delta(1, 9, "b"), delta(1, 18, "c")}, whole: "abc", want: "abc\n"},
		{name: "no events at all", whole: "whole", want: "whole\n"},
		{name: "the end is missing", events: []func(*answer) error{delta(1, 0, "a")}, whole: "abc", want: "abc\n"},
		{name: "the middle is missing", events: []func(*answer) error{delta(1, 0, "a"), delta(1, 18, "c")}, whole: "abc", want: "ac\nabc\n", notes: 1},
		{name: "another attempt", events: []func(*answer) error{delta(1, 0, "ab"), restarted(2), delta(2, 0, "xy")}, whole: "xy", want: "ab\nxy\n", notes: 1},
		{name: "the restart event is missing", events: []func(*answer) error{delta(1, 0, "ab"), delta(2, 0, "xy")}, whole: "xy", want: "ab\nxy\n", notes: 1},
		{name: "late deltas of a lost attempt", events: []func(*answer) error{restarted(2), delta(1, 9, "old"), delta(2, 0, "new")}, whole: "new", want: "new\n"},
		{name: "its own line end", events: []func(*answer) error{delta(1, 0, "a\n")}, whole: "a\n", want: "a\n"},
		{name: "a terminal is not steered", events: []func(*answer) error{delta(1, 0, "a\x1b[2J\u009bb\tc\n")}, whole: "a\x1b[2J\u009bb\tc\n", clean: true, want: "a[2Jb\tc\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			notes := 0
			w := &answer{out: &out, clean: tt.clean, note: func(string, ...any) { notes++ }}
			for _, e := range tt.events {
				if err := e(w); err != nil {
					t.Fatal(err)
				}
			}
			w.finish(ai.Run{Answer: &tt.whole})
			if out.String() != tt.want || notes != tt.notes {
				t.Errorf("printed %q with %d notes, want %q with %d", out.String(), notes, tt.want, tt.notes)
			}
		})
	}
}

func TestAnswerOfToolCalls(t *testing.T) {
	var out bytes.Buffer
	(&answer{out: &out}).finish(ai.Run{ToolCalls: []byte(`[{"id":"c1"}]`)})
	if out.String() != "[{\"id\":\"c1\"}]\n" {
		t.Errorf("printed %q", out.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left") }

func TestAnswerThatCannotBeWrittenEndsTheFollowing(t *testing.T) {
	err := delta(1, 0, "a")(&answer{out: fullDisk{}})
	if err == nil || !strings.Contains(err.Error(), "write the answer: no space left") {
		t.Errorf("got %v", err)
	}
}
