//go:build linux || cgo

package nightwindow

import (
	"context"
	"slices"
	"strings"
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
	"interlock.sh/internal/testkit"
	"interlock.sh/tray"
	"interlock.sh/tray/window"
)

// Machine is the window's other side: agents and a desktop that a test plays.
type Machine struct {
	mu     sync.Mutex
	Snap   tray.Snapshot
	Err    error         // what the next calls say
	Hold   chan struct{} // calls wait for it, when it is there, or for the end of their context
	Calls  []string
	Set    schedule.Availability
	Lines  []string
	Output string // of the uninstall
}

func (m *Machine) call(ctx context.Context, name string) error {
	m.mu.Lock()
	m.Calls = append(m.Calls, name)
	err, hold := m.Err, m.Hold
	m.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return err
}

// Snapshot is what the window is shown.
func (m *Machine) Snapshot() tray.Snapshot { m.mu.Lock(); defer m.mu.Unlock(); return m.Snap }

// Choose keeps the mode, unless Err says otherwise.
func (m *Machine) Choose(ctx context.Context, k tray.Key, mode schedule.Mode) error {
	err := m.call(ctx, "choose "+k.Group+" "+string(mode))
	if err == nil {
		m.Change(func(s *localapi.Status) { s.Wish.Mode = mode })
	}
	return err
}

// SetAvailability keeps what was set in Set.
func (m *Machine) SetAvailability(ctx context.Context, k tray.Key, a schedule.Availability) error {
	m.mu.Lock()
	m.Set = a
	m.mu.Unlock()
	return m.call(ctx, "set "+k.Group)
}

// PauseAll is noted.
func (m *Machine) PauseAll(ctx context.Context, _ time.Duration) error { return m.call(ctx, "pause") }

// ResumeAll is noted.
func (m *Machine) ResumeAll(ctx context.Context) error { return m.call(ctx, "resume") }

// Open is noted with its address.
func (m *Machine) Open(ctx context.Context, a string) error { return m.call(ctx, "open "+a) }

// CheckUpdates is noted.
func (m *Machine) CheckUpdates(ctx context.Context) error { return m.call(ctx, "check") }

// Logs gives Lines.
func (m *Machine) Logs(ctx context.Context, k tray.Key, _ int) ([]string, error) {
	return m.Lines, m.call(ctx, "logs "+k.Group)
}

// Uninstall gives Output.
func (m *Machine) Uninstall(ctx context.Context) (string, error) {
	return m.Output, m.call(ctx, "uninstall")
}

// Change edits what the first agent says.
func (m *Machine) Change(edit func(*localapi.Status)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Snap.Agents = append([]tray.Agent(nil), m.Snap.Agents...)
	edit(&m.Snap.Agents[0].Status)
}

// Agent answers and serves a model; edit changes that, nil for not.
func Agent(group string, edit func(*tray.Agent)) tray.Agent {
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

// Paused makes an agent wait for the night.
func Paused(a *tray.Agent) {
	a.Status.Words, a.Status.State = "paused (by owner until 22:00)", fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 22:00"}
	a.Status.Report.Deployments = nil
	a.Status.Wish.Mode, a.Status.Hours = schedule.Night, fleet.Hours{Mode: "night"}
}

// Older makes an agent one from before the owner's hours.
func Older(a *tray.Agent) {
	a.Status.Hours, a.Status.Wish, a.Status.Owner = fleet.Hours{}, localapi.Wish{}, fleet.Active
}

// Custom gives an agent every limit there is.
func Custom(a *tray.Agent) {
	a.Status.Wish.Availability = schedule.Availability{
		Mode: schedule.Window, Windows: []schedule.Span{{Start: "20:00", End: "06:30", Days: []string{"mon", "tue", "wed", "thu", "fri"}}, {Start: "00:00", End: "24:00", Days: []string{"sun"}}},
		OnMains: true, IdleMinutes: 15, Bandwidth: []schedule.Bandwidth{{Span: schedule.Span{Start: "08:00", End: "18:00"}, BytesPerSecond: 3 << 19}},
	}
	a.Status.Hours.Mode = "window"
}

// Loaded is a machine with these agents.
func Loaded(agents ...tray.Agent) tray.Snapshot { return tray.Snapshot{Loaded: true, Agents: agents} }

// Rig is a window on a canvas without a display.
type Rig struct {
	t       *testing.T
	Machine *Machine
	View    *window.View
	Window  fyne.Window
	Told    []tray.News // to the bar
	Closed  bool
	main    chan func() // what the calls want drawn
}

// New shows the window of a machine.
func New(t *testing.T, s tray.Snapshot) *Rig {
	t.Helper()
	app := test.NewTempApp(t)
	app.Settings().SetTheme(window.Theme())
	r := &Rig{t: t, Machine: &Machine{Snap: s}, main: make(chan func(), 16)}
	r.View = window.New(window.Options{
		Agents: r.Machine, Desktop: r.Machine, Version: "0.4.0", Home: "~/.nightshift",
		Tell: func(n tray.News) { r.Told = append(r.Told, n) }, Close: func() { r.Closed = true },
		Do: func(f func()) { r.main <- f },
	})
	r.Window = test.NewTempWindow(t, r.View.Content())
	r.Window.SetPadded(false)
	r.Window.Resize(fyne.NewSize(540, 640))
	t.Cleanup(r.View.End)
	return r
}

// Settle draws what the next call that ends wants drawn.
func (r *Rig) Settle() {
	r.t.Helper()
	testkit.Get(r.t, "the end of a call", r.main)()
}

// Picture compares what is drawn with testdata/<name>.png.
func (r *Rig) Picture(name string) {
	r.t.Helper()
	test.AssertImageMatches(r.t, name+".png", r.Window.Canvas().Capture())
}

// Visit walks everything that is visible.
func Visit(o fyne.CanvasObject, f func(fyne.CanvasObject)) {
	if !o.Visible() {
		return
	}
	f(o)
	switch o := o.(type) {
	case *fyne.Container:
		for _, c := range o.Objects {
			Visit(c, f)
		}
	case *container.Scroll:
		Visit(o.Content, f)
	case fyne.Widget:
		for _, c := range test.WidgetRenderer(o).Objects() {
			Visit(c, f)
		}
	}
}

// Buttons are the visible buttons of a label.
func (r *Rig) Buttons(label string) []*widget.Button {
	var out []*widget.Button
	Visit(r.Window.Content(), func(o fyne.CanvasObject) {
		if b, ok := o.(*widget.Button); ok && b.Text == label {
			out = append(out, b)
		}
	})
	return out
}

// Button is the first of them.
func (r *Rig) Button(label string) *widget.Button {
	r.t.Helper()
	all := r.Buttons(label)
	if len(all) == 0 {
		r.t.Fatalf("no button %q", label)
	}
	return all[0]
}

// Tap taps it.
func (r *Rig) Tap(label string) {
	r.t.Helper()
	b := r.Button(label)
	if b.Disabled() {
		r.t.Fatalf("button %q is off", label)
	}
	test.Tap(b)
}

// Entries are the visible fields.
func (r *Rig) Entries() []*widget.Entry {
	var out []*widget.Entry
	Visit(r.Window.Content(), func(o fyne.CanvasObject) {
		if e, ok := o.(*widget.Entry); ok {
			out = append(out, e)
		}
	})
	return out
}

// Says reports whether a visible label has the text.
func (r *Rig) Says(text string) bool {
	found := false
	Visit(r.Window.Content(), func(o fyne.CanvasObject) {
		if l, ok := o.(*widget.Label); ok && l.Text == text {
			found = true
		}
	})
	return found
}

// Refused is what a full disk says.
func Refused() error {
	return fault.New(fault.DiskFull, "the wish cannot be kept: no room on the disk").WithHint("free some room and try again")
}

// Labels are the visible texts.
func (r *Rig) Labels() []string {
	var out []string
	Visit(r.Window.Content(), func(o fyne.CanvasObject) {
		if l, ok := o.(*widget.Label); ok {
			out = append(out, l.Text)
		}
	})
	return out
}

// Contains reports whether a visible text has the part.
func (r *Rig) Contains(part string) bool {
	return slices.ContainsFunc(r.Labels(), func(s string) bool { return strings.Contains(s, part) })
}

// Called are the calls so far.
func (r *Rig) Called() []string {
	r.Machine.mu.Lock()
	defer r.Machine.mu.Unlock()
	return slices.Clone(r.Machine.Calls)
}
