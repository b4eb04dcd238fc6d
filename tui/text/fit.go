package text

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Ellipsis stands where text was cut off.
const Ellipsis = "…"

// Width is how many cells s takes; styles in it take none, wide characters two.
func Width(s string) int {
	if plain(s) {
		return len(s)
	}
	return ansi.StringWidth(s)
}

// Cut shortens s to at most w cells and marks the cut.
func Cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	if plain(s) {
		if len(s) <= w {
			return s
		}
		return s[:w-1] + Ellipsis
	}
	return ansi.Truncate(s, w, Ellipsis)
}

// Left is s in exactly w cells, cut or filled up at its end.
func Left(s string, w int) string {
	if n := Width(s); n <= w {
		return s + Space(w-n)
	}
	s = Cut(s, w)
	return s + Space(w-Width(s)) // a wide character at the cut leaves a cell
}

// Right is s in exactly w cells, cut at its end or filled up before it.
func Right(s string, w int) string {
	if n := Width(s); n <= w {
		return Space(w-n) + s
	}
	s = Cut(s, w)
	return Space(w-Width(s)) + s
}

// Space is n spaces; none when n is negative.
func Space(n int) string { return strings.Repeat(" ", max(n, 0)) }

// Ends puts left and right at the two ends of w cells. Right keeps its room; left is cut.
func Ends(left, right string, w int) string {
	right = Cut(right, w)
	room := w - Width(right)
	if room <= 0 {
		return right
	}
	if right != "" {
		room--
		right = " " + right
	}
	return Left(left, room) + right
}

// Wrap breaks cleaned lines at words, and words that are too long, so that each takes at most w cells.
func Wrap(lines []string, w int) []string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.Split(ansi.Wrap(l, max(w, 1), " "), "\n")...)
	}
	return out
}

// Block is lines as a block of exactly w × h cells: cut, or filled up with blanks.
func Block(lines []string, w, h int) string {
	out := make([]string, max(h, 0))
	for i := range out {
		l := ""
		if i < len(lines) {
			l = lines[i]
		}
		out[i] = Left(l, w)
	}
	return strings.Join(out, "\n")
}
