package pages

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/fleet"
	"interlock.sh/tui/components"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Machine shows one machine: its facts, its model processes, its recent telemetry, and the log of the
// chosen process.
type Machine struct {
	style  look.Style
	keys   keys.Map
	detail fleet.MachineDetail
	now    time.Time
	table  components.Table
	log    components.Scroll
}

// NewMachine is the page without a machine.
func NewMachine(style look.Style, k keys.Map) *Machine {
	return &Machine{
		style: style, keys: k, log: components.Scroll{Follow: true},
		table: components.Table{Style: style, Columns: processColumns, SortBy: -1},
	}
}

var processColumns = []components.Column{
	{Title: "MODEL", Min: 12, Max: 30, Keep: 9},
	{Title: "STATE", Min: 12, Max: 34, Keep: 8},
	{Title: "SLOTS", Min: 5, Max: 7, Right: true, Keep: 7},
	{Title: "TOK/S", Min: 5, Max: 7, Right: true, Keep: 6},
	{Title: "CONTEXT", Min: 7, Max: 9, Right: true, Keep: 2},
	{Title: "MEMORY", Min: 8, Max: 10, Right: true, Keep: 5},
	{Title: "PID", Min: 5, Max: 8, Right: true, Keep: 3},
	{Title: "RESTARTS", Min: 8, Max: 10, Right: true, Keep: 1},
	{Title: "READY FOR", Min: 9, Max: 11, Right: true, Keep: 4},
}

// Set gives the page a machine as it is now. Another machine starts at the end of its log.
func (m *Machine) Set(d fleet.MachineDetail, now time.Time) {
	if d.Machine.ID != m.detail.Machine.ID {
		m.log.Reset()
	}
	m.detail, m.now = d, now
	rows := make([]components.Row, len(d.Machine.Deployments))
	for i, p := range d.Machine.Deployments {
		rows[i] = m.row(p)
	}
	m.table.SetRows(rows)
}

func (m *Machine) row(p fleet.DeploymentReport) components.Row {
	words, style := stateWords(m.style, p.State)
	if p.Total > 0 && p.State.Kind == fleet.StateDownloading {
		words += fmt.Sprintf(" %d%% of %s", p.Downloaded*100/p.Total, text.Bytes(&p.Total))
	}
	ready := text.Unknown
	if p.ReadySince != nil && p.State.Serving() {
		ready = text.Duration(m.now.Sub(*p.ReadySince))
	}
	plain, dim := m.style.Plain, m.style.Dim
	return components.Row{ID: p.ID, Cells: []components.Cell{
		{Text: text.Clean(p.Alias), Style: plain},
		{Text: words, Style: style},
		{Text: slotWords(p.Busy, p.Slots, p.Slots > 0 && p.State.Serving()), Style: plain},
		{Text: text.Number(p.TokensPerSecond), Style: plain},
		{Text: positive(p.ContextLength), Style: dim},
		{Text: text.Bytes(p.MemoryBytes), Style: plain},
		{Text: positive(p.Pid), Style: dim},
		{Text: fmt.Sprint(p.Restarts), Style: dim},
		{Text: ready, Style: dim},
	}}
}

func positive(n int) string {
	if n <= 0 {
		return text.Unknown
	}
	return fmt.Sprint(n)
}

// Key chooses a process, scrolls its log, goes back, and asks for actions.
func (m *Machine) Key(k tea.KeyMsg) tea.Msg {
	switch {
	case key.Matches(k, m.keys.Back):
		return Back{}
	case key.Matches(k, m.keys.PageUp):
		m.log.Page(-1)
	case key.Matches(k, m.keys.PageDown):
		m.log.Page(1)
	case key.Matches(k, m.keys.Open):
	case moveTable(&m.table, m.keys, k):
		m.log.Reset()
	default:
		return machineKey(m.keys, k, m.detail.Machine)
	}
	return nil
}

// View draws facts, processes, telemetry and log; in little room the facts give way first.
func (m *Machine) View(w, h int) string {
	mc := m.detail.Machine
	words, style := machineWords(m.style, mc)
	lines := []string{
		text.Ends(m.style.Strong.Render(text.Cut(nameOf(mc), w/2))+"  "+style.Render(words), m.style.Dim.Render("seen "+text.Ago(m.now, mc.LastSeen)), w),
	}
	facts := components.Facts(m.style, m.facts(), w)
	room := 3
	switch {
	case h < 24:
		room = 2
	case h >= 26:
		room = 4
	}
	lines = append(lines, facts[:min(len(facts), room)]...)
	for _, warning := range mc.Warnings[:min(len(mc.Warnings), max(h/12, 1))] {
		lines = append(lines, text.Left(m.style.Rest.Render("! "+text.Clean(warning)), w))
	}
	lines = append(lines, components.Rule(m.style, "Processes", text.Count(len(mc.Deployments), "process", "processes"), w))
	if m.table.Len() == 0 {
		lines = append(lines, text.Left(m.style.Dim.Render("  none: nothing is deployed to this group; interlock models deploy starts one"), w))
	} else {
		rows := min(m.table.Len(), max(h/5, 2))
		lines = append(lines, strings.Split(m.table.View(w, rows+1), "\n")...)
	}
	lines = append(lines, m.telemetry(w, h)...)
	lines = append(lines, m.logTail(w, h-len(lines))...)
	return text.Block(lines, w, h)
}

func (m *Machine) facts() []components.Fact {
	mc, h := m.detail.Machine, m.detail.Machine.Host
	gpu := text.Unknown
	if len(h.GPUs) > 0 {
		gpu = text.Clean(h.GPUs[0].Name)
		if len(h.GPUs) > 1 {
			gpu += fmt.Sprintf(" +%d", len(h.GPUs)-1)
		}
		if h.GPUs[0].MemoryTotal != nil {
			gpu += " " + text.Share(used(h.GPUs[0]), h.GPUs[0].MemoryTotal)
		}
	}
	server := text.Unknown
	if mc.Server != nil {
		server = text.Clean(strings.TrimSpace(string(mc.Runtime) + " " + mc.Server.Version))
		if len(mc.Server.Devices) == 0 {
			server += ", CPU only"
		}
	}
	return []components.Fact{
		{Label: "memory", Value: memoryWords(h)},
		{Label: "host", Value: text.Or(hostWords(h))},
		{Label: "server", Value: server},
		{Label: "gpu", Value: gpu},
		{Label: "group", Value: groupRole(mc)},
		{Label: "cpu", Value: text.Or(text.Clean(h.CPU))},
		{Label: "disk free", Value: text.Bytes(h.DiskFree)},
		{Label: "agent", Value: text.Or(text.Clean(mc.Version))},
		{Label: "enrolled", Value: text.Ago(m.now, &mc.EnrolledAt)},
		{Label: "hours", Value: hoursWords(mc.Hours, m.now)},
	}
}

func used(g fleet.GPU) *int64 {
	if g.MemoryTotal == nil || g.MemoryFree == nil {
		return nil
	}
	n := max(*g.MemoryTotal-*g.MemoryFree, 0)
	return &n
}

// telemetry draws one sparkline a figure: one line in little room, three else.
func (m *Machine) telemetry(w, h int) []string {
	samples := m.detail.Samples
	lines := []string{components.Rule(m.style, "Telemetry", m.span(), w)}
	if len(samples) == 0 {
		return append(lines, text.Left(m.style.Dim.Render("  none yet: figures come with the machine's reports"), w))
	}
	var rate, busy, free []*float64
	slots, whole := 0, 0.0
	if total := m.detail.Machine.Host.MemoryTotal; total != nil {
		whole = float64(*total)
	}
	for _, s := range samples {
		rate = append(rate, s.TokensPerSecond)
		b := float64(s.Busy)
		busy = append(busy, &b)
		slots = max(slots, s.Slots)
		var f *float64
		if s.MemoryFree != nil {
			v := float64(*s.MemoryFree)
			f = &v
		}
		free = append(free, f)
	}
	last := samples[len(samples)-1]
	line := func(label, now string, figures []*float64, top float64) string {
		return text.Left(m.style.Dim.Render(text.Left(label, 13))+m.style.Accent.Render(components.Spark(figures, w-24, top))+" "+now, w)
	}
	lines = append(lines, line("tokens/s", text.Number(last.TokensPerSecond), rate, 0))
	if h < 24 {
		return lines
	}
	busyNow := text.Unknown
	if last.Slots > 0 {
		busyNow = fmt.Sprintf("%d/%d", last.Busy, last.Slots)
	}
	return append(lines,
		line("busy slots", busyNow, busy, float64(slots)),
		line("memory free", text.Bytes(last.MemoryFree), free, whole))
}

func (m *Machine) span() string {
	s := m.detail.Samples
	if len(s) < 2 {
		return ""
	}
	return "last " + text.Duration(s[len(s)-1].At.Sub(s[0].At))
}

func (m *Machine) logTail(w, h int) []string {
	if h < 2 {
		return nil
	}
	var d fleet.DeploymentReport
	row, ok := m.table.Selected()
	for _, p := range m.detail.Machine.Deployments {
		if ok && p.ID == row.ID {
			d = p
		}
	}
	var lines []string
	if d.LastError != "" {
		lines = append(lines, text.Left(m.style.Bad.Render("last error: "+text.Clean(d.LastError)), w))
	}
	var body []string
	for _, l := range d.Log {
		body = append(body, text.Lines(l)...)
	}
	if len(body) == 0 {
		body = []string{m.style.Dim.Render("  no lines yet")}
	}
	view := m.log.View(body, w, h-1-len(lines))
	title := "Log"
	if d.Alias != "" {
		title += " of " + text.Cut(text.Clean(d.Alias), w/2)
	}
	out := append([]string{components.Rule(m.style, title, m.log.Position(), w)}, lines...)
	return append(out, strings.Split(view, "\n")...)
}

// Keys are the keys of the page.
func (m *Machine) Keys() []key.Binding {
	return []key.Binding{
		m.keys.Back, m.keys.Pause, m.keys.Resume, m.keys.Drain,
		keys.Words(m.keys.Down, "process"), keys.Words(m.keys.ScrollDn, "log"),
	}
}

// Typing is never so here.
func (m *Machine) Typing() bool { return false }
