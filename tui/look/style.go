// Package look is the one set of styles of the dashboard: which colour means what. It knows states of
// machines and tasks, and no pages. Every meaning is also in words or in a mark, so that nothing is
// lost without colours.
package look

import (
	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"
)

// Style is every style of the dashboard, bound to one terminal.
type Style struct {
	Plain    lipgloss.Style
	Brand    lipgloss.Style // the program's name
	Strong   lipgloss.Style // names and headings
	Dim      lipgloss.Style // labels and what is less important
	Column   lipgloss.Style // heads of columns
	Tab      lipgloss.Style
	TabOn    lipgloss.Style
	Key      lipgloss.Style // a key in a list of keys
	Command  lipgloss.Style // what to type into a shell
	Selected lipgloss.Style // added to the cells of the chosen row
	Box      lipgloss.Style // frame of a dialog
	Accent   lipgloss.Style // cursor, sparkline
	Good     lipgloss.Style
	Work     lipgloss.Style // under way
	Rest     lipgloss.Style // on purpose not working
	Bad      lipgloss.Style // wants a person
}

// New makes the styles for a renderer, which decides whether there are colours at all.
func New(r *lipgloss.Renderer) Style {
	var (
		accent = lipgloss.AdaptiveColor{Light: "#5B3FD6", Dark: "#A793FF"}
		dim    = lipgloss.AdaptiveColor{Light: "#6B7280", Dark: "#8B93A3"}
		good   = lipgloss.AdaptiveColor{Light: "#0F7B4B", Dark: "#4ADE9C"}
		work   = lipgloss.AdaptiveColor{Light: "#1D5FBF", Dark: "#6CB6FF"}
		rest   = lipgloss.AdaptiveColor{Light: "#8A6100", Dark: "#E8C068"}
		bad    = lipgloss.AdaptiveColor{Light: "#C0233A", Dark: "#FF7A85"}
		chosen = lipgloss.AdaptiveColor{Light: "#E7E3FB", Dark: "#2E2A4A"}
	)
	s := r.NewStyle()
	return Style{
		Plain:    s,
		Brand:    s.Bold(true).Foreground(accent),
		Strong:   s.Bold(true),
		Dim:      s.Foreground(dim),
		Column:   s.Foreground(dim).Bold(true),
		Tab:      s.Foreground(dim),
		TabOn:    s.Bold(true).Foreground(accent),
		Key:      s.Bold(true),
		Command:  s.Foreground(accent),
		Selected: s.Background(chosen).Bold(true),
		Box:      s.Border(lipgloss.RoundedBorder()).BorderForeground(accent).Padding(1, 2),
		Accent:   s.Foreground(accent),
		Good:     s.Foreground(good),
		Work:     s.Foreground(work),
		Rest:     s.Foreground(rest),
		Bad:      s.Foreground(bad),
	}
}

// Colourless makes a renderer forget colours and every other attribute.
func Colourless(r *lipgloss.Renderer) *lipgloss.Renderer {
	r.SetColorProfile(termenv.Ascii)
	r.SetHasDarkBackground(true)
	return r
}
