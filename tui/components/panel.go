package components

import (
	"strings"

	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

const panelWidth = 84

// Step is a line of a panel: words, or a command to type.
type Step struct {
	Text    string
	Command bool
}

// Say is a step of words.
func Say(s string) Step { return Step{Text: s} }

// Run is a step that shows a command.
func Run(s string) Step { return Step{Text: s, Command: true} }

// Panel fills a page that has nothing to show: what is the matter, and what to do about it. It cleans
// what it is given.
func Panel(style look.Style, mark, title string, steps []Step, w, h int) string {
	width := min(panelWidth, w-4)
	var lines []string
	if mark != "" {
		mark += " "
	}
	for i, l := range text.Wrap([]string{text.Clean(title)}, width-text.Width(mark)) {
		if i == 0 {
			l = mark + style.Strong.Render(l)
		} else {
			l = text.Space(text.Width(mark)) + style.Strong.Render(l)
		}
		lines = append(lines, l)
	}
	for _, s := range steps {
		if s.Text == "" {
			lines = append(lines, "")
			continue
		}
		if !s.Command {
			lines = append(lines, text.Wrap([]string{text.Clean(s.Text)}, width)...)
			continue
		}
		for _, l := range command(text.Clean(s.Text), width-2) {
			lines = append(lines, "  "+style.Command.Render(l))
		}
	}
	if len(lines) > h { // the way out is worth more than the air between its steps
		lines = dense(lines)
	}
	widest := 0
	for _, l := range lines {
		widest = max(widest, text.Width(l))
	}
	left := text.Space((w - widest) / 2)
	top := max((h-len(lines))/3, 0)
	out := make([]string, top, top+len(lines))
	for _, l := range lines {
		out = append(out, left+l)
	}
	return text.Block(out, w, h)
}

// command breaks a command between words, as a shell reads on behind a backslash.
func command(s string, w int) []string {
	const more = ` \`
	var out []string
	line := ""
	for _, word := range commandParts(s) {
		switch {
		case line == "":
			line = word
		case text.Width(line+" "+word)+len(more) > w && !(strings.HasSuffix(s, word) && text.Width(line+" "+word) <= w):
			out = append(out, line+more)
			line = "  " + word
		default:
			line += " " + word
		}
	}
	return append(out, line)
}

// commandParts are the words of a command, each flag together with its value.
func commandParts(s string) []string {
	var out []string
	for _, word := range shellWords(s) {
		if n := len(out); n > 0 && strings.HasPrefix(out[n-1], "--") && !strings.Contains(out[n-1], " ") && !strings.HasPrefix(word, "-") {
			out[n-1] += " " + word
		} else {
			out = append(out, word)
		}
	}
	return out
}

// shellWords splits at spaces that stand outside single quotes.
func shellWords(s string) []string {
	var out []string
	from, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\'':
			quoted = !quoted
		case s[i] == '\\' && !quoted:
			i++
		case s[i] == ' ' && !quoted:
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

func dense(lines []string) []string {
	var out []string
	for _, l := range lines {
		if strings.TrimSpace(l) != "" {
			out = append(out, l)
		}
	}
	return out
}
