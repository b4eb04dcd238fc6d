package pages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/tasks"
	"interlock.sh/tui/components"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Task shows one task with its journal.
type Task struct {
	style   look.Style
	keys    keys.Map
	task    tasks.View
	journal []journalLine
	cut     bool
	names   map[string]string
	now     time.Time
	scroll  components.Scroll
}

// NewTask is the page without a task.
func NewTask(style look.Style, k keys.Map) *Task {
	return &Task{style: style, keys: k, scroll: components.Scroll{Follow: true}}
}

// Entries is a journal as far as it was read; Cut says that it goes on.
type Entries struct {
	List []tasks.Entry
	Cut  bool
}

// Set gives the page a task as it is now, with its journal.
func (t *Task) Set(v tasks.View, entries Entries, names map[string]string, now time.Time) {
	if v.ID != t.task.ID {
		t.scroll.Reset()
	}
	t.task, t.names, t.now = v, names, now
	t.journal = readJournal(entries.List, names)
	t.cut = entries.Cut
}

// Key scrolls the journal, goes back, and asks for a cancel.
func (t *Task) Key(k tea.KeyMsg) tea.Msg {
	switch {
	case key.Matches(k, t.keys.Back):
		return Back{}
	case key.Matches(k, t.keys.Up):
		t.scroll.Move(-1)
	case key.Matches(k, t.keys.Down):
		t.scroll.Move(1)
	case key.Matches(k, t.keys.PageUp):
		t.scroll.Page(-1)
	case key.Matches(k, t.keys.PageDown):
		t.scroll.Page(1)
	case key.Matches(k, t.keys.Top):
		t.scroll.Move(-len(t.journal))
	case key.Matches(k, t.keys.Bottom):
		t.scroll.Move(len(t.journal))
	case key.Matches(k, t.keys.Cancel) && !t.task.State.Terminal():
		return cancelTask(t.task, text.Clean(t.task.Type)+" "+text.Clean(t.task.ID))
	}
	return nil
}

// View draws facts and journal.
func (t *Task) View(w, h int) string {
	v := t.task
	mark, style := t.style.Task(v.State)
	state := mark + " " + text.Clean(string(v.State))
	if v.CancelRequested && !v.State.Terminal() {
		state += ", cancel requested"
	}
	lines := []string{text.Ends(
		t.style.Strong.Render(text.Clean(v.Type))+"  "+style.Render(state),
		t.style.Dim.Render("submitted "+text.Ago(t.now, &v.CreatedAt)), w)}
	lines = append(lines, text.Left(t.style.Dim.Render("task      ")+text.Clean(v.ID), w))
	facts := components.Facts(t.style, t.facts(), w)
	lines = append(lines, facts[:min(len(facts), max(h/5, 2))]...)
	if v.Error != nil {
		why := text.Wrap([]string{text.Clean(v.Error.Code + ": " + v.Error.Message)}, w)
		for _, l := range why[:min(len(why), 3)] {
			lines = append(lines, text.Left(t.style.Bad.Render(l), w))
		}
	}
	body := t.lines(w)
	view := t.scroll.View(body, w, h-len(lines)-1)
	lines = append(lines, components.Rule(t.style, "Journal", t.scroll.Position(), w))
	return text.Block(append(lines, strings.Split(view, "\n")...), w, h)
}

func (t *Task) facts() []components.Fact {
	v := t.task
	took := text.Unknown
	if v.StartedAt != nil {
		end := t.now
		if v.EndedAt != nil {
			end = *v.EndedAt
		}
		took = span(end.Sub(*v.StartedAt))
	}
	facts := []components.Fact{
		{Label: "worker", Value: workerName(v.WorkerID, t.names)},
		{Label: "took", Value: took},
		{Label: "attempts", Value: fmt.Sprintf("%d of %d", v.Attempts, v.MaxAttempts)},
		{Label: "effects", Value: text.Or(text.Clean(string(v.EffectSafety)))},
		{Label: "priority", Value: fmt.Sprint(v.Priority)},
		{Label: "pool", Value: text.Clean(v.Pool)},
	}
	labels := make([]string, 0, len(v.Correlations))
	for k, c := range v.Correlations {
		labels = append(labels, text.Clean(k+"="+c))
	}
	if len(labels) > 0 {
		slices.Sort(labels)
		facts = append(facts, components.Fact{Label: "labels", Value: strings.Join(labels, " ")})
	}
	return facts
}

func (t *Task) lines(w int) []string {
	if len(t.journal) == 0 {
		return []string{t.style.Dim.Render("  no entries yet")}
	}
	kind := 0
	for _, l := range t.journal {
		kind = max(kind, text.Width(l.kind))
	}
	kind = min(kind, w/3)
	const at = 9
	room := w - at - kind - 4
	var out []string
	for _, l := range t.journal {
		style := t.style.Plain
		if l.failed {
			style = t.style.Bad
		}
		for i, words := range text.Wrap([]string{l.words}, room) {
			head := text.Space(at + kind + 4)
			if i == 0 {
				head = t.style.Dim.Render(text.Right(fmt.Sprintf("+%.3f", l.at.Seconds()), at)) + "  " +
					style.Render(text.Left(l.kind, kind)) + "  "
			}
			out = append(out, head+style.Render(words))
		}
	}
	if t.cut {
		out = append(out, t.style.Rest.Render("  The journal goes on; only its first entries are kept here."))
	}
	return out
}

// Keys are the keys of the page.
func (t *Task) Keys() []key.Binding {
	k := []key.Binding{t.keys.Back, keys.Words(t.keys.Down, "scroll"), t.keys.Bottom}
	if !t.task.State.Terminal() {
		k = append([]key.Binding{t.keys.Back, t.keys.Cancel}, k[1:]...)
	}
	return k
}

// Typing is never so here.
func (t *Task) Typing() bool { return false }
