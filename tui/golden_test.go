package tui

import (
	"fmt"
	"testing"

	tea "github.com/charmbracelet/bubbletea"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/tui/tuitest"
)

var sizes = []tea.WindowSizeMsg{{Width: 120, Height: 40}, {Width: 60, Height: 20}}

var (
	away    = fault.New(fault.Unavailable, "cannot reach https://fleet.example.com: connection refused").WithHint("is the server running there? start it with `interlock serve`, or name another with --api or INTERLOCK_URL")
	nobody  = fault.New(fault.Unauthenticated, "no credential was sent")
	refused = fault.New(fault.ScopeDenied, "a task-worker key may not read machines")
	broken  = fault.New(fault.Internal, "internal error").WithHint("the server's log has the cause under request 7f3a")
)

// frames are the pages in all their states. The doc ones are the pictures of the documentation.
var frames = []struct {
	name string
	doc  bool
	with func(*tuitest.Backend)
	do   func(*harness)
}{
	{name: "fleet", doc: true, do: func(h *harness) { h.load().press("down") }},
	{name: "fleet-loading", do: func(*harness) {}},
	{name: "fleet-empty", doc: true, with: func(b *tuitest.Backend) { b.Fleet, b.Group = nil, nil }, do: func(h *harness) { h.load() }},
	{name: "fleet-empty-group", with: func(b *tuitest.Backend) { b.Fleet = nil; b.Group[0].Name = "größe it's" }, do: func(h *harness) { h.load() }},
	{name: "fleet-disconnected", doc: true, with: func(b *tuitest.Backend) { b.Err = away }, do: func(h *harness) { h.load() }},
	{name: "fleet-stale", do: func(h *harness) { h.load(); h.backend.Err = away; h.load() }},
	{name: "fleet-login", with: func(b *tuitest.Backend) { b.Err = nobody }, do: func(h *harness) { h.load() }},
	{name: "fleet-denied", with: func(b *tuitest.Backend) { b.Err = refused }, do: func(h *harness) { h.load() }},
	{name: "fleet-error", with: func(b *tuitest.Backend) { b.Err = broken }, do: func(h *harness) { h.load() }},
	{name: "fleet-confirm", doc: true, do: func(h *harness) { h.load().press("d") }},
	{name: "fleet-acted", do: func(h *harness) { h.load().press("p", "y") }},
	{name: "fleet-filter", do: func(h *harness) { h.load().press("/").typed("QWEN ready") }},
	{name: "fleet-filter-none", do: func(h *harness) { h.load().press("/").typed("nothing like it").press("enter") }},
	{name: "fleet-hours", do: func(h *harness) { h.load().press("/").typed("mia").press("enter") }},
	{name: "fleet-unicode", with: func(b *tuitest.Backend) { b.Fleet = tuitest.Unicode() }, do: func(h *harness) { h.load().press("down") }},
	{name: "fleet-thousand", with: func(b *tuitest.Backend) { b.Fleet = tuitest.Many(1000) }, do: func(h *harness) { h.load().press("pgdown", "pgdown", "s", "S") }},
	{name: "machine", doc: true, do: func(h *harness) { h.load().press("G", "up", "enter") }},
	{name: "machine-parked", do: func(h *harness) { h.load().press("down", "enter") }},
	{name: "machine-downloading", do: func(h *harness) { h.load().press("G", "up", "up", "enter") }},
	{name: "machine-hours", do: func(h *harness) { h.load().press("/").typed("mia").press("enter", "enter") }},
	{name: "machine-bare", with: func(b *tuitest.Backend) { b.Samples = nil; b.Fleet = b.Fleet[6:] }, do: func(h *harness) { h.load().press("enter") }},
	{name: "machine-unicode", with: func(b *tuitest.Backend) { b.Fleet = tuitest.Unicode() }, do: func(h *harness) { h.load().press("down", "enter") }},
	{name: "machine-confirm", do: func(h *harness) { h.load().press("enter", "p") }},
	{name: "machine-loading", do: func(h *harness) { h.load(); h.openMachine("m_01studio") }},
	{name: "machine-error", do: func(h *harness) { h.load(); h.settle(h.openMachine("m_gone")) }},
	{name: "tasks", doc: true, do: func(h *harness) { h.load().press("2") }},
	{name: "tasks-loading", do: func(h *harness) { h.load(); h.open(TasksPage) }},
	{name: "tasks-empty", with: func(b *tuitest.Backend) { b.List = tasks.List{} }, do: func(h *harness) { h.load().press("2") }},
	{name: "tasks-live", do: func(h *harness) { h.load().press("2", "f") }},
	{name: "tasks-none", do: func(h *harness) { h.load().press("2", "t", "/").typed("zzz").press("enter") }},
	{name: "tasks-confirm", do: func(h *harness) { h.load().press("2", "c") }},
	{name: "tasks-disconnected", with: func(b *tuitest.Backend) { b.Err = away }, do: func(h *harness) { h.load().press("2") }},
	{name: "task", doc: true, do: func(h *harness) { h.load().press("2", "enter") }},
	{name: "task-failed", do: func(h *harness) { h.load().press("2", "/").typed("failed").press("enter", "enter") }},
	{name: "task-error", do: func(h *harness) { h.load(); h.settle(h.openTask("t_gone")) }},
	{name: "ask", doc: true, do: func(h *harness) { h.load().press("3").typed("What is a lease, in one sentence?").press("enter") }},
	{name: "ask-new", do: func(h *harness) { h.load().press("3").typed("What is a le") }},
	{name: "ask-streaming", do: streaming},
	{name: "ask-stop", do: func(h *harness) { streaming(h); h.press("esc", "c") }},
	{name: "ask-no-model", with: func(b *tuitest.Backend) { b.Fleet = nil }, do: func(h *harness) { h.load().press("3") }},
	{name: "ask-loading", do: func(h *harness) { h.open(AskPage) }},
	{name: "ask-refused", with: func(b *tuitest.Backend) {
		b.RunErr = fault.New(fault.NoEligibleWorker, "no machine serves qwen3-6-35b-a3b now").WithHint("see interlock models status")
	}, do: func(h *harness) { h.load().press("3").typed("hello").press("enter") }},
	{name: "ask-disconnected", with: func(b *tuitest.Backend) { b.Err = away }, do: func(h *harness) { h.load().press("3") }},
	{name: "help", doc: true, do: func(h *harness) { h.load().press("?") }},
}

// streaming is a run whose first attempt was lost and whose second is half way.
func streaming(h *harness) {
	h.load().press("3").typed("Explain fencing to a child.")
	h.Update(keyMsg("enter"))
	run := ai.Run{ID: "run_1", State: tasks.Running, Machine: "garage-mac"}
	send := func(name string, ev ai.StreamEvent) {
		h.Update(runEvents{events: []runEvent{{name: name, data: ev}}})
	}
	send(ai.StreamHello, ai.StreamEvent{Run: &run})
	send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Text: "lost words"})
	send(ai.StreamRestarted, ai.StreamEvent{Attempt: 2})
	send(ai.StreamDelta, ai.StreamEvent{Attempt: 2, Text: "Imagine a turnstile that counts. "})
	send(ai.StreamDelta, ai.StreamEvent{Attempt: 2, Offset: 80, Text: "Whoever comes with an old number"})
	send(ai.StreamDelta, ai.StreamEvent{Attempt: 2, Offset: 80, Text: "Whoever comes with an old number"})
	run.Machine = "studio-mac"
	h.Update(runRead{run})
}

// TestFrames compares every page in every state at both sizes with its golden frame.
func TestFrames(t *testing.T) {
	for _, f := range frames {
		for _, size := range sizes {
			t.Run(fmt.Sprintf("%s-%dx%d", f.name, size.Width, size.Height), func(t *testing.T) {
				b := tuitest.New()
				if f.with != nil {
					f.with(b)
				}
				h := newHarness(t, b, size.Width, size.Height)
				f.do(h)
				h.exact()
				golden(t, fmt.Sprintf("testdata/golden/%s-%dx%d.txt", f.name, size.Width, size.Height), h.View())
				if f.doc {
					golden(t, fmt.Sprintf("../docs/img/tui-%s-%dx%d.txt", f.name, size.Width, size.Height), h.View())
				}
			})
		}
	}
}

// TestEverySizeIsFilled draws every frame at odd sizes: nothing may be wider or higher than the screen,
// and nothing may panic, below the least size too.
func TestEverySizeIsFilled(t *testing.T) {
	for _, f := range frames {
		b := tuitest.New()
		if f.with != nil {
			f.with(b)
		}
		h := newHarness(t, b, 120, 40)
		f.do(h)
		for _, size := range []tea.WindowSizeMsg{{Width: 60, Height: 21}, {Width: 61, Height: 20}, {Width: 79, Height: 24}, {Width: 97, Height: 33}, {Width: 233, Height: 70}, {Width: 20, Height: 5}, {Width: 1, Height: 1}} {
			h.Update(size)
			h.exact()
		}
	}
}
