// Package text makes strings of unknown origin fit for a terminal: it cleans, cuts, wraps and formats
// them. It owns the rule that nothing a machine, a task or a model says can steer the terminal. It
// knows no colours and no pages.
package text

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	zeroWidthJoiner = '\u200d' // holds emoji and Indic clusters together
	maxMarks        = 4        // combining marks on one character; more only smear over the lines around it
	tabStop         = "    "
)

// colourSequence is what programs write into logs to colour them: dropped whole, so that its
// parameters are not left as litter. Any other sequence loses its escape only and stays readable.
var colourSequence = regexp.MustCompile("(\x1b\\[|\u009b)[0-9:;]*[mK]")

// Clean makes s safe and fit for one line: control characters, text-direction overrides and invisible
// characters are removed, line breaks and tabs become spaces, bytes that are no UTF-8 become U+FFFD.
func Clean(s string) string {
	if plain(s) {
		return s
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if strings.ContainsAny(s, "\x1b\u009b") {
		s = colourSequence.ReplaceAllString(s, "")
	}
	var b strings.Builder
	b.Grow(len(s))
	marks := 0
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t' || r == '\u2028' || r == '\u2029':
			r = ' '
		case unicode.IsControl(r):
			continue
		case r != zeroWidthJoiner && unicode.Is(unicode.Cf, r):
			continue
		case unicode.Is(unicode.M, r) && !variationSelector(r):
			if marks++; marks > maxMarks {
				continue
			}
			b.WriteRune(r)
			continue
		}
		marks = 0
		b.WriteRune(r)
	}
	return b.String()
}

// Lines cleans text of several lines. Tabs become four spaces; a carriage return ends a line too, as
// progress bars use it.
func Lines(s string) []string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\t", tabStop).Replace(s)
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = Clean(l)
	}
	return lines
}

func plain(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func variationSelector(r rune) bool { return r >= '\ufe00' && r <= '\ufe0f' }
