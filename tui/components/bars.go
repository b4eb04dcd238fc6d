package components

import (
	"strings"

	"github.com/charmbracelet/bubbles/key"

	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

// Tab is one page in the line of tabs.
type Tab struct {
	Key, Title string
	On         bool
}

// Tabs is the line of tabs; the page that is open stands in brackets, which needs no colours.
func Tabs(style look.Style, tabs []Tab) string {
	var b strings.Builder
	for _, t := range tabs {
		if t.On {
			b.WriteString(style.TabOn.Render("[" + t.Key + " " + t.Title + "]"))
		} else {
			b.WriteString(style.Tab.Render(" " + t.Key + " " + t.Title + " "))
		}
	}
	return b.String()
}

// KeyLine names as many of the bindings as fit into w cells. The last ones always stay.
func KeyLine(style look.Style, bindings, always []key.Binding, w int) string {
	tail := ""
	for _, b := range always {
		tail += keyWords(style, b)
	}
	line := ""
	for _, b := range bindings {
		word := keyWords(style, b)
		if text.Width(line)+text.Width(word)+text.Width(tail) > w+gutter {
			break
		}
		line += word
	}
	return text.Cut(strings.TrimRight(line+tail, " "), w)
}

func keyWords(style look.Style, b key.Binding) string {
	h := b.Help()
	return style.Key.Render(h.Key) + " " + style.Dim.Render(h.Desc) + text.Space(gutter)
}

// Rule is a heading with a line behind it, to w cells; right stands at its end.
func Rule(style look.Style, title, right string, w int) string {
	if title != "" {
		title = style.Strong.Render(title) + " "
	}
	if right != "" {
		right = " " + style.Dim.Render(right)
	}
	line := max(w-text.Width(title)-text.Width(right), 0)
	return text.Left(title+style.Dim.Render(strings.Repeat("─", line))+right, w)
}

// Fact is one labelled figure.
type Fact struct{ Label, Value string }

// Facts lays labelled figures out in as many columns as fit, in rows, so that the first lines have the
// first facts.
func Facts(style look.Style, facts []Fact, w int) []string {
	label := 0
	for _, f := range facts {
		label = max(label, text.Width(f.Label))
	}
	columns := max(1, min(w/29, 3))
	width := w / columns
	rows := (len(facts) + columns - 1) / columns
	lines := make([]string, rows)
	for i, f := range facts {
		cell := style.Dim.Render(text.Left(f.Label, label)) + "  " + f.Value
		lines[i/columns] += text.Left(text.Cut(cell, width-gutter), width)
	}
	return lines
}
