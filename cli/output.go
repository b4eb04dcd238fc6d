package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
)

// unknown stands where a figure is not known: never a zero.
const unknown = "—"

// jsonFlag adds --json to a verb.
func jsonFlag(cmd *cobra.Command) *bool {
	return cmd.Flags().Bool("json", false, "print JSON, with the field names of the API")
}

// printJSON prints v indented. Control characters stay escaped, so that the text is safe on a terminal.
func (a *app) printJSON(v any) error { return writeJSON(a.Out, v, "  ") }

// printJSONLine prints v on one line.
func (a *app) printJSONLine(v any) error { return writeJSON(a.Out, v, "") }

func writeJSON(w io.Writer, v any, indent string) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	var safe strings.Builder
	for _, r := range b.String() {
		if r >= 0x7f && hidden(r) { // below, encoding/json has escaped them; all are in the first plane
			fmt.Fprintf(&safe, `\u%04x`, r)
			continue
		}
		safe.WriteRune(r)
	}
	if _, err := io.WriteString(w, safe.String()); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// hidden are the characters that move a cursor, colour a screen or turn the direction of text: a name
// with them could show something that it is not.
func hidden(r rune) bool {
	return unicode.IsControl(r) || (r >= '\u202a' && r <= '\u202e') || (r >= '\u2066' && r <= '\u2069')
}

// clean is a text from elsewhere, fit for one line of a terminal.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "\ufffd")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case hidden(r):
			return -1
		}
		return r
	}, s)
}

// cleanText is clean for text of several lines.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && hidden(r) {
			return -1
		}
		return r
	}, s)
}

// table prints rows under headings, in columns as wide as their widest cell on a terminal.
func (a *app) table(headings []string, rows [][]string) {
	widths := make([]int, len(headings))
	all := append([][]string{headings}, rows...)
	for _, row := range all {
		for i := range row {
			row[i] = clean(row[i])
			if row[i] == "" {
				row[i] = unknown
			}
			widths[i] = max(widths[i], runewidth.StringWidth(row[i]))
		}
	}
	for n, row := range all {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-runewidth.StringWidth(cell)+2))
			}
		}
		line := b.String()
		if n == 0 {
			line = a.paint(a.Out).dim(line)
		}
		fmt.Fprintln(a.Out, line)
	}
}

// facts prints pairs of a name and a value, one a line; values that are not known are left out.
func (a *app) facts(pairs ...string) {
	width := 0
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			width = max(width, runewidth.StringWidth(pairs[i]))
		}
	}
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(a.Out, "%s%s  %s\n", pairs[i], strings.Repeat(" ", width-runewidth.StringWidth(pairs[i])), clean(pairs[i+1]))
		}
	}
}

func (a *app) say(format string, args ...any) {
	fmt.Fprintln(a.Out, clean(fmt.Sprintf(format, args...)))
}

// empty says what to do where a list has nothing, without disturbing a script that reads the list.
func (a *app) empty(format string, args ...any) { a.note(format, args...) }

func (a *app) ago(t *time.Time) string {
	if t == nil || t.IsZero() {
		return unknown
	}
	d := a.clock.Now().Sub(*t)
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds ago", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh ago", d/time.Hour)
	}
	return fmt.Sprintf("%dd ago", d/(24*time.Hour))
}

func size(n *int64) string {
	if n == nil || *n < 0 {
		return unknown
	}
	return humanize.Bytes(uint64(*n))
}

func rate(v *float64) string {
	if v == nil {
		return unknown
	}
	return strconv.FormatFloat(*v, 'f', 1, 64)
}

func count(n int) string {
	if n == 0 {
		return unknown
	}
	return strconv.Itoa(n)
}

// orUnknown is s, or the sign for what is not known.
func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
