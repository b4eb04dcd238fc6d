// Package keys is the one keymap of the dashboard. It owns which key does what and the words for it;
// the pages decide when a key applies.
package keys

import "github.com/charmbracelet/bubbles/key"

// Map is every key of the dashboard.
type Map struct {
	Quit, Fleet, Tasks, Ask, Help, Next, Prev, Refresh         key.Binding
	Up, Down, PageUp, PageDown, Top, Bottom, Open, Back        key.Binding
	Filter, Sort, Reverse                                      key.Binding
	Pause, Resume, Drain                                       key.Binding
	Cancel, State, Type                                        key.Binding
	Send, Leave, Write, ModelUp, ModelDown, ScrollUp, ScrollDn key.Binding
	Yes, No, Accept, Clear                                     key.Binding
}

// Default is the keymap.
func Default() Map {
	b := func(label, does string, keys ...string) key.Binding {
		return key.NewBinding(key.WithKeys(keys...), key.WithHelp(label, does))
	}
	return Map{
		Quit:    b("q", "quit", "q", "ctrl+c"),
		Fleet:   b("1", "fleet", "1"),
		Tasks:   b("2", "tasks", "2"),
		Ask:     b("3", "ask", "3"),
		Help:    b("?", "help", "?"),
		Next:    b("tab", "next page", "tab"),
		Prev:    b("shift+tab", "page before", "shift+tab"),
		Refresh: b("ctrl+r", "read again now", "ctrl+r"),

		Up:       b("↑", "up", "up", "k"),
		Down:     b("↑↓", "move", "down", "j"),
		PageUp:   b("pgup", "page up", "pgup", "ctrl+b"),
		PageDown: b("pgdn", "page down", "pgdown", "ctrl+f"),
		Top:      b("g", "first", "home", "g"),
		Bottom:   b("G", "last", "end", "G"),
		Open:     b("enter", "open", "enter"),
		Back:     b("esc", "back", "esc"),

		Filter:  b("/", "filter", "/"),
		Sort:    b("s", "sort by", "s"),
		Reverse: b("S", "turn order", "S"),

		Pause:  b("p", "pause", "p"),
		Resume: b("r", "resume", "r"),
		Drain:  b("d", "drain", "d"),

		Cancel: b("c", "cancel task", "c"),
		State:  b("f", "state", "f"),
		Type:   b("t", "type", "t"),

		Send:      b("enter", "ask", "enter"),
		Leave:     b("esc", "leave the prompt", "esc"),
		Write:     b("enter", "type a prompt", "enter", "i"),
		ModelUp:   b("↑", "model before", "up"),
		ModelDown: b("↑↓", "model", "down"),
		ScrollUp:  b("pgup", "scroll back", "pgup"),
		ScrollDn:  b("pgup/pgdn", "scroll", "pgdown"),

		Yes:    b("y", "yes", "y", "Y"),
		No:     b("n", "no", "n", "N", "esc", "q"),
		Accept: b("enter", "keep filter", "enter"),
		Clear:  b("esc", "clear filter", "esc"),
	}
}

// Words is a copy of b that describes itself in other words.
func Words(b key.Binding, does string) key.Binding {
	b.SetHelp(b.Help().Key, does)
	return b
}
