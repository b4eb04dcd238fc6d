package tray

import (
	"fmt"
	"net/url"
	"strings"

	"interlock.sh/fleet/schedule"
)

// Kind is what an item of a menu is.
type Kind int

// The kinds of items.
const (
	Entry     Kind = iota // something to click, or a line to read when it is not enabled
	Choice                // an entry with a mark
	Submenu               // opens Items
	Separator             // a line
)

// Item is one line of a menu.
type Item struct {
	Kind    Kind
	Label   string
	Enabled bool
	Checked bool // of a choice
	Hidden  bool // keeps its place for what may come, so that the menu need not be built anew
	Action  Action
	Items   []Item // of a submenu
}

// Verb is what a click asks for.
type Verb string

// The verbs. Those with a comment use more of the Action than the verb.
const (
	Nothing    Verb = ""
	Choose     Verb = "choose"    // Key, Mode
	Edit       Verb = "edit"      // Key: its hours and limits in the window
	Logs       Verb = "logs"      // Key: its log in the window
	Dashboard  Verb = "dashboard" // URL
	PauseAll   Verb = "pause-all"
	ResumeAll  Verb = "resume-all"
	CheckNow   Verb = "check-updates"
	ShowWindow Verb = "show"
	Updates    Verb = "updates"
	About      Verb = "about"
	Uninstall  Verb = "uninstall"
	Quit       Verb = "quit"
)

// Action is a click, as the app carries it out.
type Action struct {
	Verb Verb
	Key  Key
	Mode schedule.Mode
	URL  string
}

// Places that a menu keeps for what comes and goes. A machine with more roles gets the double.
const (
	rolePlaces   = 4
	modelPlaces  = 4
	brokenPlaces = 2
)

// titleWidth is how many characters of a group and its role a menu shows.
const titleWidth = 40

// Menu is the menu of a snapshot. Notice is a line of the app itself: what it does, or what failed.
func Menu(s Snapshot, notice string) []Item {
	out := []Item{line(s.Summary()), hiddenWhen(line(Plain(notice)), notice == "")}
	out = append(out, broken(s)...)
	if len(s.Agents) > 0 {
		out = append(out, Item{Kind: Separator})
		places := rolePlaces
		for places < len(s.Agents) {
			places *= 2
		}
		for i := range places {
			if i < len(s.Agents) {
				out = append(out, role(s, s.Agents[i]))
			} else {
				out = append(out, hiddenWhen(role(s, Agent{}), true))
			}
		}
	}
	return append(append(out, Item{Kind: Separator}), foot(s)...)
}

func line(label string) Item { return Item{Label: label} }

func entry(label string, a Action) Item { return Item{Label: label, Enabled: true, Action: a} }

func hiddenWhen(it Item, hidden bool) Item {
	it.Hidden = hidden
	return it
}

// broken are the enrollments that cannot be read; the last place counts those that have none.
func broken(s Snapshot) []Item {
	out := make([]Item, brokenPlaces)
	for i := range out {
		switch rest := len(s.Broken) - i; {
		case rest <= 0:
			out[i] = hiddenWhen(line(""), true)
		case i == brokenPlaces-1 && rest > 1:
			out[i] = line(fmt.Sprintf("and %d more that cannot be read", rest))
		default:
			out[i] = line(Plain(s.Broken[i]))
		}
	}
	return out
}

// role is the submenu of one agent.
func role(s Snapshot, a Agent) Item {
	label := short(s.Title(a), titleWidth) + ": " + a.Words()
	if v := a.Speed(); v != "" {
		label += ", " + v
	}
	items := models(a)
	items = append(items, hiddenWhen(line("Start it: interlock agent start"), a.Reach != Stopped))
	items = append(items, Item{Kind: Separator})
	items = append(items, choices(a)...)
	items = append(items, Item{Kind: Separator},
		dashboard(a.Origin),
		Item{Label: "Logs…", Enabled: a.Reach == Answers, Action: Action{Verb: Logs, Key: a.Key}})
	return Item{Kind: Submenu, Label: label, Enabled: true, Items: items}
}

func models(a Agent) []Item {
	lines := a.Models()
	if len(lines) == 0 { // a menu does not begin with a separator
		lines = []string{Capital(a.Words())}
	}
	out := make([]Item, modelPlaces)
	for i := range out {
		switch rest := len(lines) - i; {
		case rest <= 0:
			out[i] = hiddenWhen(line(""), true)
		case i == modelPlaces-1 && rest > 1:
			out[i] = line(fmt.Sprintf("and %d more", rest))
		default:
			out[i] = line(lines[i])
		}
	}
	return out
}

// choices are the owner's three, and the hours of the window.
func choices(a Agent) []Item {
	chosen, ask := a.Choice(), a.Reach == Answers
	choice := func(label string, mode schedule.Mode) Item {
		return Item{
			Kind: Choice, Label: label, Enabled: ask, Checked: ask && chosen == mode,
			Action: Action{Verb: Choose, Key: a.Key, Mode: mode},
		}
	}
	night := choice("10 PM–7 AM", schedule.Night)
	custom := choice("Custom hours…", schedule.Window)
	custom.Action = Action{Verb: Edit, Key: a.Key}
	if words := WindowWords(a.Status.Wish.Availability); ask && words != "" && chosen == schedule.Window {
		custom.Label = Plain("Custom hours: "+words) + "…"
	}
	if a.Older() {
		for _, it := range []*Item{&night, &custom} {
			it.Enabled, it.Label = false, strings.TrimSuffix(it.Label, "…")+" ("+NeedsNewer+")"
		}
	}
	return []Item{choice("Always", schedule.Always), night, choice("Paused", schedule.Paused), custom}
}

func dashboard(origin string) Item {
	return Item{Label: "Open dashboard", Enabled: Web(origin), Action: Action{Verb: Dashboard, URL: origin}}
}

// Web reports an address that a browser may be sent to: an origin comes from a file, and "open" would
// start any program for other schemes.
func Web(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

// foot is what is about the whole machine.
func foot(s Snapshot) []Item {
	pausable, held := false, Item{Label: "Resume all", Enabled: true, Action: Action{Verb: ResumeAll}, Hidden: true}
	for _, a := range s.Agents {
		pausable = pausable || (a.Reach == Answers && !a.Older())
		if h := a.Held(); h != nil && held.Hidden {
			held.Hidden = false
			if h.Until != nil {
				held.Label = "Resume all (paused until " + a.Clock(*h.Until).Format("15:04") + ")"
			}
		}
	}
	u, known := s.Update()
	return []Item{
		{Label: "Pause all for an hour", Enabled: pausable, Action: Action{Verb: PauseAll}},
		held,
		entry("Open Nightshift…", Action{Verb: ShowWindow}),
		{Kind: Separator},
		{Kind: Submenu, Label: "Updates", Enabled: true, Items: []Item{
			line(UpdateWords(u, known)),
			entry("Check now", Action{Verb: CheckNow}),
			entry("Show…", Action{Verb: Updates}),
		}},
		entry("About Nightshift…", Action{Verb: About}),
		entry("Quit", Action{Verb: Quit}),
		{Kind: Separator},
		entry("Uninstall Nightshift…", Action{Verb: Uninstall}),
	}
}
