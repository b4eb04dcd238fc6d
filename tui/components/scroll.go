package components

import (
	"fmt"
	"strings"

	"github.com/charmbracelet/bubbles/viewport"

	"interlock.sh/tui/text"
)

// Scroll is text of many lines in a window. With Follow it stays at the end as text grows, unless
// somebody scrolled back.
type Scroll struct {
	Follow bool
	view   viewport.Model
	back   bool // somebody scrolled back
}

// Page scrolls by n windows; half a window each, so that the eye keeps its place.
func (s *Scroll) Page(n int) { s.Move(n * max(s.view.Height/2, 1)) }

// Move scrolls by n lines.
func (s *Scroll) Move(n int) {
	if n < 0 {
		s.view.ScrollUp(-n)
	} else {
		s.view.ScrollDown(n)
	}
	s.back = !s.view.AtBottom()
}

// Reset goes back to the beginning, or to the end with Follow.
func (s *Scroll) Reset() {
	s.back = false
	s.view.GotoTop()
}

// View draws the window over lines in exactly w × h cells.
func (s *Scroll) View(lines []string, w, h int) string {
	s.view.Width, s.view.Height = max(w, 0), max(h, 0)
	s.view.SetContent(strings.Join(lines, "\n"))
	if s.Follow && !s.back {
		s.view.GotoBottom()
	}
	top := s.view.YOffset
	return text.Block(lines[min(top, len(lines)):], w, h)
}

// Position says which lines were in the last view, for a heading; empty when all were.
func (s *Scroll) Position() string {
	all, shown := s.view.TotalLineCount(), s.view.VisibleLineCount()
	if shown >= all {
		return ""
	}
	return fmt.Sprintf("%d–%d of %d", s.view.YOffset+1, s.view.YOffset+shown, all)
}
