package pages

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/client"
	"interlock.sh/tasks"
	"interlock.sh/tui/components"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// live chooses every task that may still change. It is no state of its own: the server is asked for
// all, and what is terminal is left out here, so that a state that this program does not know is live.
const live tasks.State = "live"

// Tasks lists the tasks.
type Tasks struct {
	style  look.Style
	keys   keys.Map
	table  components.Table
	filter components.Filter
	state  tasks.State // empty for all
	typ    string      // empty for all
	types  []string    // every type seen so far
	list   tasks.List
	byID   map[string]tasks.View
	names  map[string]string // machine id → name
	now    time.Time
}

// NewTasks is the page without tasks.
func NewTasks(style look.Style, k keys.Map) *Tasks {
	return &Tasks{
		style: style, keys: k, filter: components.NewFilter(style, k), byID: map[string]tasks.View{},
		table: components.Table{Style: style, Columns: taskColumns, SortBy: ageColumn},
	}
}

// Set gives the page the tasks as they are now, and the names of the machines that work on them.
func (t *Tasks) Set(list tasks.List, names map[string]string, now time.Time) {
	t.list, t.names, t.now = list, names, now
	clear(t.byID)
	for _, v := range list.Tasks {
		t.byID[v.ID] = v
		if !slices.Contains(t.types, v.Type) {
			t.types = append(t.types, v.Type)
			slices.Sort(t.types)
		}
	}
	t.refresh()
}

// Query is what the page wants to be read.
func (t *Tasks) Query() client.TaskFilter {
	f := client.TaskFilter{State: t.state, Type: t.typ, Limit: pageSize}
	if t.state == live {
		f.State = ""
	}
	return f
}

// pageSize is how many of the newest tasks are read. Older ones are found by their state or type.
const pageSize = 200

// Selected is the chosen task.
func (t *Tasks) Selected() (tasks.View, bool) {
	row, ok := t.table.Selected()
	if !ok {
		return tasks.View{}, false
	}
	v, ok := t.byID[row.ID]
	return v, ok
}

func (t *Tasks) refresh() {
	var shown []tasks.View
	for _, v := range t.list.Tasks {
		if t.state == live && v.State.Terminal() {
			continue
		}
		if t.filter.Match(v.ID, v.Type, string(v.State), t.worker(v), note(v), v.Pool) {
			shown = append(shown, v)
		}
	}
	t.sort(shown)
	rows := make([]components.Row, len(shown))
	for i, v := range shown {
		rows[i] = taskRow(t.style, v, t.names, t.now)
	}
	t.table.SetRows(rows)
}

// sort orders by a column; what is equal stays newest first, as it was read.
func (t *Tasks) sort(shown []tasks.View) {
	by := func(a, b tasks.View) int { return 0 }
	switch taskColumns[t.table.SortBy].Title {
	case "STATE":
		by = func(a, b tasks.View) int {
			return slices.Index(tasks.States, a.State) - slices.Index(tasks.States, b.State)
		}
	case "AGE":
		by = func(a, b tasks.View) int { return b.CreatedAt.Compare(a.CreatedAt) }
	case "TOOK":
		by = func(a, b tasks.View) int { return cmp.Compare(took(a, t.now), took(b, t.now)) }
	case "TRY":
		by = func(a, b tasks.View) int { return a.Attempts - b.Attempts }
	case "WORKER":
		by = func(a, b tasks.View) int { return strings.Compare(t.worker(a), t.worker(b)) }
	case "TYPE":
		by = func(a, b tasks.View) int { return strings.Compare(a.Type, b.Type) }
	case "TASK":
		by = func(a, b tasks.View) int { return strings.Compare(a.ID, b.ID) }
	case "NOTE":
		by = func(a, b tasks.View) int { return strings.Compare(note(a), note(b)) }
	}
	slices.SortStableFunc(shown, func(a, b tasks.View) int {
		if t.table.Desc {
			return -by(a, b)
		}
		return by(a, b)
	})
}

func (t *Tasks) worker(v tasks.View) string { return workerName(v.WorkerID, t.names) }

// Key moves, filters by state and type, opens, and asks for a cancel.
func (t *Tasks) Key(k tea.KeyMsg) tea.Msg {
	if t.filter.Typing() {
		t.filter.Key(k)
		t.refresh()
		return nil
	}
	if moveTable(&t.table, t.keys, k) {
		return nil
	}
	switch {
	case key.Matches(k, t.keys.Filter):
		t.filter.Open()
	case key.Matches(k, t.keys.Clear):
		t.filter.Clear()
		t.state, t.typ = "", ""
		t.refresh()
		return QueryTasks{Filter: t.Query()}
	case key.Matches(k, t.keys.State):
		t.state = next(append([]tasks.State{"", live}, tasks.States...), t.state)
		t.refresh()
		return QueryTasks{Filter: t.Query()}
	case key.Matches(k, t.keys.Type):
		t.typ = next(append([]string{""}, t.types...), t.typ)
		t.refresh()
		return QueryTasks{Filter: t.Query()}
	case key.Matches(k, t.keys.Sort):
		t.table.SortBy = (t.table.SortBy + 1) % len(taskColumns)
		t.refresh()
	case key.Matches(k, t.keys.Reverse):
		t.table.Desc = !t.table.Desc
		t.refresh()
	case key.Matches(k, t.keys.Open):
		if v, ok := t.Selected(); ok {
			return OpenTask{ID: v.ID}
		}
	case key.Matches(k, t.keys.Cancel):
		if v, ok := t.Selected(); ok && !v.State.Terminal() {
			return cancelTask(v, text.Clean(v.Type)+" "+text.Clean(v.ID))
		}
	}
	return nil
}

func next[T comparable](all []T, v T) T { return all[(slices.Index(all, v)+1)%len(all)] }

// View draws what is asked for, and the tasks.
func (t *Tasks) View(w, h int) string {
	lines := []string{t.asked(w)}
	if t.filter.Typing() || t.filter.Active() {
		lines = append(lines, t.filter.View(t.table.Len(), len(t.list.Tasks), w))
	}
	room := h - len(lines)
	if t.table.Len() > 0 {
		return strings.Join(append(lines, t.table.View(w, room)), "\n")
	}
	title, steps := "No task here", []components.Step{components.Say("Press esc to see all tasks again.")}
	if t.state == "" && t.typ == "" && !t.filter.Active() {
		title = "No task yet"
		steps = []components.Step{
			components.Say("Every question to a model is a task. Ask one on page 3, or from a shell:"),
			components.Say(""), components.Run(`interlock ask "Say hello" --model MODEL`),
		}
	}
	return strings.Join(append(lines, components.Panel(t.style, look.MarkRest, title, steps, w, room)), "\n")
}

func (t *Tasks) asked(w int) string {
	state, typ := "all", "all"
	if t.state != "" {
		state = string(t.state)
	}
	if t.typ != "" {
		typ = text.Clean(t.typ)
	}
	left := t.style.Dim.Render("state ") + t.style.Strong.Render(state) + t.style.Dim.Render("   type ") + t.style.Strong.Render(text.Cut(typ, 28))
	right := text.Count(t.table.Len(), "task", "tasks")
	if t.list.Next != "" {
		right = fmt.Sprintf("newest %d", len(t.list.Tasks))
	}
	return text.Ends(left, t.style.Dim.Render(right), w)
}

// Keys are the keys of the page.
func (t *Tasks) Keys() []key.Binding {
	if t.filter.Typing() {
		return []key.Binding{t.keys.Accept, t.keys.Clear}
	}
	k := []key.Binding{t.keys.Filter, t.keys.State, t.keys.Type, t.keys.Cancel, t.keys.Open, t.keys.Sort, t.keys.Reverse, t.keys.Down}
	if t.filter.Active() || t.state != "" || t.typ != "" {
		k = append([]key.Binding{keys.Words(t.keys.Clear, "show all")}, k...)
	}
	return k
}

// Typing reports whether the filter takes the keys.
func (t *Tasks) Typing() bool { return t.filter.Typing() }
