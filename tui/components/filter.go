package components

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/bubbles/key"
	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

const filterLimit = 120

// Filter narrows a list to the rows that have every word that was typed, in any of their cells and in
// any case.
type Filter struct {
	style look.Style
	keys  keys.Map
	input Input
}

// NewFilter is a filter that lets everything through.
func NewFilter(style look.Style, k keys.Map) Filter {
	return Filter{style: style, keys: k, input: NewInput(style, filterLimit)}
}

// Open starts typing.
func (f *Filter) Open() { f.input.Focus() }

// Typing reports whether keys go into the filter.
func (f *Filter) Typing() bool { return f.input.Focused() }

// Active reports whether it narrows anything.
func (f *Filter) Active() bool { return strings.TrimSpace(f.input.Value()) != "" }

// Value is what was typed.
func (f *Filter) Value() string { return strings.TrimSpace(f.input.Value()) }

// Clear lets everything through.
func (f *Filter) Clear() {
	f.input.SetValue("")
	f.input.Blur()
}

// Key takes one key while typing.
func (f *Filter) Key(k tea.KeyMsg) {
	switch {
	case k.Paste:
		f.input.Key(k)
	case key.Matches(k, f.keys.Accept):
		f.input.Blur()
	case key.Matches(k, f.keys.Clear):
		f.Clear()
	default:
		f.input.Key(k)
	}
}

// Match reports whether a row of these words passes.
func (f *Filter) Match(words ...string) bool {
	wanted := strings.Fields(strings.ToLower(f.input.Value()))
	if len(wanted) == 0 {
		return true
	}
	row := strings.ToLower(strings.Join(words, "\n"))
	for _, w := range wanted {
		if !strings.Contains(row, w) {
			return false
		}
	}
	return true
}

// View is the filter's line: what was typed, and how many of all rows pass.
func (f *Filter) View(passed, all, w int) string {
	count := f.style.Dim.Render(fmt.Sprintf("%d of %d", passed, all))
	label := f.style.Key.Render("/") + " "
	return text.Ends(label+f.input.View(w-text.Width(label)-text.Width(count)-1), count, w)
}
