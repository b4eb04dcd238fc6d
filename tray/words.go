package tray

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"interlock.sh/fleet"
)

// NeedsNewer is what is said of a choice that an older agent does not know.
const NeedsNewer = "needs a newer agent"

// longest is how many characters of a name or a reason a menu shows.
const longest = 60

// Plain makes text of others fit one line: no control or direction characters, not too long.
func Plain(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > longest {
		s = strings.TrimSpace(string(r[:longest-1])) + "…"
	}
	return s
}

// short fits text into a width by leaving out its middle: of two long names, beginning and end tell them apart.
func short(s string, width int) string {
	r := []rune(s)
	if len(r) <= width {
		return s
	}
	head := (width - 1) / 2
	return string(r[:head]) + "…" + string(r[len(r)-(width-1-head):])
}

// Capital is text that begins a line.
func Capital(s string) string {
	first, rest := utf8.DecodeRuneInString(s)
	if rest == 0 {
		return s
	}
	return string(unicode.ToUpper(first)) + s[rest:]
}

// Title is an agent's name among all: the group and the role, with the origin where two would look alike.
func (s Snapshot) Title(a Agent) string {
	name := Plain(a.GroupName)
	if name == "" {
		name = Plain(a.Key.Group)
	}
	alike := slices.ContainsFunc(s.Agents, func(b Agent) bool {
		return b.Key.Group != a.Key.Group && Plain(b.GroupName) == name && b.Key.Role == a.Key.Role
	})
	if !alike {
		return fmt.Sprintf("%s (%s)", name, a.Key.Role)
	}
	return fmt.Sprintf("%s (%s at %s)", name, a.Key.Role, host(a.Origin))
}

func host(origin string) string {
	if u, err := url.Parse(origin); err == nil && u.Host != "" {
		return u.Host
	}
	return Plain(origin)
}

// Words is an agent's state as it is shown.
func (a Agent) Words() string {
	switch a.Reach {
	case Asking:
		return "asking the agent…"
	case Stopped:
		return "the agent does not run"
	case Answers:
		if a.Status.Words != "" {
			return Plain(a.Status.Words)
		}
		return a.Status.State.String()
	}
	return Plain(a.Why)
}

// Models are the agent's models, a line each: name, state, speed, slots.
func (a Agent) Models() []string {
	if a.Reach != Answers {
		return nil
	}
	var out []string
	for _, d := range a.Status.Report.Deployments {
		line := Plain(d.Alias) + ": " + Plain(d.State.String())
		if d.State.Kind == fleet.StateDownloading && d.Total > 0 {
			line += fmt.Sprintf(", %d%%", min(100, d.Downloaded*100/d.Total))
		}
		if d.State.Serving() {
			if d.TokensPerSecond != nil {
				line += ", " + speed(*d.TokensPerSecond)
			}
			if d.Slots > 0 {
				line += fmt.Sprintf(", %d of %d busy", d.Busy, d.Slots)
			}
		}
		out = append(out, line)
	}
	return out
}

// Speed is that of the agent's fastest serving model, "" when none is known.
func (a Agent) Speed() string {
	best := 0.0
	for _, d := range a.Status.Report.Deployments {
		if d.State.Serving() && d.TokensPerSecond != nil {
			best = max(best, *d.TokensPerSecond)
		}
	}
	if a.Reach != Answers || best == 0 {
		return ""
	}
	return speed(best)
}

func speed(tps float64) string {
	if tps < 10 {
		return fmt.Sprintf("%.1f tok/s", tps)
	}
	return fmt.Sprintf("%.0f tok/s", tps)
}

// Mood is what the picture in the bar says.
type Mood string

// The moods, from the one that is shown first when several hold.
const (
	Trouble Mood = "needs attention"
	Working Mood = "working"
	Coming  Mood = "starting"
	Idle    Mood = "idle"
	Resting Mood = "paused"
)

var moods = []Mood{Trouble, Working, Coming, Idle, Resting}

// Mood is what one agent is at.
func (a Agent) Mood() Mood {
	switch a.Reach {
	case Asking:
		return Coming
	case Stopped, Silent, Foreign:
		return Trouble
	}
	switch a.Status.State.Kind {
	case fleet.StateReady, fleet.StateFull, fleet.StateDraining:
		return Working
	case fleet.StateEnrolling, fleet.StateDownloading, fleet.StateLoading:
		return Coming
	case fleet.StatePaused:
		return Resting
	case fleet.StateIdle:
		return Idle
	}
	return Trouble // blocked, parked, unsupported, offline, and a word that a newer agent says
}

// Mood is that of the machine.
func (s Snapshot) Mood() Mood {
	if len(s.Broken) > 0 {
		return Trouble
	}
	for _, m := range moods {
		if slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Mood() == m }) {
			return m
		}
	}
	return Idle
}

// Summary is the machine in one line.
func (s Snapshot) Summary() string {
	switch {
	case !s.Loaded:
		return "Looking for agents…"
	case len(s.Agents) == 0 && len(s.Broken) == 0:
		return "This machine is in no model group"
	}
	var parts []string
	for _, m := range moods {
		n := 0
		if m == Trouble {
			n = len(s.Broken)
		}
		for _, a := range s.Agents {
			if a.Mood() == m {
				n++
			}
		}
		switch {
		case n == 0:
		case m == Trouble && n > 1:
			parts = append(parts, fmt.Sprintf("%d need attention", n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, m))
		}
	}
	return strings.Join(parts, ", ")
}

// UpdateWords is the updater's news as it is shown.
func UpdateWords(u fleet.UpdateReport, known bool) string {
	if !known {
		return "No news of updates yet"
	}
	v, why := Plain(u.Version), ""
	if u.Why != "" {
		why = ": " + Plain(u.Why)
	}
	switch u.State {
	case "current":
		return strings.TrimSpace("Up to date " + v)
	case "available":
		return "Version " + v + " is available" + why
	case "waiting":
		return "Version " + v + " waits" + why
	case "staged":
		return "Version " + v + " is downloaded" + why
	case "watching":
		return "Version " + v + " is being watched" + why
	case "reverted":
		return "Version " + v + " was taken back" + why
	case "stopped":
		return "Updates have stopped" + why
	case "none":
		return "No signed releases are offered to this machine yet"
	}
	return strings.TrimSpace(Plain(u.State)+" "+v) + why
}
