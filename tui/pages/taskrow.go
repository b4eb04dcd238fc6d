package pages

import (
	"fmt"
	"strings"
	"time"

	"interlock.sh/tasks"
	"interlock.sh/tui/components"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

var taskColumns = []components.Column{
	{Title: "TYPE", Min: 10, Max: 24, Keep: 8},
	{Title: "STATE", Min: 17, Max: 22, Keep: 9},
	{Title: "WORKER", Min: 10, Max: 22, Keep: 6},
	{Title: "TRY", Min: 4, Max: 7, Right: true, Keep: 2},
	{Title: "TOOK", Min: 6, Max: 7, Right: true, Keep: 5},
	{Title: "AGE", Min: 10, Max: 10, Right: true, Keep: 7},
	{Title: "TASK", Min: 8, Max: 28, Keep: 1},
	{Title: "NOTE", Min: 12, Max: 60, Keep: 3},
}

const ageColumn = 5

// taskRow is a task under taskColumns.
func taskRow(s look.Style, v tasks.View, names map[string]string, now time.Time) components.Row {
	mark, style := s.Task(v.State)
	state := mark + " " + text.Clean(string(v.State))
	if v.CancelRequested && !v.State.Terminal() {
		state += ", stopping"
	}
	duration := text.Unknown
	if v.StartedAt != nil {
		duration = span(took(v, now))
	}
	return components.Row{ID: v.ID, Cells: []components.Cell{
		{Text: text.Clean(v.Type), Style: s.Plain},
		{Text: state, Style: style},
		{Text: workerName(v.WorkerID, names), Style: s.Plain},
		{Text: fmt.Sprintf("%d/%d", v.Attempts, v.MaxAttempts), Style: s.Dim},
		{Text: duration, Style: s.Plain},
		{Text: text.Ago(now, &v.CreatedAt), Style: s.Dim},
		{Text: text.Clean(v.ID), Style: s.Dim},
		{Text: note(v), Style: s.Dim},
	}}
}

// workerName is the name of the machine that a worker is, or the worker's own id.
func workerName(id string, names map[string]string) string {
	if n := names[id]; n != "" {
		return n
	}
	return text.Or(text.Clean(id))
}

// took is how long a task has been worked on.
func took(v tasks.View, now time.Time) time.Duration {
	switch {
	case v.StartedAt == nil:
		return 0
	case v.EndedAt != nil:
		return v.EndedAt.Sub(*v.StartedAt)
	}
	return now.Sub(*v.StartedAt)
}

// span is a duration with the digit that matters for work of seconds.
func span(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", max(d, 0).Seconds())
	}
	return text.Duration(d)
}

// note is what a task last said: its error, or its progress.
func note(v tasks.View) string {
	switch {
	case v.Error != nil:
		return text.Clean(v.Error.Code + ": " + v.Error.Message)
	case v.Progress != nil && !v.State.Terminal():
		return strings.TrimSpace(fmt.Sprintf("%.0f%% %s", v.Progress.Percent, text.Clean(v.Progress.Message)))
	case v.CancelReason != "":
		return text.Clean(v.CancelReason)
	}
	return ""
}
