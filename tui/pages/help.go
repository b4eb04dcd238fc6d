package pages

import (
	"fmt"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/fleet"
	"interlock.sh/tui/components"
	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Help lists the keys and says what the states mean.
type Help struct {
	style  look.Style
	keys   keys.Map
	scroll components.Scroll
}

// NewHelp is the page at its top.
func NewHelp(style look.Style, k keys.Map) *Help { return &Help{style: style, keys: k} }

// Key scrolls.
func (p *Help) Key(k tea.KeyMsg) tea.Msg {
	switch {
	case key.Matches(k, p.keys.Up):
		p.scroll.Move(-1)
	case key.Matches(k, p.keys.Down):
		p.scroll.Move(1)
	case key.Matches(k, p.keys.PageUp):
		p.scroll.Page(-1)
	case key.Matches(k, p.keys.PageDown):
		p.scroll.Page(1)
	case key.Matches(k, p.keys.Back):
		return Back{}
	}
	return nil
}

// View draws two columns where there is room, else one.
func (p *Help) View(w, h int) string {
	left, right := p.keyLines(), p.stateLines()
	if w < 96 {
		return p.scroll.View(append(append(left, ""), right...), w, h)
	}
	half := w/2 - 2
	var lines []string
	for i := range max(len(left), len(right)) {
		l, r := "", ""
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		lines = append(lines, text.Left(l, half)+text.Space(4)+text.Left(r, half))
	}
	return p.scroll.View(lines, w, h)
}

func (p *Help) keyLines() []string {
	k := p.keys
	groups := []struct {
		title string
		keys  []key.Binding
	}{
		{"Everywhere", []key.Binding{k.Fleet, k.Tasks, k.Ask, k.Help, k.Next, k.Refresh, k.Quit}},
		{"In lists", []key.Binding{k.Down, k.PageDown, k.Top, k.Bottom, k.Open, k.Back, k.Filter, k.Sort, k.Reverse}},
		{"Machines (each asks first)", []key.Binding{k.Pause, k.Resume, k.Drain}},
		{"Tasks", []key.Binding{keys.Words(k.State, "next state"), keys.Words(k.Type, "next type"), keys.Words(k.Cancel, "cancel (asks first)")}},
		{"Ask", []key.Binding{k.Send, keys.Words(k.ModelDown, "choose the model"), k.ScrollDn, keys.Words(k.Leave, "leave the prompt; then c stops the answer")}},
	}
	var out []string
	for i, g := range groups {
		if i > 0 {
			out = append(out, "")
		}
		out = append(out, p.style.Strong.Render(g.title))
		for _, b := range g.keys {
			out = append(out, "  "+p.style.Key.Render(text.Left(b.Help().Key, 10))+" "+b.Help().Desc)
		}
	}
	return out
}

func (p *Help) stateLines() []string {
	states := []struct {
		kind  fleet.StateKind
		means string
	}{
		{fleet.StateReady, "serves, has a free slot"},
		{fleet.StateFull, "serves, every slot is busy: healthy"},
		{fleet.StateDownloading, "fetches model files"},
		{fleet.StateLoading, "the model server starts"},
		{fleet.StateDraining, "ends its work, takes no more"},
		{fleet.StateEnrolling, "enrolled, not seen yet"},
		{fleet.StateIdle, "nothing is assigned"},
		{fleet.StatePaused, "by the server, or by its owner"},
		{fleet.StateOffline, fmt.Sprintf("not seen for %.0f s", fleet.SeenFor.Seconds())},
		{fleet.StateBlocked, "goes on when the reason is gone"},
		{fleet.StateParked, "gave up, wants a person"},
		{fleet.StateUnsupported, "this agent cannot run it"},
	}
	out := []string{p.style.Strong.Render("States of a machine")}
	for _, s := range states {
		words, style := stateWords(p.style, fleet.State{Kind: s.kind})
		out = append(out, "  "+style.Render(text.Left(words, 14))+" "+s.means)
	}
	return append(out, "",
		p.style.Strong.Render("Good to know"),
		"  "+text.Unknown+" is a figure that nobody reported.",
		"  tok/s is the speed of the newest answer.",
		"  Data is read when the server hints at a",
		"  change, and every few seconds besides.",
		"  NO_COLOR=1 turns colours off.")
}

// Keys are the keys of the page.
func (p *Help) Keys() []key.Binding {
	return []key.Binding{p.keys.Back, keys.Words(p.keys.Down, "scroll")}
}

// Typing is never so here.
func (p *Help) Typing() bool { return false }
