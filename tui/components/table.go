// Package components is what pages are made of: a table, a scrolled text, a one-line input, a
// sparkline, a dialog, a panel and the bars. A component draws what it is given, in exactly the room
// it is given. It fetches nothing and knows no page. Texts that it is given are clean already (see
// package text), except where a component says that it cleans.
package components

import (
	"strings"

	"github.com/charmbracelet/lipgloss"

	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

const (
	gutter = 2 // cells between two columns
	marker = 2 // cells before the first column, for the mark of the chosen row
)

// Column is one column of a table.
type Column struct {
	Title string
	Min   int  // cells it needs to be of use
	Max   int  // cells it takes at most
	Right bool // figures stand at the right
	Keep  int  // columns with less are left out first when there is no room
}

// Cell is one figure or word.
type Cell struct {
	Text  string
	Style lipgloss.Style
}

// Row is one line; ID keeps the choice on the same thing when rows move.
type Row struct {
	ID    string
	Cells []Cell
}

// Table is rows under columns with one row chosen. The zero value with Columns set is empty.
type Table struct {
	Style   look.Style
	Columns []Column
	SortBy  int // index of the column whose head shows the order; -1 for none
	Desc    bool
	// Unchosen is a table to look at: no row is chosen.
	Unchosen bool

	rows   []Row
	widths []int // natural width of each column
	at     int   // the chosen row
	top    int   // the first row that is shown
	shown  int   // rows that fitted into the last view
}

// SetRows replaces the rows. The choice stays on its row, or near it when that is gone.
func (t *Table) SetRows(rows []Row) {
	id := ""
	if r, ok := t.Selected(); ok {
		id = r.ID
	}
	t.rows = rows
	for i, r := range rows {
		if r.ID == id {
			t.at = i
			break
		}
	}
	t.at = min(t.at, max(len(rows)-1, 0))
	t.widths = make([]int, len(t.Columns))
	for i, c := range t.Columns {
		t.widths[i] = max(text.Width(t.title(i)), c.Min)
		for _, r := range rows {
			if t.widths[i] >= c.Max {
				break
			}
			t.widths[i] = max(t.widths[i], text.Width(r.Cells[i].Text))
		}
		t.widths[i] = min(t.widths[i], c.Max)
	}
}

// Len is the number of rows.
func (t *Table) Len() int { return len(t.rows) }

// Selected is the chosen row.
func (t *Table) Selected() (Row, bool) {
	if t.at >= len(t.rows) {
		return Row{}, false
	}
	return t.rows[t.at], true
}

// Move moves the choice by n rows, within the table.
func (t *Table) Move(n int) { t.at = max(0, min(t.at+n, len(t.rows)-1)) }

// Page moves the choice by n screens.
func (t *Table) Page(n int) { t.Move(n * max(t.shown-1, 1)) }

// View draws head and rows in exactly w × h cells.
func (t *Table) View(w, h int) string {
	fit := t.fit(w)
	lines := []string{t.head(fit)}
	t.shown = max(h-1, 0)
	t.top = max(min(t.top, t.at), t.at-t.shown+1)
	t.top = max(0, min(t.top, len(t.rows)-t.shown))
	for i := t.top; i < min(t.top+t.shown, len(t.rows)); i++ {
		lines = append(lines, t.line(t.rows[i], fit, i == t.at && !t.Unchosen, w))
	}
	return text.Block(lines, w, h)
}

func (t *Table) head(fit []int) string {
	var b strings.Builder
	b.WriteString(text.Space(marker))
	for i, c := range t.Columns {
		if fit[i] == 0 {
			continue
		}
		b.WriteString(t.Style.Column.Render(place(t.title(i), fit[i], c.Right)))
		b.WriteString(text.Space(gutter))
	}
	return strings.TrimRight(b.String(), " ")
}

// title is the head of a column, with an arrow where it gives the order.
func (t *Table) title(i int) string {
	switch {
	case i != t.SortBy:
		return t.Columns[i].Title
	case t.Desc:
		return t.Columns[i].Title + " ▼"
	}
	return t.Columns[i].Title + " ▲"
}

func (t *Table) line(r Row, fit []int, chosen bool, w int) string {
	var b strings.Builder
	blank := text.Space
	if chosen {
		blank = func(n int) string { return t.Style.Selected.Render(text.Space(n)) }
		b.WriteString(t.Style.Selected.Foreground(t.Style.Accent.GetForeground()).Render("▸ "))
	} else {
		b.WriteString(text.Space(marker))
	}
	used := marker
	for i, c := range r.Cells {
		if fit[i] == 0 {
			continue
		}
		style := c.Style
		if chosen {
			style = style.Inherit(t.Style.Selected)
		}
		b.WriteString(style.Render(place(c.Text, fit[i], t.Columns[i].Right)))
		used += fit[i]
		if used+gutter <= w {
			b.WriteString(blank(gutter))
			used += gutter
		}
	}
	if used < w {
		b.WriteString(blank(w - used))
	}
	return b.String()
}

func place(s string, w int, right bool) string {
	if right {
		return text.Right(s, w)
	}
	return text.Left(s, w)
}

// fit is the width of each column in w cells; 0 leaves it out. Columns leave in the order of Keep
// until the least widths fit, then the widest give until all fit.
func (t *Table) fit(w int) []int {
	out := make([]int, len(t.Columns))
	if len(t.widths) != len(t.Columns) {
		t.SetRows(t.rows)
	}
	copy(out, t.widths)
	room := w - marker
	for need(t.least(out)) > room {
		drop := -1
		for i, c := range t.Columns {
			if out[i] > 0 && (drop < 0 || c.Keep < t.Columns[drop].Keep) {
				drop = i
			}
		}
		if drop < 0 {
			return out
		}
		out[drop] = 0
	}
	for over := need(out) - room; over > 0; over-- {
		give := -1
		for i, c := range t.Columns {
			if out[i] > c.Min && (give < 0 || out[i] > out[give]) {
				give = i
			}
		}
		if give < 0 {
			break
		}
		out[give]--
	}
	return out
}

func (t *Table) least(fit []int) []int {
	out := make([]int, len(fit))
	for i, n := range fit {
		out[i] = min(n, t.Columns[i].Min)
	}
	return out
}

func need(fit []int) int {
	sum := 0
	for _, n := range fit {
		if n > 0 {
			sum += n + gutter
		}
	}
	return max(sum-gutter, 0)
}
