package pages

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
	"interlock.sh/tui/components"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Fleet lists the machines.
type Fleet struct {
	style  look.Style
	keys   keys.Map
	table  components.Table
	filter components.Filter
	all    []fleet.Machine
	byID   map[string]fleet.Machine
	recent recent
	now    time.Time
}

// NewFleet is the page without machines.
func NewFleet(style look.Style, k keys.Map) *Fleet {
	return &Fleet{
		style: style, keys: k, filter: components.NewFilter(style, k), byID: map[string]fleet.Machine{}, recent: newRecent(style),
		table: components.Table{Style: style, Columns: fleetColumns},
	}
}

var fleetColumns = []components.Column{
	{Title: "MACHINE", Min: 12, Max: 30, Keep: 9},
	{Title: "GROUP/ROLE", Min: 12, Max: 28, Keep: 3},
	{Title: "STATE", Min: 18, Max: 32, Keep: 8},
	{Title: "MODEL", Min: 10, Max: 28, Keep: 4},
	{Title: "SLOTS", Min: 5, Max: 7, Right: true, Keep: 7},
	{Title: "TOK/S", Min: 5, Max: 7, Right: true, Keep: 6},
	{Title: "MEMORY", Min: 11, Max: 15, Right: true, Keep: 2},
	{Title: "VERSION", Min: 7, Max: 10, Keep: 1},
	{Title: "SEEN", Min: 9, Max: 10, Right: true, Keep: 5},
}

// Set gives the page the machines as they are now.
func (f *Fleet) Set(ms []fleet.Machine, now time.Time) {
	f.all, f.now = ms, now
	clear(f.byID)
	for _, m := range ms {
		f.byID[m.ID] = m
	}
	f.refresh()
}

// SetRecent gives the page the newest tasks.
func (f *Fleet) SetRecent(list []tasks.View, names map[string]string, now time.Time) {
	f.recent.set(list, names, now)
}

// Selected is the chosen machine.
func (f *Fleet) Selected() (fleet.Machine, bool) {
	row, ok := f.table.Selected()
	if !ok {
		return fleet.Machine{}, false
	}
	m, ok := f.byID[row.ID]
	return m, ok
}

func (f *Fleet) refresh() {
	shown := make([]fleet.Machine, 0, len(f.all))
	for _, m := range f.all {
		if f.filter.Match(nameOf(m), groupRole(m), m.State.String(), modelWords(m), m.Version, m.ID) {
			shown = append(shown, m)
		}
	}
	sortMachines(shown, f.table.SortBy, f.table.Desc)
	rows := make([]components.Row, len(shown))
	for i, m := range shown {
		rows[i] = f.row(m)
	}
	f.table.SetRows(rows)
}

func (f *Fleet) row(m fleet.Machine) components.Row {
	words, style := machineWords(f.style, m)
	plain, dim := f.style.Plain, f.style.Dim
	return components.Row{ID: m.ID, Cells: []components.Cell{
		{Text: nameOf(m), Style: plain},
		{Text: groupRole(m), Style: dim},
		{Text: words, Style: style},
		{Text: models(m), Style: plain},
		{Text: slotWords(load(m)), Style: plain},
		{Text: text.Number(speed(m)), Style: plain},
		{Text: memoryWords(m.Host), Style: plain},
		{Text: text.Or(text.Clean(m.Version)), Style: dim},
		{Text: text.Ago(f.now, m.LastSeen), Style: dim},
	}}
}

// Key moves, sorts, filters, opens, and asks for actions on the chosen machine.
func (f *Fleet) Key(k tea.KeyMsg) tea.Msg {
	if f.filter.Typing() {
		f.filter.Key(k)
		f.refresh()
		return nil
	}
	if moveTable(&f.table, f.keys, k) {
		return nil
	}
	switch {
	case key.Matches(k, f.keys.Filter):
		f.filter.Open()
	case key.Matches(k, f.keys.Clear):
		f.filter.Clear()
		f.refresh()
	case key.Matches(k, f.keys.Sort):
		f.table.SortBy = (f.table.SortBy + 1) % len(fleetColumns)
		f.refresh()
	case key.Matches(k, f.keys.Reverse):
		f.table.Desc = !f.table.Desc
		f.refresh()
	default:
		if m, ok := f.Selected(); ok {
			return machineKey(f.keys, k, m)
		}
	}
	return nil
}

func machineKey(km keys.Map, k tea.KeyMsg, m fleet.Machine) tea.Msg {
	switch {
	case key.Matches(k, km.Open):
		return OpenMachine{ID: m.ID}
	case key.Matches(k, km.Pause):
		return actOn(m, nameOf(m), client.MachinePause)
	case key.Matches(k, km.Resume):
		return actOn(m, nameOf(m), client.MachineResume)
	case key.Matches(k, km.Drain):
		return actOn(m, nameOf(m), client.MachineDrain)
	}
	return nil
}

// moveTable takes the keys that move the choice.
func moveTable(t *components.Table, km keys.Map, k tea.KeyMsg) bool {
	switch {
	case key.Matches(k, km.Up):
		t.Move(-1)
	case key.Matches(k, km.Down):
		t.Move(1)
	case key.Matches(k, km.PageUp):
		t.Page(-1)
	case key.Matches(k, km.PageDown):
		t.Page(1)
	case key.Matches(k, km.Top):
		t.Move(-t.Len())
	case key.Matches(k, km.Bottom):
		t.Move(t.Len())
	default:
		return false
	}
	return true
}

// View draws the table, the filter when there is one, and the chosen machine in full.
func (f *Fleet) View(w, h int) string {
	var top, bottom []string
	if f.filter.Typing() || f.filter.Active() {
		top = append(top, f.filter.View(f.table.Len(), len(f.all), w))
	}
	if m, ok := f.Selected(); ok && h >= 10 {
		bottom = f.detail(m, w)
	}
	if f.table.Len() > 0 {
		bottom = append(f.recent.lines(w, h-len(top)-len(bottom)-f.table.Len()-1), bottom...)
	}
	room := h - len(top) - len(bottom)
	var middle string
	if f.table.Len() == 0 {
		middle = components.Panel(f.style, look.MarkRest, "No machine matches “"+f.filter.Value()+"”",
			[]components.Step{components.Say("Press esc to see all " + text.Count(len(f.all), "machine", "machines") + " again.")}, w, room)
	} else {
		middle = f.table.View(w, room)
	}
	return strings.Join(append(append(top, middle), bottom...), "\n")
}

// detail is the chosen machine in three lines, with what columns had to leave out.
func (f *Fleet) detail(m fleet.Machine, w int) []string {
	words, style := machineWords(f.style, m)
	note := ""
	if len(m.Warnings) > 0 {
		note = f.style.Rest.Render("! " + text.Clean(m.Warnings[0]))
	}
	for _, d := range m.Deployments {
		if d.LastError != "" {
			note = f.style.Bad.Render(text.Clean(d.LastError))
		}
	}
	facts := []string{"memory " + memoryWords(m.Host)}
	if m.Hours != nil && (!m.Hours.Open || m.Hours.Next != nil) {
		facts = append(facts, "hours "+hoursWords(m.Hours, f.now))
	}
	facts = append(facts, "version "+text.Or(text.Clean(m.Version)))
	if note == "" {
		facts = append(facts, hostWords(m.Host))
	}
	second := text.Cut(modelWords(m), max(w-40, 20)) + "  " + f.style.Dim.Render(strings.Join(facts, "  "))
	if note != "" {
		second = note
	}
	return []string{
		components.Rule(f.style, text.Cut(nameOf(m), w/2), "seen "+text.Ago(f.now, m.LastSeen), w),
		text.Left(style.Render(words)+"  "+f.style.Dim.Render(groupRole(m)), w),
		text.Left(second, w),
	}
}

// modelWords are the models of a machine, each with what it does unless it answers.
func modelWords(m fleet.Machine) string {
	words := make([]string, len(m.Deployments))
	for i, d := range m.Deployments {
		words[i] = oneModel(d)
	}
	if len(words) == 0 {
		return "no model assigned"
	}
	return strings.Join(words, ", ")
}

// hostWords describes the computer in a few words.
func hostWords(h fleet.HostFacts) string {
	var words []string
	if s := strings.Trim(h.OS+"/"+h.Arch, "/"); s != "" {
		words = append(words, text.Clean(s))
	}
	if h.Cores > 0 {
		words = append(words, text.Count(h.Cores, "core", "cores"))
	}
	return strings.Join(words, ", ")
}

// Summary counts the machines by what their states mean, for the head of the screen.
func (f *Fleet) Summary(wide bool) string {
	counts := map[string]int{}
	serving := 0
	for _, m := range f.all {
		mark, _ := f.style.Machine(m.State)
		counts[mark]++
		if m.State.Serving() {
			serving++
		}
	}
	switch {
	case len(f.all) == 0:
		return ""
	case !wide:
		return f.style.Dim.Render(fmt.Sprintf("%d of %d serving", serving, len(f.all)))
	}
	parts := []string{f.style.Dim.Render(text.Count(len(f.all), "machine", "machines"))}
	for _, p := range []struct {
		mark, words string
		style       lipgloss.Style
	}{
		{look.MarkGood, "serving", f.style.Good}, {look.MarkWork, "under way", f.style.Work},
		{look.MarkRest, "at rest", f.style.Rest}, {look.MarkBad, "in trouble", f.style.Bad},
	} {
		if n := counts[p.mark]; n > 0 {
			parts = append(parts, p.style.Render(fmt.Sprintf("%s %d %s", p.mark, n, p.words)))
		}
	}
	return strings.Join(parts, "  ")
}

// Keys are the keys of the page.
func (f *Fleet) Keys() []key.Binding {
	if f.filter.Typing() {
		return []key.Binding{f.keys.Accept, f.keys.Clear}
	}
	k := []key.Binding{f.keys.Filter, f.keys.Pause, f.keys.Resume, f.keys.Drain, f.keys.Open, f.keys.Sort, f.keys.Reverse, f.keys.Down}
	if f.filter.Active() {
		k = append([]key.Binding{f.keys.Clear}, k...)
	}
	return k
}

// Typing reports whether the filter takes the keys.
func (f *Fleet) Typing() bool { return f.filter.Typing() }
