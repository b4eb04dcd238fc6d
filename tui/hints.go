package tui

import (
	"time"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/client"
)

// The kinds of hints name what changed in a project. Others, of a newer server, say nothing here.
const (
	hintMachines = "machines"
	hintTasks    = "tasks"
	hintRuns     = "runs"
)

type (
	hintMsg struct{ kind string }
	// dueMsg is a hint whose read was put off.
	dueMsg struct{ kind string }
)

func hintOf(e client.Event) tea.Msg { return hintMsg{kind: e.Event} }

// hints keeps a storm of hints from becoming a storm of reads: the first is a read at once, those that
// follow within the settling time are one more together.
type hints struct {
	last map[string]time.Time // of the newest read of a kind
	due  map[string]bool      // a read of the kind is put off
}

func newHints() hints { return hints{last: map[string]time.Time{}, due: map[string]bool{}} }

// hinted reads again what a hint speaks of, now or a little later.
func (a *App) hinted(kind string) tea.Cmd {
	switch kind {
	case hintMachines, hintTasks, hintRuns:
	default:
		return nil
	}
	if a.hints.due[kind] {
		return nil
	}
	if rest := settle - a.clock.Now().Sub(a.hints.last[kind]); rest > 0 {
		a.hints.due[kind] = true
		return func() tea.Msg { return a.wait(rest, dueMsg{kind}) }
	}
	return a.readHinted(kind)
}

// readHinted reads what is shown of a kind.
func (a *App) readHinted(kind string) tea.Cmd {
	a.hints.due[kind], a.hints.last[kind] = false, a.clock.Now()
	switch {
	case kind == hintMachines && a.page == MachinePage:
		return tea.Batch(a.readMachines(), a.readMachine())
	case kind == hintMachines:
		return a.readMachines()
	case a.page == FleetPage || a.page == TasksPage || a.page == TaskPage:
		return a.readPage()
	}
	return nil
}
