package tui

import (
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"
	"github.com/muesli/termenv"

	"interlock.sh/internal/clock"
	"interlock.sh/tui/text"
	"interlock.sh/tui/tuitest"
)

const (
	cellWidth, cellHeight = 9, 18
	margin                = 14
	paper, ink            = "#14151f", "#d8dbe6"
)

// TestPictures draws the documented pages in colour as SVG. With -update it writes them; png.sh beside
// them makes PNGs of them.
func TestPictures(t *testing.T) {
	for _, f := range frames {
		if !f.doc {
			continue
		}
		b := tuitest.New()
		if f.with != nil {
			f.with(b)
		}
		r := lipgloss.NewRenderer(io.Discard)
		r.SetColorProfile(termenv.TrueColor)
		r.SetHasDarkBackground(true)
		clk := clock.NewFake(tuitest.Now)
		h := &harness{App: New(t.Context(), Options{Backend: b, Renderer: r, Clock: clk}), backend: b, clock: clk, t: t}
		h.Update(tea.WindowSizeMsg{Width: 120, Height: 32})
		f.do(h)
		h.exact()
		got := svg(strings.Split(h.View(), "\n"), 120)
		path := "../docs/img/tui-" + f.name + ".svg"
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if want, err := os.ReadFile(path); err != nil || string(want) != got {
			t.Errorf("%s is not what the page looks like now (%v): go test ./tui -update, then docs/img/png.sh", path, err)
		}
	}
}

var sequence = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// svg draws lines with their colours, each run of one style at its own cell.
func svg(lines []string, w int) string {
	var b strings.Builder
	width, height := w*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" font-size=\"15\">\n", width, height, width, height)
	fmt.Fprintf(&b, "<rect width=\"100%%\" height=\"100%%\" rx=\"10\" fill=\"%s\"/>\n", paper)
	for y, line := range lines {
		x := 0
		style := run{fill: ink}
		for len(line) > 0 {
			at := sequence.FindStringSubmatchIndex(line)
			piece := line
			if at != nil {
				piece = line[:at[0]]
			}
			style.draw(&b, piece, x, y)
			x += text.Width(piece)
			if at == nil {
				break
			}
			style = style.with(line[at[2]:at[3]])
			line = line[at[1]:]
		}
	}
	return b.String() + "</svg>\n"
}

type run struct {
	fill, back string
	bold       bool
}

func (r run) draw(b *strings.Builder, s string, x, y int) {
	n := text.Width(s)
	px, py := margin+x*cellWidth, margin+y*cellHeight
	if r.back != "" && n > 0 {
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", px, py, n*cellWidth, cellHeight, r.back)
	}
	if strings.TrimSpace(s) == "" {
		return
	}
	weight := ""
	if r.bold {
		weight = " font-weight=\"bold\""
	}
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" fill=\"%s\"%s textLength=\"%d\" xml:space=\"preserve\">%s</text>\n",
		px, py+cellHeight-5, r.fill, weight, n*cellWidth, html.EscapeString(s))
}

func (r run) with(codes string) run {
	c := strings.Split(codes, ";")
	for i := 0; i < len(c); i++ {
		switch c[i] {
		case "", "0":
			r = run{fill: ink}
		case "1":
			r.bold = true
		case "38", "48":
			if i+4 >= len(c) {
				return r
			}
			var red, green, blue int
			if _, err := fmt.Sscan(c[i+2]+" "+c[i+3]+" "+c[i+4], &red, &green, &blue); err != nil {
				return r
			}
			colour := fmt.Sprintf("#%02x%02x%02x", red, green, blue)
			if c[i] == "38" {
				r.fill = colour
			} else {
				r.back = colour
			}
			i += 4
		}
	}
	return r
}
