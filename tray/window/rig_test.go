//go:build linux || cgo

package window_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/test"
	"fyne.io/fyne/v2/widget"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
	"interlock.sh/tray/window"
)

// machine is the window's other side: agents and a desktop that a test plays.
type machine struct {
	mu     sync.Mutex
	snap   tray.Snapshot
	err    error         // what the next calls say
	hold   chan struct{} // calls wait for it, when it is there
	calls  []string
	set    schedule.Availability
	lines  []string
	output string
}

func (m *machine) call(name string) error {
	m.mu.Lock()
	m.calls = append(m.calls, name)
	err, hold := m.err, m.hold
	m.mu.Unlock()
	if hold != nil {
		<-hold
	}
	return err
}

func (m *machine) Snapshot() tray.Snapshot { m.mu.Lock(); defer m.mu.Unlock(); return m.snap }

func (m *machine) Choose(_ context.Context, k tray.Key, mode schedule.Mode) error {
	err := m.call("choose " + k.Group + " " + string(mode))
	if err == nil {
		m.change(func(s *localapi.Status) { s.Wish.Mode = mode })
	}
	return err
}

func (m *machine) SetAvailability(_ context.Context, k tray.Key, a schedule.Availability) error {
	m.mu.Lock()
	m.set = a
	m.mu.Unlock()
	return m.call("set " + k.Group)
}
func (m *machine) PauseAll(context.Context, time.Duration) error { return m.call("pause") }
func (m *machine) ResumeAll(context.Context) error               { return m.call("resume") }
func (m *machine) Open(_ context.Context, a string) error        { return m.call("open " + a) }
func (m *machine) CheckUpdates(context.Context) error            { return m.call("check") }
func (m *machine) Logs(_ context.Context, k tray.Key, _ int) ([]string, error) {
	return m.lines, m.call("logs " + k.Group)
}
func (m *machine) Uninstall(context.Context) (string, error) { return m.output, m.call("uninstall") }

// change edits what the first agent says.
func (m *machine) change(edit func(*localapi.Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.snap.Agents = append([]tray.Agent(nil), m.snap.Agents...)
	edit(&m.snap.Agents[0].Status)
}

func agent(group string, edit func(*tray.Agent)) tray.Agent {
	tps := 38.4
	a := tray.Agent{
		Key: tray.Key{Group: group, Role: fleet.RoleClient}, GroupName: group, Origin: "https://fleet.test", Reach: tray.Answers,
		Status: localapi.Status{
			Version: "0.4.0", Words: "ready", State: fleet.State{Kind: fleet.StateReady}, Hours: fleet.Hours{Mode: "always", Open: true},
			Wish: localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}},
			Report: fleet.Heartbeat{Deployments: []fleet.DeploymentReport{{
				Alias: "smollm2-135m", State: fleet.State{Kind: fleet.StateReady}, TokensPerSecond: &tps, Slots: 4, Busy: 1,
			}}},
		},
	}
	if edit != nil {
		edit(&a)
	}
	return a
}

func paused(a *tray.Agent) {
	a.Status.Words, a.Status.State = "paused (by owner until 22:00)", fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 22:00"}
	a.Status.Report.Deployments = nil
	a.Status.Wish.Mode, a.Status.Hours = schedule.Night, fleet.Hours{Mode: "night"}
}

func older(a *tray.Agent) {
	a.Status.Hours, a.Status.Wish, a.Status.Owner = fleet.Hours{}, localapi.Wish{}, fleet.Active
}

func custom(a *tray.Agent) {
	a.Status.Wish.Availability = schedule.Availability{
		Mode: schedule.Window, Windows: []schedule.Span{{Start: "20:00", End: "06:30", Days: []string{"mon", "tue", "wed", "thu", "fri"}}, {Start: "00:00", End: "24:00", Days: []string{"sun"}}},
		OnMains: true, IdleMinutes: 15, Bandwidth: []schedule.Bandwidth{{Span: schedule.Span{Start: "08:00", End: "18:00"}, BytesPerSecond: 3 << 19}},
	}
	a.Status.Hours.Mode = "window"
}

func loaded(agents ...tray.Agent) tray.Snapshot { return tray.Snapshot{Loaded: true, Agents: agents} }

// rig is a window on a canvas without a display.
type rig struct {
	t      *testing.T
	m      *machine
	v      *window.View
	w      fyne.Window
	told   []tray.News
	closed bool
	main   chan func() // what the calls want drawn
}

func newRig(t *testing.T, s tray.Snapshot) *rig {
	t.Helper()
	app := test.NewTempApp(t)
	app.Settings().SetTheme(window.Theme())
	r := &rig{t: t, m: &machine{snap: s}, main: make(chan func(), 16)}
	r.v = window.New(window.Options{
		Agents: r.m, Desktop: r.m, Version: "0.4.0", Home: "~/.nightshift",
		Tell: func(n tray.News) { r.told = append(r.told, n) }, Close: func() { r.closed = true },
		Do: func(f func()) { r.main <- f },
	})
	r.w = test.NewTempWindow(t, r.v.Content())
	r.w.SetPadded(false)
	r.w.Resize(fyne.NewSize(540, 640))
	t.Cleanup(r.v.End)
	return r
}

// settle draws what the next call that ends wants drawn.
func (r *rig) settle() {
	r.t.Helper()
	select {
	case f := <-r.main:
		f()
	case <-time.After(5 * time.Second):
		r.t.Fatal("no call ended")
	}
}

func (r *rig) picture(name string) {
	r.t.Helper()
	test.AssertImageMatches(r.t, name+".png", r.w.Canvas().Capture())
}

// visit walks everything that is visible.
func visit(o fyne.CanvasObject, f func(fyne.CanvasObject)) {
	if !o.Visible() {
		return
	}
	f(o)
	switch o := o.(type) {
	case *fyne.Container:
		for _, c := range o.Objects {
			visit(c, f)
		}
	case *container.Scroll:
		visit(o.Content, f)
	case fyne.Widget:
		for _, c := range test.WidgetRenderer(o).Objects() {
			visit(c, f)
		}
	}
}

func (r *rig) buttons(label string) []*widget.Button {
	var out []*widget.Button
	visit(r.w.Content(), func(o fyne.CanvasObject) {
		if b, ok := o.(*widget.Button); ok && b.Text == label {
			out = append(out, b)
		}
	})
	return out
}

func (r *rig) button(label string) *widget.Button {
	r.t.Helper()
	all := r.buttons(label)
	if len(all) == 0 {
		r.t.Fatalf("no button %q", label)
	}
	return all[0]
}

func (r *rig) tap(label string) {
	r.t.Helper()
	b := r.button(label)
	if b.Disabled() {
		r.t.Fatalf("button %q is off", label)
	}
	test.Tap(b)
}

func (r *rig) entries() []*widget.Entry {
	var out []*widget.Entry
	visit(r.w.Content(), func(o fyne.CanvasObject) {
		if e, ok := o.(*widget.Entry); ok {
			out = append(out, e)
		}
	})
	return out
}

// says reports whether a visible label has the text.
func (r *rig) says(text string) bool {
	found := false
	visit(r.w.Content(), func(o fyne.CanvasObject) {
		if l, ok := o.(*widget.Label); ok && l.Text == text {
			found = true
		}
	})
	return found
}

func refused() error {
	return fault.New(fault.DiskFull, "the wish cannot be kept: no room on the disk").WithHint("free some room and try again")
}
