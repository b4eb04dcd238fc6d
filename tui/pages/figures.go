package pages

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/lipgloss"

	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// nameOf is what people call a machine, cleaned.
func nameOf(m fleet.Machine) string {
	if n := strings.TrimSpace(text.Clean(m.Name)); n != "" {
		return n
	}
	return text.Clean(m.ID)
}

func groupRole(m fleet.Machine) string {
	name := m.GroupName
	if name == "" {
		name = m.Group
	}
	return text.Clean(name) + "/" + text.Clean(string(m.Role))
}

// models names the machine's model and counts the others. On a machine that serves, a model that
// answers is named, and those that do not are counted apart; on one that does not, its state says so.
func models(m fleet.Machine) string {
	if len(m.Deployments) == 0 {
		return text.Unknown
	}
	named, serving := m.Deployments[0], 0
	for _, d := range m.Deployments {
		if !d.State.Serving() {
			continue
		}
		if serving == 0 {
			named = d
		}
		serving++
	}
	words, more, idle := text.Clean(named.Alias), len(m.Deployments)-1, 0
	if serving > 0 {
		more, idle = serving-1, len(m.Deployments)-serving
	}
	if more > 0 {
		words += fmt.Sprintf(" +%d", more)
	}
	if idle > 0 {
		words += fmt.Sprintf(" (%d not ready)", idle)
	}
	return words
}

// oneModel is a model with what it does unless it answers.
func oneModel(d fleet.DeploymentReport) string {
	alias := text.Clean(d.Alias)
	switch {
	case d.State.Serving():
		return alias
	case d.State.Kind == fleet.StateDownloading && d.Total > 0:
		return fmt.Sprintf("%s (%s %d%%)", alias, d.State.Kind, d.Downloaded*100/d.Total)
	}
	return fmt.Sprintf("%s (%s)", alias, d.State.Kind)
}

// load is how many slots of serving models are busy, of how many. Without a serving model nothing is
// known.
func load(m fleet.Machine) (busy, slots int, known bool) {
	for _, d := range m.Deployments {
		if d.State.Serving() && d.Slots > 0 {
			busy, slots, known = busy+d.Busy, slots+d.Slots, true
		}
	}
	return busy, slots, known
}

func slotWords(busy, slots int, known bool) string {
	if !known {
		return text.Unknown
	}
	return fmt.Sprintf("%d/%d", busy, slots)
}

// speed is the rate of the first model that has one: rates of several models are no sum.
func speed(m fleet.Machine) *float64 {
	for _, d := range m.Deployments {
		if d.TokensPerSecond != nil {
			return d.TokensPerSecond
		}
	}
	return nil
}

func memoryUsed(h fleet.HostFacts) *int64 {
	if h.MemoryTotal == nil || h.MemoryFree == nil {
		return nil
	}
	used := max(*h.MemoryTotal-*h.MemoryFree, 0)
	return &used
}

func memoryWords(h fleet.HostFacts) string { return text.Share(memoryUsed(h), h.MemoryTotal) }

// stateWords is a state with its mark, and the style of both.
func stateWords(s look.Style, state fleet.State) (string, lipgloss.Style) {
	mark, style := s.Machine(state)
	return mark + " " + text.Clean(state.String()), style
}

// machineWords is the state of a machine; what was asked of it and is not yet so stands behind.
func machineWords(s look.Style, m fleet.Machine) (string, lipgloss.Style) {
	words, style := stateWords(s, m.State)
	switch {
	case m.Mode == fleet.Draining && m.State.Kind != fleet.StateDraining:
		words += ", drain asked"
	case m.Mode == fleet.Paused && m.State.Kind != fleet.StatePaused:
		words += ", pause asked"
	}
	return words, style
}

// rank orders states by how much they want a person.
func rank(state fleet.State) int {
	order := []fleet.StateKind{
		fleet.StateParked, fleet.StateBlocked, fleet.StateUnsupported, fleet.StateOffline, fleet.StatePaused,
		fleet.StateDraining, fleet.StateEnrolling, fleet.StateDownloading, fleet.StateLoading, fleet.StateIdle,
		fleet.StateFull, fleet.StateReady,
	}
	for i, k := range order {
		if k == state.Kind {
			return i
		}
	}
	return len(order)
}

// hoursWords is what the owner of a machine allows, and the next change, by the machine's own clock.
func hoursWords(h *fleet.Hours, now time.Time) string {
	if h == nil {
		return text.Unknown // an agent from before there were hours
	}
	words := text.Clean(h.Mode)
	next := ""
	if h.Next != nil {
		next = schedule.When(*h.Next, now.In(h.Next.Location()))
	}
	switch {
	case h.Open && next != "":
		return words + " until " + next
	case h.Open:
		return words
	case next != "":
		return words + ", starts " + next
	case h.Why != "":
		return words + ", " + text.Clean(h.Why)
	case h.Mode != string(schedule.Paused):
		return words + ", paused"
	}
	return words
}
