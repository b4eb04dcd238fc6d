//go:build linux

package bar_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/sessionbus"
	"interlock.sh/tray"
	"interlock.sh/tray/bar"
)

// An item has the name of its process, so all tests share one, and a private bus.
var shared struct {
	bar  *bar.Bar
	bus  *sessionbus.Bus
	item sessionbus.Item
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	var err error
	if shared.bus, err = sessionbus.Start(); err != nil {
		panic(err)
	}
	defer shared.bus.Stop() //nolint:errcheck // the tests have ended
	if err := os.Setenv("DBUS_SESSION_BUS_ADDRESS", shared.bus.Address); err != nil {
		panic(err)
	}
	shared.item, shared.bar = shared.bus.Item(os.Getpid()), bar.New()
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		ended <- shared.bar.Run(ctx, func() { shared.bar.Show(nil, tray.Idle, "nothing"); close(ready) })
	}()
	late := time.After(testkit.Patience)
	select {
	case <-ready:
	case err := <-ended:
		panic(fmt.Sprintf("the bar ended: %v", err))
	case <-late:
		panic("the bar is not ready")
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for { // until the item is on the bus
		_, err := shared.item.Menu()
		if err == nil {
			break
		}
		select {
		case <-tick.C:
		case <-late:
			panic(err)
		}
	}
	code := m.Run()
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			panic(err)
		}
	case <-time.After(testkit.Patience):
		panic("the bar does not end")
	}
	return code
}

func read(t *testing.T) sessionbus.Layout {
	t.Helper()
	m, err := shared.item.Menu()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func click(t *testing.T, label string) {
	t.Helper()
	if err := shared.item.Click(label); err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, want string) {
	t.Helper()
	if d := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), read(t).Text()); d != "" {
		t.Errorf("the panel reads (-want +got):\n%s", d)
	}
}

func clicked(t *testing.T) tray.Action {
	t.Helper()
	return testkit.Get(t, "a click", shared.bar.Clicks())
}

func role(name string, on, hidden bool) tray.Item {
	return tray.Item{Kind: tray.Submenu, Label: name, Enabled: true, Hidden: hidden, Items: []tray.Item{
		{Label: "model: ready"},
		{Kind: tray.Separator},
		{Kind: tray.Choice, Label: "Always", Enabled: true, Checked: on, Action: tray.Action{Verb: tray.Choose, Mode: "always", Key: tray.Key{Group: name}}},
		{Kind: tray.Choice, Label: "Paused", Enabled: true, Checked: !on, Action: tray.Action{Verb: tray.Choose, Mode: "paused", Key: tray.Key{Group: name}}},
	}}
}

func quit() tray.Item {
	return tray.Item{Label: "Quit", Enabled: true, Action: tray.Action{Verb: tray.Quit}}
}

func TestAMenuIsShownChangedInPlaceAndClicked(t *testing.T) {
	shared.bar.Show([]tray.Item{{Label: "1 working"}, role("my_bot", true, false), role("", true, true), {Kind: tray.Separator}, quit()}, tray.Working, "1 working")
	expect(t, `
(1 working)
my__bot
  (model: ready)
  --
  [x] Always
  [ ] Paused
--
Quit`)
	paused, _ := read(t).Find("Paused")
	click(t, "Paused")
	if a := clicked(t); a.Mode != "paused" || a.Key.Group != "my_bot" {
		t.Errorf("clicked %+v", a)
	}
	shared.bar.Show([]tray.Item{{Label: "2 working"}, role("my_bot", false, false), role("other", true, false), {Kind: tray.Separator}, quit()}, tray.Resting, "2 working")
	expect(t, `
(2 working)
my__bot
  (model: ready)
  --
  [ ] Always
  [x] Paused
other
  (model: ready)
  --
  [x] Always
  [ ] Paused
--
Quit`)
	if now, _ := read(t).Find("Paused"); now.ID != paused.ID {
		t.Error("the menu was built anew, so an open one would jump")
	}
	click(t, "other") // a submenu itself does nothing, and says so
	if a := clicked(t); a.Verb != tray.Nothing {
		t.Errorf("clicked %+v", a)
	}
}

func TestNothingIsSentWhenNothingChanged(t *testing.T) {
	menu := []tray.Item{{Label: "same"}, role("a", true, false), quit()}
	shared.bar.Show(menu, tray.Working, "same")
	signals := make(chan *dbus.Signal, 64)
	shared.bus.Conn.Signal(signals)
	defer shared.bus.Conn.RemoveSignal(signals)
	match := []dbus.MatchOption{dbus.WithMatchSender(shared.item.Name)}
	if err := shared.bus.Conn.AddMatchSignal(match...); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shared.bus.Conn.RemoveMatchSignal(match...) }()
	read(t)
	for len(signals) > 0 {
		<-signals
	}
	for range 100 {
		shared.bar.Show(menu, tray.Working, "same")
	}
	read(t) // an answer comes after every signal sent before it
	if n := len(signals); n != 0 {
		t.Errorf("%d signals for nothing", n)
	}
	menu[0].Label = "other"
	shared.bar.Show([]tray.Item{{Label: "other"}, role("a", false, false), quit()}, tray.Working, "same")
	read(t)
	if n := len(signals); n == 0 || n > 8 {
		t.Errorf("%d signals for three changed lines", n)
	}
}

func TestMoreRolesThanPlacesAreBuiltAnew(t *testing.T) {
	shared.bar.Show([]tray.Item{role("a", true, false), quit()}, tray.Working, "")
	shared.bar.Show([]tray.Item{role("a", true, false), role("b", true, false), role("c", false, false), quit()}, tray.Working, "")
	if got := strings.Join(read(t).Text(), "|"); strings.Count(got, "[x]") != 3 || !strings.HasSuffix(got, "|Quit") {
		t.Errorf("the panel reads %s", got)
	}
	click(t, "Quit")
	if a := clicked(t); a.Verb != tray.Quit {
		t.Errorf("clicked %+v", a)
	}
}

// watcher plays the panel's side, where items register.
type watcher struct{ items chan string }

// RegisterStatusNotifierItem is called by items.
func (w *watcher) RegisterStatusNotifierItem(service string, sender dbus.Sender) *dbus.Error {
	w.items <- string(sender) + service
	return nil
}

const watcherName = "org.kde.StatusNotifierWatcher"

func TestItRegistersWithEachPanelThatComes(t *testing.T) {
	for panel := range 3 {
		conn, err := dbus.Connect(shared.bus.Address)
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{items: make(chan string, 4)}
		if err := conn.Export(w, "/StatusNotifierWatcher", watcherName); err != nil {
			t.Fatal(err)
		}
		if reply, err := conn.RequestName(watcherName, dbus.NameFlagDoNotQueue); err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
			t.Fatalf("panel %d does not become the panel: %v, %v", panel, reply, err)
		}
		if got := testkit.Get(t, "the item at the panel", w.items); !strings.HasSuffix(got, "/StatusNotifierItem") {
			t.Errorf("panel %d got %q", panel, got)
		}
		// The panel restarts. Its name is given back with an answer: the bus hears of a closed connection later.
		if _, err := conn.ReleaseName(watcherName); err != nil {
			t.Error(err)
		}
		_ = conn.Close()
	}
}

func TestTheItemHasAPictureAndAName(t *testing.T) {
	shared.bar.Show([]tray.Item{quit()}, tray.Trouble, "1 needs attention")
	for prop, want := range map[string]any{"Title": "Nightshift", "Category": "ApplicationStatus", "Status": "Active", "ItemIsMenu": true} {
		v, err := shared.item.Property(prop)
		if err != nil || v.Value() != want {
			t.Errorf("%s is %v, %v", prop, v, err)
		}
	}
	v, err := shared.item.Property("IconPixmap")
	if err != nil {
		t.Fatal(err)
	}
	var pics []struct {
		W, H int32
		Pix  []byte
	}
	if err := v.Store(&pics); err != nil || len(pics) != 1 || pics[0].W != pics[0].H || len(pics[0].Pix) != int(4*pics[0].W*pics[0].H) {
		t.Errorf("picture: %d, %v", len(pics), err)
	}
}

// TestAnswersComeInTheOrderOfTheQuestions: a panel that gets a submenu's properties before those of its parent
// leaves the submenu empty.
func TestAnswersComeInTheOrderOfTheQuestions(t *testing.T) {
	shared.bar.Show([]tray.Item{role("a", true, false), role("b", true, false), quit()}, tray.Working, "")
	menu := shared.bus.Conn.Object(shared.item.Name, "/StatusNotifierItem/menu")
	for range 30 {
		const questions = 90 // a bus lets one connection wait for 128 answers
		answers := make(chan *dbus.Call, questions)
		var asked []*dbus.Call
		for range questions / 3 {
			asked = append(asked, menu.Go("com.canonical.dbusmenu.GetLayout", 0, answers, int32(0), int32(-1), []string{}),
				menu.Go("com.canonical.dbusmenu.GetGroupProperties", 0, answers, []int32{0}, []string{}),
				menu.Go("com.canonical.dbusmenu.AboutToShow", 0, answers, int32(0)))
		}
		for n, call := range asked {
			if got := <-answers; got != call || got.Err != nil {
				t.Fatalf("answer %d is not that of question %d, or %v", n, n, got.Err)
			}
		}
	}
}

func TestWhatNobodyShouldAskIsRefusedAndHarmless(t *testing.T) {
	shared.bar.Show([]tray.Item{quit()}, tray.Working, "")
	menu := shared.bus.Conn.Object(shared.item.Name, "/StatusNotifierItem/menu")
	for _, c := range []struct {
		method string
		args   []any
	}{
		{"com.canonical.dbusmenu.GetLayout", nil},
		{"com.canonical.dbusmenu.GetLayout", []any{"zero", int32(0), []string{}}},
		{"com.canonical.dbusmenu.GetLayout", []any{int32(99999), int32(-1), []string{}}},
		{"com.canonical.dbusmenu.GetProperty", []any{int32(0), "nothing"}},
		{"com.canonical.dbusmenu.Event", []any{int32(0)}},
		{"com.canonical.dbusmenu.EventGroup", []any{"x"}},
		{"com.canonical.dbusmenu.Format", nil},
		{"org.freedesktop.DBus.Properties.Get", []any{"com.canonical.dbusmenu", "Secret"}},
		{"org.freedesktop.DBus.Properties.Set", []any{"com.canonical.dbusmenu", "Version", dbus.MakeVariant(1)}},
	} {
		if err := menu.Call(c.method, 0, c.args...).Err; err == nil || !strings.Contains(err.Error(), "of this shape") {
			t.Errorf("%s %v: %v", c.method, c.args, err)
		}
	}
	if err := shared.item.ClickID(99999); err != nil { // a line that is gone
		t.Error(err)
	}
	select {
	case a := <-shared.bar.Clicks():
		t.Errorf("clicked %+v", a)
	default:
	}
	expect(t, "Quit")
}
