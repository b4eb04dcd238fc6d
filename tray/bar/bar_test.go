//go:build linux

package bar_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
	"github.com/google/go-cmp/cmp"

	"interlock.sh/tray"
	"interlock.sh/tray/bar"
)

// The library keeps one item a process, so all tests share it and a private bus.
var shared struct {
	bar *bar.Bar
	bus *dbus.Conn
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "bus")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	daemon, address := startBus(dir)
	defer func() { _ = daemon.Process.Kill(); _ = daemon.Wait() }()
	if err := os.Setenv("DBUS_SESSION_BUS_ADDRESS", address); err != nil {
		panic(err)
	}
	if shared.bus, err = dbus.Connect(address); err != nil {
		panic(err)
	}
	defer shared.bus.Close()
	shared.bar = bar.New()
	ctx, cancel := context.WithCancel(context.Background())
	ended, ready := make(chan error), make(chan struct{})
	go func() {
		ended <- shared.bar.Run(ctx, func() { shared.bar.Show(nil, tray.Idle, "nothing"); close(ready) })
	}()
	<-ready
	code := m.Run()
	cancel()
	if err := <-ended; err != nil {
		panic(err)
	}
	return code
}

// startBus runs a bus that starts no services and that nobody else knows.
func startBus(dir string) (*exec.Cmd, string) {
	conf := filepath.Join(dir, "bus.conf")
	text := `<busconfig><type>session</type><listen>unix:dir=` + dir + `</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		panic(err)
	}
	cmd := exec.Command("dbus-daemon", "--config-file="+conf, "--nofork", "--nopidfile", "--print-address=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		panic(err)
	}
	if err := cmd.Start(); err != nil {
		panic(fmt.Sprintf("dbus-daemon is needed (packaging/dev/setup.sh installs it): %v", err))
	}
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		panic(err)
	}
	return cmd, strings.TrimSpace(address)
}

// layout is a menu as a panel reads it.
type layout struct {
	ID       int32
	Props    map[string]dbus.Variant
	Children []dbus.Variant
}

func item() string { return fmt.Sprintf("org.kde.StatusNotifierItem-%d-1", os.Getpid()) }

func menuObject() dbus.BusObject { return shared.bus.Object(item(), "/StatusNotifierItem/menu") }

func read(t testing.TB) layout {
	t.Helper()
	var rev uint32
	var l layout
	if err := menuObject().Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1), []string{}).Store(&rev, &l); err != nil {
		t.Fatal(err)
	}
	return l
}

// below are the children of a layout.
func below(t testing.TB, l layout) []layout {
	t.Helper()
	var out []layout
	for _, v := range l.Children {
		var c layout
		if err := dbus.Store([]any{v.Value()}, &c); err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// text writes what a panel would show, one line an item.
func text(t testing.TB, l layout, indent string) []string {
	t.Helper()
	var out []string
	for _, c := range below(t, l) {
		get := func(k string) any { return c.Props[k].Value() }
		if get("visible") == false {
			continue
		}
		line := fmt.Sprint(get("label"))
		if get("type") == "separator" {
			line = "--"
		}
		if get("toggle-type") == "checkmark" {
			line = map[bool]string{true: "[x] ", false: "[ ] "}[fmt.Sprint(get("toggle-state")) == "1"] + line
		}
		if get("enabled") == false {
			line = "(" + line + ")"
		}
		out = append(out, indent+line)
		out = append(out, text(t, c, indent+"  ")...)
	}
	return out
}

// id finds an item by its label.
func id(t testing.TB, l layout, label string) int32 {
	t.Helper()
	for _, c := range below(t, l) {
		if c.Props["label"].Value() == label {
			return c.ID
		}
		if in := id(t, c, label); in != 0 {
			return in
		}
	}
	return 0
}

func click(t testing.TB, label string) {
	t.Helper()
	n := id(t, read(t), label)
	if n == 0 {
		t.Fatalf("no item %q", label)
	}
	if err := menuObject().Call("com.canonical.dbusmenu.Event", 0, n, "clicked", dbus.MakeVariant(0), uint32(0)).Err; err != nil {
		t.Fatal(err)
	}
}

func expect(t *testing.T, want string) {
	t.Helper()
	if d := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), text(t, read(t), "")); d != "" {
		t.Errorf("the panel reads (-want +got):\n%s", d)
	}
}

func clicked(t *testing.T) tray.Action {
	t.Helper()
	select {
	case a := <-shared.bar.Clicks():
		return a
	case <-time.After(5 * time.Second):
		t.Fatal("no click came")
		return tray.Action{}
	}
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
	paused := id(t, read(t), "Paused")
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
	if id(t, read(t), "Paused") != paused {
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
	shared.bus.Signal(signals)
	defer shared.bus.RemoveSignal(signals)
	match := []dbus.MatchOption{dbus.WithMatchSender(item())}
	if err := shared.bus.AddMatchSignal(match...); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = shared.bus.RemoveMatchSignal(match...) }()
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
	if got := strings.Join(text(t, read(t), ""), "|"); strings.Count(got, "[x]") != 3 || !strings.HasSuffix(got, "|Quit") {
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
		conn, err := dbus.Connect(os.Getenv("DBUS_SESSION_BUS_ADDRESS"))
		if err != nil {
			t.Fatal(err)
		}
		w := &watcher{items: make(chan string, 4)}
		if err := conn.Export(w, "/StatusNotifierWatcher", watcherName); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.RequestName(watcherName, dbus.NameFlagDoNotQueue); err != nil {
			t.Fatal(err)
		}
		select {
		case got := <-w.items:
			if !strings.HasSuffix(got, "/StatusNotifierItem") {
				t.Errorf("panel %d got %q", panel, got)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("panel %d was not told of the item", panel)
		}
		_ = conn.Close() // the panel restarts
	}
}

func TestTheItemHasAPictureAndAName(t *testing.T) {
	shared.bar.Show([]tray.Item{quit()}, tray.Trouble, "1 needs attention")
	props := shared.bus.Object(item(), "/StatusNotifierItem")
	for prop, want := range map[string]any{"Title": "Nightshift", "Category": "ApplicationStatus", "Status": "Active", "ItemIsMenu": true} {
		v, err := props.GetProperty("org.kde.StatusNotifierItem." + prop)
		if err != nil || v.Value() != want {
			t.Errorf("%s is %v, %v", prop, v, err)
		}
	}
	v, err := props.GetProperty("org.kde.StatusNotifierItem.IconPixmap")
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
