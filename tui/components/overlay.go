package components

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

const dialogWidth = 58 // with its frame; it leaves one cell on each side of the smallest terminal

// Dialog is a question in a frame. Title and body are wrapped.
func Dialog(style look.Style, title string, body []string, keys string, w int) string {
	frame := style.Box.GetHorizontalFrameSize()
	inner := min(dialogWidth, w-2) - frame
	lines := text.Wrap([]string{title}, inner)
	for i := range lines {
		lines[i] = style.Strong.Render(lines[i])
	}
	lines = append(lines, "")
	lines = append(lines, text.Wrap(body, inner)...)
	lines = append(lines, "", keys)
	for i := range lines {
		lines[i] = text.Left(lines[i], inner)
	}
	return style.Box.Render(strings.Join(lines, "\n"))
}

// Overlay puts a block over the middle of a screen of w × h cells.
func Overlay(screen, block string, w, h int) string {
	under, over := strings.Split(screen, "\n"), strings.Split(block, "\n")
	width := 0
	for _, l := range over {
		width = max(width, text.Width(l))
	}
	left, top := max((w-width)/2, 0), max((h-len(over))/2, 0)
	for i, l := range over {
		y := top + i
		if y >= len(under) {
			break
		}
		line := text.Left(under[y], w)
		under[y] = text.Left(ansi.Cut(line, 0, left), left) + text.Left(l, width) + text.Right(ansi.Cut(line, left+width, w), w-left-width)
	}
	return strings.Join(under, "\n")
}
