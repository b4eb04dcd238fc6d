package tui

import (
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/tui/tuitest"
)

// TestNothingIsDrawnWhenNothingChanged reads the same data again, by hints and by the refresh, on every
// page: not one frame may be drawn, and the screen stays the same text.
func TestNothingIsDrawnWhenNothingChanged(t *testing.T) {
	for _, keys := range [][]string{{"down"}, {"enter"}, {"2"}, {"2", "enter"}, {"3"}, {"?"}} {
		h := newHarness(t, tuitest.New(), 120, 40).load().press(keys...)
		before, renders, reads := h.View(), h.renders, h.backend.Reads
		for range 20 {
			for _, kind := range []string{hintMachines, hintTasks, hintRuns} {
				h.hint(kind)
				h.View()
			}
			h.Update(tea.WindowSizeMsg{Width: 120, Height: 40})
			h.load() // what a refresh reads
			h.setNow()
			h.View()
		}
		if h.renders != renders || h.View() != before {
			t.Errorf("after %v: %d frames were drawn for data that did not change", keys, h.renders-renders)
		}
		if h.backend.Reads < reads+20 {
			t.Errorf("after %v: only %d reads, so the test proves nothing", keys, h.backend.Reads-reads)
		}
		h.backend.Fleet[1].Version = "9.9.9"
		if h.load().View(); keys[0] == "down" && h.renders != renders+1 {
			t.Errorf("a change was drawn %d times", h.renders-renders)
		}
	}
}

// BenchmarkView draws a fleet of a thousand machines whenever a key moves the choice.
func BenchmarkView(b *testing.B) {
	back := tuitest.New()
	back.Fleet = tuitest.Many(1000)
	h := newHarness(b, back, 120, 40).load()
	for b.Loop() {
		h.Update(keyMsg("down"))
		h.View()
	}
}

// BenchmarkRefreshUnchanged takes a thousand machines that are the same as before.
func BenchmarkRefreshUnchanged(b *testing.B) {
	back := tuitest.New()
	back.Fleet = tuitest.Many(1000)
	h := newHarness(b, back, 120, 40).load()
	h.View()
	for b.Loop() {
		h.settle(h.readMachines())
		h.View()
	}
	b.ReportMetric(float64(h.renders), "frames")
}

// BenchmarkRefreshChanged takes a thousand machines of which one changed.
func BenchmarkRefreshChanged(b *testing.B) {
	back := tuitest.New()
	back.Fleet = tuitest.Many(1000)
	h := newHarness(b, back, 120, 40).load()
	busy := 0
	for b.Loop() {
		busy++
		rate := float64(busy)
		d := back.Fleet[0].Deployments[0]
		d.TokensPerSecond = &rate
		back.Fleet[0].Deployments = append(back.Fleet[0].Deployments[:0:0], d)
		h.settle(h.readMachines())
		h.View()
	}
}
