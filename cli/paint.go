package cli

import "io"

// painter colours words for one writer, or leaves them plain.
type painter struct{ on bool }

// paint is the painter for w: colours on a terminal, none when NO_COLOR is set or the terminal is dumb.
func (a *app) paint(w io.Writer) painter {
	return painter{isTerminal(w) && a.env.Getenv("NO_COLOR") == "" && a.env.Getenv("TERM") != "dumb"}
}

func (p painter) wrap(code, s string) string {
	if !p.on || s == "" {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

func (p painter) bold(s string) string  { return p.wrap("1", s) }
func (p painter) dim(s string) string   { return p.wrap("2", s) }
func (p painter) green(s string) string { return p.wrap("1;32", s) }
func (p painter) blue(s string) string  { return p.wrap("1;34", s) }
