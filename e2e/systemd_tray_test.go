//go:build linux

package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/sessionbus"
)

var update = flag.Bool("update", false, "rewrite testdata/nightshift-menu.txt")

// menuGolden has Nightshift's menu in each state of the owner's day, for people to read.
const menuGolden = "testdata/nightshift-menu.txt"

// desk is a computer with a desktop: whoever logs in has a session bus, on which the test is the panel.
type desk struct {
	*computer
	bus    string // the folder of the bus, outside
	item   sessionbus.Item
	states []string // the menus so far
}

const busFolder = "/srv/bus"

// The bus of a session, at a place that both sides see. The test is another user than the session's.
const busConfig = `<busconfig><type>session</type><listen>unix:path=` + busFolder + `/bus</listen><auth>EXTERNAL</auth>
<policy context="default"><allow user="*"/><allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/></policy></busconfig>`

func newDesk(t *testing.T) *desk {
	t.Helper()
	folder := tempDir(t)
	bus := filepath.Join(folder, "bus")
	offers := filepath.Join(folder, "assets") // what the control plane offers: the agent and Nightshift
	for _, dir := range []string{bus, offers} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(bus, 0o777); err != nil { // the session's user makes its socket here
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bus, "bus.conf"), []byte(busConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(offers, os.DirFS(assets)); err != nil {
		t.Fatal(err)
	}
	// Without cgo it is the bar alone, which is all that a test without a display can see.
	for _, args := range [][]string{
		{"build", "-ldflags", "-s -w -X main.version=" + version, "-o", filepath.Join(offers, "nightshift-"+platform), "./cmd/nightshift"},
		{"run", "./installer/mkmanifest", offers, version},
	} {
		if err := goRun(args...); err != nil {
			t.Fatal(err)
		}
	}
	model := testkit.SmolLM2(t)
	return &desk{computer: newComputer(t, bus+":"+busFolder, offers+":/srv/assets:ro", filepath.Dir(model)+":/srv/model:ro"), bus: bus}
}

// login begins a session of fleet, which starts what stands in the user's autostart folder.
func (d *desk) login() {
	d.t.Helper()
	d.fleet(`[ "$(ls ~/.config/autostart)" = sh.interlock.nightshift.desktop ]`)
	d.root(`exec=$(sed -n 's/^Exec=//p' /home/fleet/.config/autostart/*.desktop)
systemd-run -q --unit=session --uid=fleet -E HOME=/home/fleet -E WAYLAND_DISPLAY=wayland-0 -p StandardError=file:` + busFolder + `/log sh -c "exec dbus-run-session --config-file=` + busFolder + `/bus.conf -- $exec"`)
	until(d.t, "Nightshift is in the bar", func() error {
		pid, err := strconv.Atoi(strings.TrimSpace(d.as("root", "pgrep -u fleet -x nightshift").out))
		if err != nil {
			return err
		}
		bus, err := sessionbus.Connect("unix:path=" + filepath.Join(d.bus, "bus"))
		if err != nil {
			return err
		}
		d.item = bus.Item(pid)
		if _, err := d.item.Menu(); err != nil {
			return fmt.Errorf("%w: %w", err, bus.Stop())
		}
		d.t.Cleanup(func() { _ = bus.Stop() })
		return nil
	})
	d.t.Cleanup(func() {
		if said, err := os.ReadFile(filepath.Join(d.bus, "log")); d.t.Failed() {
			d.t.Logf("the session said: %v\n%s", err, said)
		}
	})
}

// shows waits until the menu has a line, and keeps what it shows then.
func (d *desk) shows(state string, lines ...string) (menu string) {
	d.t.Helper()
	if err := d.item.Open(); err != nil { // it looks anew when somebody does
		d.t.Fatal(err)
	}
	var text []string
	until(d.t, "the menu of "+state, func() error {
		m, err := d.item.Menu()
		if err != nil {
			return err
		}
		text = m.Text()
		for i := range text {
			text[i] = measured.ReplaceAllString(text[i], "N tok/s")
		}
		for _, line := range lines {
			if !slices.Contains(text, line) {
				return fmt.Errorf("%q is not in\n%s", line, strings.Join(text, "\n"))
			}
		}
		return nil
	})
	menu = strings.Join(text, "\n")
	d.states = append(d.states, "# "+state+"\n\n"+menu+"\n")
	return menu
}

// What no two runs have alike.
var (
	measured = regexp.MustCompile(`[0-9.]+ tok/s`)
	anHour   = regexp.MustCompile(`until 0[23]:[0-9]{2}`) // later, in the middle of the night
)

func (d *desk) click(label string) {
	d.t.Helper()
	if err := d.item.Click(label); err != nil {
		d.t.Fatal(err)
	}
}

// clock sets the zone of the machine so that it is about this hour there.
func (d *desk) clock(hour int) {
	d.t.Helper()
	east := hour - time.Now().UTC().Hour()
	if east < -12 {
		east += 24
	}
	d.root(fmt.Sprintf("ln -sfn /usr/share/zoneinfo/Etc/GMT%+d /etc/localtime", -east)) // their signs are the other way round
}

// resident is the memory of all that fleet runs, in bytes.
func (d *desk) resident() (bytes int64) {
	d.t.Helper()
	for _, field := range strings.Fields(d.root("ps -u fleet -o rss= || true")) {
		kb, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			d.t.Fatal(err)
		}
		bytes += kb << 10
	}
	return bytes
}

func (d *desk) modelServer() string {
	d.t.Helper()
	return strings.TrimSpace(d.root("pgrep -u fleet -x llama-server"))
}

// everything lists the whole machine, but for what the control plane and the system write all the time.
func (d *desk) everything() []string {
	d.t.Helper()
	return strings.Split(d.root(`find / -xdev \( -path /var/plane -o -path `+busFolder+`  -o -path /var/log -o -path /var/tmp/systemd-private-* -o -path /tmp/systemd-private-* \) -prune -o \( -type d -printf '%p/\n' \) -o -printf '%p\n' | sort`), "\n")
}

// The owner's day with Nightshift: the pasted line puts it beside the agent where there is a desktop; after a
// restart of the machine it shows the service that came up by itself; a click frees the memory of a real
// model, another brings it back to work; the night is the machine's own; and at the end nothing is left.
func TestSystemdOwnersDay(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.plane()
	group, lines := d.group("small")
	unit := workerUnit(group, fleet.RoleClient)
	d.root("export HOME=/root; interlock models release create first --group small --file /srv/model/*.gguf --license Apache-2.0 --context 1024 --arg=-t --arg=1 &&" +
		" interlock models deploy first --group small --alias smollm2")
	before := d.everything()
	d.clock(12)

	out := d.fleet("export WAYLAND_DISPLAY=wayland-0\n" + lines[fleet.RoleClient])
	if now := d.service(unit); now.state != "active" || now.user != "fleet" {
		t.Fatalf("after the line the service is %+v\n%s", now, out)
	}
	ask := func() {
		t.Helper()
		d.root("HOME=/root interlock ask Hello --model smollm2 --json | grep -q succeeded")
	}
	d.wantMember(group, fleet.StateReady)
	ask()
	d.tool("reboot", d.dir)
	d.says("the control plane serves", "root", "curl -fsS "+planeURL+"/q/health")
	d.wantMember(group, fleet.StateReady)
	if now := d.service(unit); now.state != "active" || now.user != "fleet" {
		t.Fatalf("after the restart of the machine the service is %+v", now)
	}
	ask()

	d.login()
	const ready = "small (client): ready, N tok/s"
	d.shows("always, in the middle of the day", ready, "  [x] Always")
	full, server := d.resident(), d.modelServer()

	d.click("Paused")
	d.shows("paused", "small (client): paused (by owner)", "  [x] Paused")
	d.says("the model server is gone", "root", "[ ! -e /proc/"+server+" ] && ! pgrep -u fleet -x llama-server")
	d.wantMember(group, fleet.StatePaused)
	if freed := full - d.resident(); freed < 98<<20 { // the size of the model
		t.Errorf("the pause freed %d MB of %d MB", freed>>20, full>>20)
	}
	if got := d.as("root", "HOME=/root interlock ask Hello --model smollm2"); got.code == 0 {
		t.Errorf("a paused machine answered: %s", got.out)
	}

	d.click("Always")
	d.wantMember(group, fleet.StateReady)
	ask()
	if again := d.modelServer(); again == server {
		t.Errorf("the model server is still %s", again)
	}
	d.shows("always again", ready, "  [x] Always")

	d.click("10 PM–7 AM")
	d.shows("10 PM–7 AM, in the middle of the day", "small (client): paused (by owner until 22:00)", "  [x] 10 PM–7 AM")
	d.clock(2) // the machine is where it is night
	d.wantMember(group, fleet.StateReady)
	ask()
	d.shows("10 PM–7 AM, in the middle of the night", ready, "  [x] 10 PM–7 AM")

	d.click("Pause all for an hour")
	end := anHour.FindString(d.shows("paused for an hour", "(1 paused)"))
	d.click("Resume all (paused " + end + ")") // by the machine's clock, as the agent says it
	d.wantMember(group, fleet.StateReady)

	ask()

	d.fleet(interlock + "agent uninstall --all --yes")
	d.wantMember(group, fleet.StateOffline)
	d.says("Nightshift leaves the bar", "root", "! systemctl is-active session")
	d.left(before)
	d.golden()
}

// left checks what uninstalling left and took, against what was there before the install.
func (d *desk) left(before []string) {
	d.t.Helper()
	const cache = "/home/fleet/.nightshift/cache/"
	now := d.everything()
	kept := slices.DeleteFunc(difference(now, before), func(path string) bool { return strings.HasPrefix(path, cache) && path != cache })
	if want := []string{"/home/fleet/.cache/", "/home/fleet/.config/", "/home/fleet/.config/autostart/", "/home/fleet/.nightshift/", cache}; !slices.Equal(kept, want) {
		d.t.Errorf("uninstalling left\n%s\nwant\n%s", strings.Join(kept, "\n"), strings.Join(want, "\n"))
	}
	if taken := difference(before, now); len(taken) > 0 {
		d.t.Errorf("uninstalling took\n%s", strings.Join(taken, "\n"))
	}
}

func (d *desk) golden() {
	d.t.Helper()
	got := anHour.ReplaceAllString(strings.Join(d.states, "\n"), "until HH:MM")
	if *update {
		if err := os.WriteFile(menuGolden, []byte(got), 0o644); err != nil {
			d.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(menuGolden)
	if err != nil {
		d.t.Fatal(err)
	}
	if got != string(want) {
		d.t.Errorf("the menus are not those of %s; look at them, and run with -update:\n%s", menuGolden, got)
	}
}
