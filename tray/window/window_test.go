//go:build linux || cgo

package window_test

import (
	"slices"
	"strings"
	"testing"

	"fyne.io/fyne/v2/widget"
	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/nightwindow"
	"interlock.sh/tray"
)

var bot = tray.Key{Group: "support-bot", Role: fleet.RoleClient}

func chosen(b *widget.Button) bool { return b.Importance == widget.HighImportance }

func TestAChoiceIsCarriedToTheAgentAndShown(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
	for _, c := range []struct{ label, call string }{
		{"Paused", "choose support-bot paused"}, {"10 PM–7 AM", "choose support-bot night"}, {"Always", "choose support-bot always"},
	} {
		r.Tap(c.label)
		r.Settle()
		if got := r.Called(); got[len(got)-1] != c.call || !chosen(r.Button(c.label)) {
			t.Errorf("%s: asked %q, chosen %v", c.label, got, chosen(r.Button(c.label)))
		}
	}
	r.Tap("Pause all for an hour")
	r.Settle()
	r.Tap("Open dashboard")
	r.Settle()
	if got := r.Called(); !slices.Equal(got[3:], []string{"pause", "open https://fleet.test"}) {
		t.Errorf("asked %q", got)
	}
	if want := []tray.News{tray.Wished, tray.Wished, tray.Wished, tray.Wished}; !slices.Equal(r.Told, want) {
		t.Errorf("told the bar %q", r.Told)
	}
}

func TestWhatWasRefusedStandsUntilTheNextTap(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
	r.Machine.Err = nightwindow.Refused()
	r.Tap("Paused")
	r.Settle()
	const text = "The wish cannot be kept: no room on the disk. Free some room and try again."
	if !r.Says(text) || chosen(r.Button("Paused")) {
		t.Error("the refusal is not shown, or the choice is")
	}
	r.Machine.Err = nil
	r.Tap("Paused")
	if r.Says(text) {
		t.Error("the refusal stands while it is tried again")
	}
	r.Settle()
}

func TestAgentsComeAndGoWhileTheWindowIsOpen(t *testing.T) {
	r := nightwindow.New(t, tray.Snapshot{})
	for n := range 4 {
		var all []tray.Agent
		for i := range n {
			all = append(all, nightwindow.Agent(strings.Repeat("x", i+1), nil))
		}
		r.Machine.Snap = nightwindow.Loaded(all...)
		r.View.Renew()
		if got := len(r.Buttons("Always")); got != n {
			t.Errorf("%d roles are shown as %d", n, got)
		}
	}
	r.Machine.Change(func(s *localapi.Status) { s.Words = "loading" })
	r.View.Renew()
	if !r.Says("Loading, 38 tok/s") {
		t.Error("a change of words is not shown")
	}
	r.Machine.Snap = nightwindow.Loaded()
	r.View.Renew()
	if len(r.Buttons("Always")) != 0 || len(r.Buttons("Pause all for an hour")) != 0 {
		t.Error("a role that went is still there")
	}
}

func TestAnOlderAgentOffersWhatItKnows(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nightwindow.Older)))
	for label, on := range map[string]bool{"Always": true, "Paused": true, "10 PM–7 AM": false, "Custom…": false, "Hours and limits…": false, "Logs…": true, "Pause all for an hour": false} {
		if b := r.Button(label); b.Disabled() == on {
			t.Errorf("%s: disabled %v", label, b.Disabled())
		}
	}
	r.View.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	if !r.Says("Hours and limits: needs a newer agent. Update it: interlock agent update --now") || len(r.Buttons("Save")) != 0 {
		t.Error("the editor of hours does not say why it cannot")
	}
	r.View.Show(tray.Page{Name: tray.HoursPage, Key: tray.Key{Group: "gone", Role: fleet.RoleClient}})
	if !r.Says("This machine is no longer in that group.") {
		t.Error("a group that went is not said")
	}
}

func TestHoursAreEditedAndSaved(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
	r.Tap("Custom…")
	if !r.Button("Save").Disabled() {
		t.Error("nothing changed, and it can be saved")
	}
	r.Tap("Custom")
	e := r.Entries()
	e[0].SetText("20:30")
	e[1].SetText("06:00")
	r.Tap("Sat")
	r.Tap("Sun")
	r.Tap("Limit downloads")
	r.Entries()[len(r.Entries())-1].SetText("0,5")
	r.Tap("Save")
	r.Settle()
	want := schedule.Availability{
		Mode:      schedule.Window,
		Windows:   []schedule.Span{{Start: "20:30", End: "06:00", Days: []string{"mon", "tue", "wed", "thu", "fri"}}},
		Bandwidth: []schedule.Bandwidth{{Span: schedule.Span{Start: "22:00", End: "07:00"}, BytesPerSecond: 1 << 19}},
	}
	if d := cmp.Diff(want, r.Machine.Set); d != "" {
		t.Errorf("saved (-want +got):\n%s", d)
	}
	if len(r.Buttons("Hours and limits…")) != 1 {
		t.Error("the page did not go back")
	}
}

func TestWhatIsWrongStandsAtItsLineAndCannotBeSaved(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nightwindow.Custom)))
	r.View.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	e := r.Entries() // two spans, the idle minutes, a limit with its speed
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
			if !r.Contains(c.part) || !r.Button("Save").Disabled() {
				t.Errorf("%q: said %q, save is off: %v", c.text, r.Labels(), r.Button("Save").Disabled())
			}
			e[c.field].SetText(was)
			if r.Contains(c.part) {
				t.Error("it stays after it was mended")
			}
		})
	}
	t.Run("overlapping hours", func(t *testing.T) {
		r.Tap("Add hours")
		if !r.Contains("overlap") || !r.Button("Save").Disabled() {
			t.Errorf("said %q", r.Labels())
		}
	})
	t.Run("no day", func(t *testing.T) {
		for _, d := range []string{"Mon", "Tue", "Wed", "Thu", "Fri"} {
			r.Tap(d)
		}
		if !r.Contains("No day is chosen") {
			t.Errorf("said %q", r.Labels())
		}
	})
	if calls := r.Called(); len(calls) != 0 {
		t.Errorf("asked %q", calls)
	}
}

func TestARefusedSaveKeepsWhatWasTyped(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nightwindow.Custom)))
	r.View.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	r.Entries()[0].SetText("21:00")
	r.Machine.Err = nightwindow.Refused()
	r.Tap("Save")
	r.View.Renew() // news come in meanwhile
	r.Settle()
	if r.Entries()[0].Text != "21:00" || !r.Contains("no room on the disk") || r.Button("Save").Disabled() {
		t.Errorf("the field has %q, said %q", r.Entries()[0].Text, r.Labels())
	}
}

func TestHiddenHoursAreKeptAndCannotBeWrong(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nightwindow.Custom)))
	r.View.Show(tray.Page{Name: tray.HoursPage, Key: bot})
	r.Entries()[0].SetText("nonsense")
	r.Tap("10 PM–7 AM")
	r.Tap("Save")
	r.Settle()
	if r.Machine.Set.Mode != schedule.Night || len(r.Machine.Set.Windows) != 2 || r.Machine.Set.Windows[0].Start != "20:00" {
		t.Errorf("saved %+v", r.Machine.Set)
	}
}

func TestUninstallAsksFirstAndSaysWhatIsLeft(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
	r.View.Show(tray.Page{Name: tray.UninstallPage})
	for _, part := range []string{"stops every registered Interlock model worker", "does not delete shared model caches", "revoke its machine credential", "needs a fresh client or trainer key"} {
		if !r.Contains(part) {
			t.Errorf("it is not said that it %s", part)
		}
	}
	r.Tap("Cancel")
	if len(r.Called()) != 0 || len(r.Buttons("Hours and limits…")) != 1 {
		t.Error("cancel did something, or did not go back")
	}
	r.View.Show(tray.Page{Name: tray.UninstallPage})
	r.Machine.Err, r.Machine.Output, r.Machine.Hold = nightwindow.Refused(), "left: a.service\n", make(chan struct{})
	r.Tap("Uninstall")
	if !r.Button("Uninstall").Disabled() || !r.Button("Cancel").Disabled() {
		t.Error("it can be asked for twice at once")
	}
	close(r.Machine.Hold)
	r.Settle()
	if !r.Contains("no room on the disk") || !r.Says("left: a.service") || slices.Contains(r.Told, tray.Uninstalled) {
		t.Errorf("refused: said %q, told %q", r.Labels(), r.Told)
	}
	r.Machine.Err, r.Machine.Output, r.Machine.Hold = nil, "removed: a.service\n", nil
	r.Tap("Try again")
	r.Settle()
	if !r.Says("Everything was removed.") || !slices.Contains(r.Told, tray.Uninstalled) {
		t.Errorf("done: said %q, told %q", r.Labels(), r.Told)
	}
	r.Tap("Close")
	if !r.Closed {
		t.Error("the window stays")
	}
}

func TestACallThatNeverEndsDoesNotKeepTheWindow(t *testing.T) {
	r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
	r.Machine.Hold = make(chan struct{}) // nothing but the end of its context ends the call
	r.Tap("Paused")
	ended := make(chan struct{})
	go func() { r.View.End(); close(ended) }()
	testkit.Get(t, "the end of the window", ended)
}
