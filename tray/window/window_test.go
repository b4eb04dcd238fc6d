//go:build linux || cgo

package window_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/widget"
	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

var bot = tray.Key{Group: "support-bot", Role: fleet.RoleClient}

func (r *rig) called() []string { r.m.mu.Lock(); defer r.m.mu.Unlock(); return slices.Clone(r.m.calls) }

func chosen(b *widget.Button) bool { return b.Importance == widget.HighImportance }

func TestAChoiceIsCarriedToTheAgentAndShown(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", nil)))
	for _, c := range []struct{ label, call string }{
		{"Paused", "choose support-bot paused"}, {"10 PM–7 AM", "choose support-bot night"}, {"Always", "choose support-bot always"},
	} {
		r.tap(c.label)
		r.settle()
		if got := r.called(); got[len(got)-1] != c.call || !chosen(r.button(c.label)) {
			t.Errorf("%s: asked %q, chosen %v", c.label, got, chosen(r.button(c.label)))
		}
	}
	r.tap("Pause all for an hour")
	r.settle()
	r.tap("Open dashboard")
	r.settle()
	if got := r.called(); !slices.Equal(got[3:], []string{"pause", "open https://fleet.test"}) {
		t.Errorf("asked %q", got)
	}
	if want := []tray.News{tray.Wished, tray.Wished, tray.Wished, tray.Wished}; !slices.Equal(r.told, want) {
		t.Errorf("told the bar %q", r.told)
	}
}

func TestWhatWasRefusedStandsUntilTheNextTap(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", nil)))
	r.m.err = refused()
	r.tap("Paused")
	r.settle()
	const text = "The wish cannot be kept: no room on the disk: free some room and try again."
	if !r.says(text) || chosen(r.button("Paused")) {
		t.Error("the refusal is not shown, or the choice is")
	}
	r.m.err = nil
	r.tap("Paused")
	if r.says(text) {
		t.Error("the refusal stands while it is tried again")
	}
	r.settle()
}

func TestAgentsComeAndGoWhileTheWindowIsOpen(t *testing.T) {
	r := newRig(t, tray.Snapshot{})
	for n := range 4 {
		var all []tray.Agent
		for i := range n {
			all = append(all, agent(strings.Repeat("x", i+1), nil))
		}
		r.m.snap = loaded(all...)
		r.v.Renew()
		if got := len(r.buttons("Always")); got != n {
			t.Errorf("%d roles are shown as %d", n, got)
		}
	}
	r.m.change(func(s *localapi.Status) { s.Words = "loading" })
	r.v.Renew()
	if !r.says("loading, 38 tok/s") {
		t.Error("a change of words is not shown")
	}
	r.m.snap = loaded()
	r.v.Renew()
	if len(r.buttons("Always")) != 0 || len(r.buttons("Pause all for an hour")) != 0 {
		t.Error("a role that went is still there")
	}
}

func TestAnOlderAgentOffersWhatItKnows(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", older)))
	for label, on := range map[string]bool{"Always": true, "Paused": true, "10 PM–7 AM": false, "Custom…": false, "Hours and limits…": false, "Logs…": true, "Pause all for an hour": false} {
		if b := r.button(label); b.Disabled() == on {
			t.Errorf("%s: disabled %v", label, b.Disabled())
		}
	}
	r.v.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	if !r.says("Hours and limits: needs a newer agent. Update it: interlock agent update --now") || len(r.buttons("Save")) != 0 {
		t.Error("the editor of hours does not say why it cannot")
	}
	r.v.Show(tray.Page{Name: tray.HoursPage, Key: tray.Key{Group: "gone", Role: fleet.RoleClient}})
	if !r.says("This machine is no longer in that group.") {
		t.Error("a group that went is not said")
	}
}

func TestHoursAreEditedAndSaved(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", nil)))
	r.tap("Custom…")
	if !r.button("Save").Disabled() {
		t.Error("nothing changed, and it can be saved")
	}
	r.tap("Custom")
	e := r.entries()
	e[0].SetText("20:30")
	e[1].SetText("06:00")
	r.tap("Sat")
	r.tap("Sun")
	r.tap("Limit downloads")
	r.entries()[len(r.entries())-1].SetText("0,5")
	r.tap("Save")
	r.settle()
	want := schedule.Availability{
		Mode:      schedule.Window,
		Windows:   []schedule.Span{{Start: "20:30", End: "06:00", Days: []string{"mon", "tue", "wed", "thu", "fri"}}},
		Bandwidth: []schedule.Bandwidth{{Span: schedule.Span{Start: "22:00", End: "07:00"}, BytesPerSecond: 1 << 19}},
	}
	if d := cmp.Diff(want, r.m.set); d != "" {
		t.Errorf("saved (-want +got):\n%s", d)
	}
	if len(r.buttons("Hours and limits…")) != 1 {
		t.Error("the page did not go back")
	}
}

func TestWhatIsWrongStandsAtItsLineAndCannotBeSaved(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", custom)))
	r.v.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	e := r.entries() // two spans, the idle minutes, a limit with its speed
	if len(e) != 8 {
		t.Fatalf("%d fields", len(e))
	}
	for _, c := range []struct {
		name  string
		field int
		text  string
		part  string
	}{
		{"no time of day", 0, "25:00", `The start "25:00" is no time of day`},
		{"no time at all", 1, "", `The end "" is no time of day`},
		{"no minutes", 1, "20:00", "has 0 minutes"},
		{"overlap", 2, "x", `The start "x" is no time of day`},
		{"idle in words", 4, "ten", `"ten" is no number of minutes`},
		{"idle of nothing", 4, "0", `"0" is no number of minutes`},
		{"idle of a month", 4, "50000", "IdleMinutes is 50000"},
		{"speed in words", 7, "fast", `"fast" is no speed`},
		{"a negative speed", 7, "-1", `"-1" is no speed`},
		{"an endless speed", 7, "1e300", `"1e300" is no speed`},
		{"no number", 7, "NaN", `"NaN" is no speed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			was := e[c.field].Text
			e[c.field].SetText(c.text)
			if !r.contains(c.part) || !r.button("Save").Disabled() {
				t.Errorf("%q: said %q, save is off: %v", c.text, r.labels(), r.button("Save").Disabled())
			}
			e[c.field].SetText(was)
			if r.contains(c.part) {
				t.Error("it stays after it was mended")
			}
		})
	}
	t.Run("overlapping hours", func(t *testing.T) {
		r.tap("Add hours")
		if !r.contains("overlap") || !r.button("Save").Disabled() {
			t.Errorf("said %q", r.labels())
		}
	})
	t.Run("no day", func(t *testing.T) {
		for _, d := range []string{"Mon", "Tue", "Wed", "Thu", "Fri"} {
			r.tap(d)
		}
		if !r.contains("No day is chosen") {
			t.Errorf("said %q", r.labels())
		}
	})
	if calls := r.called(); len(calls) != 0 {
		t.Errorf("asked %q", calls)
	}
}

func TestARefusedSaveKeepsWhatWasTyped(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", custom)))
	r.v.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	r.entries()[0].SetText("21:00")
	r.m.err = refused()
	r.tap("Save")
	r.v.Renew() // news come in meanwhile
	r.settle()
	if r.entries()[0].Text != "21:00" || !r.contains("no room on the disk") || r.button("Save").Disabled() {
		t.Errorf("the field has %q, said %q", r.entries()[0].Text, r.labels())
	}
}

func TestHiddenHoursAreKeptAndCannotBeWrong(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", custom)))
	r.v.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	r.entries()[0].SetText("nonsense")
	r.tap("10 PM–7 AM")
	r.tap("Save")
	r.settle()
	if r.m.set.Mode != schedule.Night || len(r.m.set.Windows) != 2 || r.m.set.Windows[0].Start != "20:00" {
		t.Errorf("saved %+v", r.m.set)
	}
}

func TestUninstallAsksFirstAndSaysWhatIsLeft(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", nil)))
	r.v.Show(tray.Page{Name: tray.UninstallPage})
	for _, part := range []string{"stops every registered Interlock model worker", "does not delete shared model caches", "revoke its machine credential", "needs a fresh client or trainer key"} {
		if !r.contains(part) {
			t.Errorf("it is not said that it %s", part)
		}
	}
	r.tap("Cancel")
	if len(r.called()) != 0 || len(r.buttons("Hours and limits…")) != 1 {
		t.Error("cancel did something, or did not go back")
	}
	r.v.Show(tray.Page{Name: tray.UninstallPage})
	r.m.err, r.m.output, r.m.hold = refused(), "left: a.service\n", make(chan struct{})
	r.tap("Uninstall")
	if !r.button("Uninstall").Disabled() || !r.button("Cancel").Disabled() {
		t.Error("it can be asked for twice at once")
	}
	close(r.m.hold)
	r.settle()
	if !r.contains("no room on the disk") || !r.says("left: a.service") || slices.Contains(r.told, tray.Uninstalled) {
		t.Errorf("refused: said %q, told %q", r.labels(), r.told)
	}
	r.m.err, r.m.output, r.m.hold = nil, "removed: a.service\n", nil
	r.tap("Try again")
	r.settle()
	if !r.says("Everything was removed.") || !slices.Contains(r.told, tray.Uninstalled) {
		t.Errorf("done: said %q, told %q", r.labels(), r.told)
	}
	r.tap("Close")
	if !r.closed {
		t.Error("the window stays")
	}
}

func TestACallThatNeverEndsDoesNotKeepTheWindow(t *testing.T) {
	r := newRig(t, loaded(agent("support-bot", nil)))
	r.m.hold = make(chan struct{})
	r.tap("Paused")
	ended := make(chan struct{})
	go func() { r.v.End(); close(ended) }()
	close(r.m.hold)
	select {
	case <-ended:
	case <-time.After(5 * time.Second):
		t.Fatal("the window waits for ever")
	}
}

// labels are the visible texts.
func (r *rig) labels() []string {
	var out []string
	visit(r.w.Content(), func(o fyne.CanvasObject) {
		if l, ok := o.(*widget.Label); ok {
			out = append(out, l.Text)
		}
	})
	return out
}

func (r *rig) contains(part string) bool {
	return slices.ContainsFunc(r.labels(), func(s string) bool { return strings.Contains(s, part) })
}
