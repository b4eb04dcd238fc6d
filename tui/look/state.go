package look

import (
	"github.com/charmbracelet/lipgloss"

	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Marks stand before a state, so that columns can be read at a glance without colours.
const (
	MarkGood = "●"
	MarkWork = "◐"
	MarkRest = "○"
	MarkBad  = "✕"
)

// Machine is the mark and the style of a machine's or deployment's state. Full is as good as ready: it
// says that every slot is at work.
func (s Style) Machine(state fleet.State) (mark string, style lipgloss.Style) {
	switch state.Kind {
	case fleet.StateReady, fleet.StateFull:
		return MarkGood, s.Good
	case fleet.StateEnrolling, fleet.StateDownloading, fleet.StateLoading, fleet.StateDraining:
		return MarkWork, s.Work
	case fleet.StateBlocked, fleet.StateParked, fleet.StateUnsupported, fleet.StateOffline:
		return MarkBad, s.Bad
	case fleet.StatePaused:
		return MarkRest, s.Rest
	}
	return MarkRest, s.Dim // idle, and what a newer control plane may say
}

// Task is the mark and the style of a task's state. A state that is not known counts as live.
func (s Style) Task(state tasks.State) (mark string, style lipgloss.Style) {
	switch state {
	case tasks.Succeeded:
		return MarkGood, s.Good
	case tasks.Failed, tasks.Expired, tasks.OutcomeUnknown, tasks.Quarantined:
		return MarkBad, s.Bad
	case tasks.Cancelled:
		return MarkRest, s.Dim
	case tasks.Queued, tasks.Scheduled, tasks.Waiting:
		return MarkRest, s.Rest
	}
	return MarkWork, s.Work
}
