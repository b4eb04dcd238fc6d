package components

import (
	"strings"

	"github.com/charmbracelet/bubbles/textinput"
	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/x/ansi"

	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Input is one line to type into. It edits as the usual text input does and draws its cursor as a bar
// that needs no colours and does not blink: a dashboard at rest draws nothing.
type Input struct {
	style look.Style
	model textinput.Model
}

// NewInput is an empty input without focus that takes up to limit characters.
func NewInput(style look.Style, limit int) Input {
	m := textinput.New()
	m.CharLimit = limit
	return Input{style: style, model: m}
}

// Focus makes it take keys.
func (i *Input) Focus() { i.model.Focus() }

// Blur ends that.
func (i *Input) Blur() { i.model.Blur() }

// Focused reports whether it takes keys.
func (i *Input) Focused() bool { return i.model.Focused() }

// Value is what was typed.
func (i *Input) Value() string { return i.model.Value() }

// SetValue replaces it.
func (i *Input) SetValue(s string) {
	i.model.SetValue(text.Clean(s))
	i.model.CursorEnd()
}

// Key takes one key.
func (i *Input) Key(k tea.KeyMsg) {
	i.model, _ = i.model.Update(k) // its command makes the cursor blink, which this one does not
}

// View draws it in at most w cells, moved so that the cursor is seen.
func (i *Input) View(w int) string {
	value := []rune(i.model.Value())
	if !i.model.Focused() {
		return text.Cut(text.Clean(string(value)), w)
	}
	at := min(i.model.Position(), len(value))
	before, after := text.Clean(string(value[:at])), text.Clean(string(value[at:]))
	if over := text.Width(before) + 1 - w; over > 0 {
		before = ansi.Cut(before, over, text.Width(before))
	}
	rest := max(w-text.Width(before)-1, 0)
	return strings.Join([]string{before, i.style.Accent.Render("▏"), text.Cut(after, rest)}, "")
}
