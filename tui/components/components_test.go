package components

import (
	"fmt"
	"io"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"interlock.sh/tui/keys"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
)

func plainStyle() look.Style { return look.New(look.Colourless(lipgloss.NewRenderer(io.Discard))) }

func rows(names ...string) []Row {
	out := make([]Row, len(names))
	for i, n := range names {
		out[i] = Row{ID: n, Cells: []Cell{{Text: n}, {Text: "some words"}, {Text: "7"}}}
	}
	return out
}

func newTable() *Table {
	return &Table{Style: plainStyle(), SortBy: -1, Columns: []Column{
		{Title: "NAME", Min: 6, Max: 12, Keep: 3}, {Title: "WORDS", Min: 6, Max: 20, Keep: 1}, {Title: "N", Min: 2, Max: 4, Right: true, Keep: 2},
	}}
}

func TestTableGivesWayInOrder(t *testing.T) {
	tb := newTable()
	tb.SetRows(rows("a-rather-long-name", "b"))
	for w, want := range map[int]string{
		40: "▸ a-rather-lo…  some words   7",
		26: "▸ a-rather…  some wor…   7",
		20: "▸ a-rat…  some …   7",
		19: "▸ a-rather-lo…   7",
		9:  "▸ a-rath…",
		3:  "▸ …",
	} {
		got := strings.TrimRight(strings.Split(tb.View(w, 3), "\n")[1], " ")
		if w > 3 && got != want {
			t.Errorf("in %d cells %q, want %q", w, got, want)
		}
		for _, l := range strings.Split(tb.View(w, 3), "\n") {
			if text.Width(l) != w {
				t.Errorf("in %d cells a line has %d: %q", w, text.Width(l), l)
			}
		}
	}
}

func TestTableKeepsItsChoiceAndShowsIt(t *testing.T) {
	tb := newTable()
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("n%02d", i))
	}
	tb.SetRows(rows(names...))
	shows := func() {
		t.Helper()
		r, _ := tb.Selected()
		if v := tb.View(40, 6); !strings.Contains(v, "▸ "+r.ID) {
			t.Errorf("the choice %s is not on the screen:\n%s", r.ID, v)
		}
	}
	shows()
	for _, n := range []int{10, 3, -2, 100, -5, -100, 49} {
		tb.Move(n)
		shows()
	}
	tb.SetRows(rows(names[40:]...)) // fewer rows, the chosen one among them
	if r, _ := tb.Selected(); r.ID != "n49" {
		t.Errorf("the choice went to %s", r.ID)
	}
	shows()
	tb.SetRows(rows(names[:3]...)) // the chosen one is gone
	shows()
	tb.SetRows(nil)
	if _, ok := tb.Selected(); ok {
		t.Error("something is chosen of nothing")
	}
	tb.Move(1)
	tb.SetRows(rows("again"))
	shows()
}

func TestSpark(t *testing.T) {
	f := func(v ...float64) []*float64 {
		out := make([]*float64, len(v))
		for i := range v {
			if v[i] >= 0 {
				out[i] = &v[i]
			}
		}
		return out
	}
	for _, c := range []struct {
		figures []*float64
		w       int
		top     float64
		want    string
	}{
		{f(0, 1, 2, 3, 4, 5, 6, 7), 8, 0, "▁▂▃▄▅▆▇█"},
		{f(1, -1, 2), 8, 0, "▅·█"}, // nobody reported the middle one
		{f(1, 2, 3, 4), 2, 0, "▆█"},
		{f(0, 0), 4, 0, "▁▁"},
		{f(2, 9), 4, 4, "▅█"}, // above the top
		{nil, 4, 0, ""},
	} {
		if got := Spark(c.figures, c.w, c.top); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestOverlayKeepsWhatIsAroundIt(t *testing.T) {
	screen := strings.TrimSuffix(strings.Repeat("東京東京東京\n", 5), "\n")
	got := Overlay(screen, "+--+\n|  |\n+--+", 12, 5)
	if want := "東京東京東京\n東京+--+東京\n東京|  |東京\n東京+--+東京\n東京東京東京"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for _, l := range strings.Split(Overlay(screen, "+-+\n+-+", 12, 5), "\n") { // cuts wide characters in half
		if text.Width(l) != 12 {
			t.Errorf("%q has %d cells", l, text.Width(l))
		}
	}
}

func TestCommandsBreakAsAShellReadsThem(t *testing.T) {
	for _, c := range []struct {
		in   string
		w    int
		want string
	}{
		{"interlock login", 40, "interlock login"},
		{"interlock login --api https://x", 20, "interlock login \\\n  --api https://x"},
		{"run --group 'two words' --role client", 20, "run \\\n  --group 'two words' \\\n  --role client"},
		{`run 'it'\''s mine' x`, 8, "run \\\n  'it'\\''s mine' \\\n  x"},
	} {
		if got := strings.Join(command(c.in, c.w), "\n"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestScrollFollowsUnlessScrolledBack(t *testing.T) {
	s := Scroll{Follow: true}
	lines := func(n int) []string {
		out := make([]string, n)
		for i := range out {
			out[i] = fmt.Sprintf("line %d", i+1)
		}
		return out
	}
	last := func(n int) string {
		v := strings.Split(s.View(lines(n), 10, 4), "\n")
		return strings.TrimSpace(v[3])
	}
	if got := last(20); got != "line 20" || s.Position() != "17–20 of 20" {
		t.Errorf("%s, %s", got, s.Position())
	}
	s.Move(-5)
	if got := last(30); got != "line 15" {
		t.Errorf("scrolled back, it went to %s", got)
	}
	s.Move(100)
	if got := last(31); got != "line 31" {
		t.Errorf("at the end again, it stays at %s", got)
	}
	if got := last(2); got != "" || s.Position() != "" {
		t.Errorf("fewer lines than room: %q, %q", got, s.Position())
	}
}

func TestInputShowsItsCursor(t *testing.T) {
	in := NewInput(plainStyle(), 100)
	in.Focus()
	for _, r := range "東京 and more words" {
		in.Key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
	}
	if got := in.View(10); got != "ore words▏" {
		t.Errorf("%q", got)
	}
	in.Key(tea.KeyMsg{Type: tea.KeyHome})
	if got := in.View(10); got != "▏東京 and…" || text.Width(got) != 10 {
		t.Errorf("%q", got)
	}
	in.Blur()
	if got := in.View(10); strings.Contains(got, "▏") {
		t.Errorf("%q", got)
	}
}

func TestFilterPastes(t *testing.T) {
	f := NewFilter(plainStyle(), keys.Default())
	f.Open()
	f.Key(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune("Ready\x1b[2J"), Paste: true})
	if !f.Match("is ready[2j") || f.Match("paused") {
		t.Errorf("filter is %q", f.Value())
	}
}
