package tui

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tea "github.com/charmbracelet/bubbletea"
	"github.com/charmbracelet/lipgloss"

	"interlock.sh/internal/clock"
	"interlock.sh/tui/look"
	"interlock.sh/tui/text"
	"interlock.sh/tui/tuitest"
)

var update = flag.Bool("update", false, "rewrite the golden frames and the pictures of the documentation")

type harness struct {
	*App
	backend *tuitest.Backend
	clock   *clock.Fake
	t       testing.TB
}

// newHarness is a dashboard of w × h cells over b, without colours and without data.
func newHarness(t testing.TB, b *tuitest.Backend, w, h int) *harness {
	t.Helper()
	clk := clock.NewFake(tuitest.Now)
	a := New(t.Context(), Options{Backend: b, Renderer: look.Colourless(lipgloss.NewRenderer(io.Discard)), Clock: clk})
	hs := &harness{App: a, backend: b, clock: clk, t: t}
	a.Update(tea.WindowSizeMsg{Width: w, Height: h})
	return hs
}

// load carries out the first reads.
func (h *harness) load() *harness {
	h.settle(h.readAll())
	return h
}

// hint is a hint after a quiet time, with the read that it asks for.
func (h *harness) hint(kind string) {
	clear(h.hints.last)
	_, cmd := h.Update(hintMsg{kind})
	h.settle(cmd)
}

// settled is what a put off read brings once the settling time is over, and not before.
func (h *harness) settled(later tea.Cmd) tea.Msg {
	h.t.Helper()
	if later == nil {
		h.t.Fatal("nothing was put off")
	}
	got, waiting := make(chan tea.Msg, 1), make(chan struct{})
	go func() { got <- later() }()
	go func() {
		h.clock.AwaitWaiters(1)
		close(waiting)
	}()
	select {
	case <-got:
		h.t.Fatal("a read that should wait did not")
	case <-waiting:
	}
	h.clock.Advance(settle)
	return <-got
}

// press sends keys, named as bubbletea names them, and carries out what they ask for.
func (h *harness) press(keys ...string) *harness {
	for _, k := range keys {
		_, cmd := h.Update(keyMsg(k))
		h.settle(cmd)
	}
	return h
}

// typed sends the letters of s.
func (h *harness) typed(s string) *harness {
	for _, r := range s {
		h.Update(tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune{r}})
	}
	return h
}

func keyMsg(name string) tea.KeyMsg {
	for t := tea.KeyType(-120); t < 128; t++ {
		if k := (tea.KeyMsg{Type: t}); t != tea.KeyRunes && k.String() == name {
			return k
		}
	}
	return tea.KeyMsg{Type: tea.KeyRunes, Runes: []rune(name)}
}

// has fails unless the screen has every one of the words, and returns the screen.
func (h *harness) has(words ...string) string {
	h.t.Helper()
	view := h.View()
	for _, w := range words {
		if !strings.Contains(view, w) {
			h.t.Errorf("the screen lacks %q:\n%s", w, view)
		}
	}
	return view
}

func (h *harness) lacks(words ...string) {
	h.t.Helper()
	for _, w := range words {
		if view := h.View(); strings.Contains(view, w) {
			h.t.Errorf("the screen has %q:\n%s", w, view)
		}
	}
}

// exact fails unless every line of a frame is exactly as wide as the screen and there are as many as
// the screen is high: what is too long would be wrapped or cut by the terminal.
func (h *harness) exact() {
	h.t.Helper()
	lines := strings.Split(h.View(), "\n")
	if len(lines) != h.h {
		h.t.Errorf("the frame has %d lines on a screen of %d:\n%s", len(lines), h.h, h.View())
	}
	for i, l := range lines {
		if n := text.Width(l); n != h.w {
			h.t.Errorf("line %d is %d cells wide on a screen of %d: %q", i+1, n, h.w, l)
		}
	}
}

// golden compares a frame with a file, or rewrites the file with -update.
func golden(t *testing.T, path, frame string) {
	t.Helper()
	var lines []string
	for l := range strings.Lines(frame) {
		lines = append(lines, strings.TrimRight(l, " \n"))
	}
	got := []byte(strings.Join(lines, "\n") + "\n")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("no golden frame (write it with go test ./tui -update): %v", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at it, then accept it with go test ./tui -update\n--- got\n%s--- want\n%s", path, got, want)
	}
}
