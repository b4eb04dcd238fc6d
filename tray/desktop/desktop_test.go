package desktop_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
	"interlock.sh/tray/desktop"
)

func env(pairs ...string) func(string) string {
	return func(k string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == k {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestAPlaceWithoutADesktopIsRefusedWithTheWayOut(t *testing.T) {
	run := t.TempDir()
	bus := filepath.Join(run, "bus")
	write(t, bus, "")
	for _, c := range []struct {
		name                 string
		os                   string
		env                  func(string) string
		session, bar, window bool
	}{
		{"nothing", "linux", env(), false, false, false},
		{"X", "linux", env("DISPLAY", ":0", "DBUS_SESSION_BUS_ADDRESS", "unix:path=/x"), true, true, true},
		{"Wayland with Xwayland", "linux", env("WAYLAND_DISPLAY", "wayland-0", "DISPLAY", ":0", "XDG_RUNTIME_DIR", run), true, true, true},
		{"Wayland alone", "linux", env("WAYLAND_DISPLAY", "wayland-0", "XDG_RUNTIME_DIR", run), true, true, false},
		{"ssh -X", "linux", env("DISPLAY", "localhost:10", "XDG_RUNTIME_DIR", t.TempDir()), true, false, true},
		{"a Mac", "darwin", env(), true, true, true},
	} {
		d := desktop.Desktop{OS: c.os, Getenv: c.env}
		for what, got := range map[string]error{"session": d.Session(), "bar": d.Bar(), "window": d.Window()} {
			want := map[string]bool{"session": c.session, "bar": c.bar, "window": c.window}[what]
			if (got == nil) != want {
				t.Errorf("%s, %s: %v", c.name, what, got)
			}
			if got != nil && (!errors.Is(got, fault.Unavailable) || fault.Of(got).Hint == "") {
				t.Errorf("%s, %s: %v has no way out", c.name, what, got)
			}
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	testkit.WriteProgram(t, path, []byte(text))
}

// installed is a home with programs that are scripts, and the file that they write what they were asked to.
func installed(t *testing.T, script string, apps ...string) (desktop.Desktop, string) {
	t.Helper()
	home := filepath.Join(t.TempDir(), "odd [name]*")
	log := filepath.Join(t.TempDir(), "log")
	for _, a := range apps {
		write(t, filepath.Join(home, a, "1.0.0", "interlock"), "#!/bin/sh\necho \"$@\" >>"+log+"\n"+script)
		if err := os.Symlink("1.0.0", filepath.Join(home, a, "current")); err != nil {
			t.Fatal(err)
		}
	}
	return desktop.Desktop{OS: "linux", Getenv: env(), Home: home}, log
}

func asked(t *testing.T, log string) []string {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(b)), "\n")
}

func TestUpdatesAreCheckedByEachInstall(t *testing.T) {
	d, log := installed(t, "", "app", "app-0123abcd")
	if err := d.CheckUpdates(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := asked(t, log); !slices.Equal(got, []string{"agent update --check", "agent update --check"}) {
		t.Errorf("asked %q", got)
	}
	d, _ = installed(t, "echo noise >&2\necho 'interlock: the metadata expired (run interlock agent doctor)' >&2\nexit 1\n", "app")
	if err := d.CheckUpdates(t.Context()); !errors.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "cannot be checked: the metadata expired (run interlock agent doctor)") {
		t.Errorf("said %v", err)
	}
	d, _ = installed(t, "")
	if err := d.CheckUpdates(t.Context()); !errors.Is(err, fault.NotFound) || fault.Of(err).Hint == "" {
		t.Errorf("nothing installed: %v", err)
	}
}

func TestUninstallSaysWhatIsLeft(t *testing.T) {
	d, log := installed(t, "echo 'removed: everything'\n", "app", "app-0123abcd")
	out, err := d.Uninstall(t.Context())
	if got := asked(t, log); err != nil || out != "removed: everything\n" || !slices.Equal(got, []string{"agent uninstall --all --yes"}) {
		t.Errorf("asked %q, said %q, %v", got, out, err)
	}
	d, _ = installed(t, "echo 'left: a.service'\necho 'interlock: sudo was refused' >&2\nexit 1\n", "app")
	out, err = d.Uninstall(t.Context())
	if !errors.Is(err, fault.Conflict) || out != "left: a.service\n" || !strings.Contains(err.Error(), "sudo was refused") || fault.Of(err).Hint == "" {
		t.Errorf("refused: %q, %v", out, err)
	}
	d, _ = installed(t, "")
	if _, err := d.Uninstall(t.Context()); !errors.Is(err, fault.NotFound) {
		t.Errorf("nothing installed: %v", err)
	}
}

func TestAProgramThatNeverEndsIsGivenUp(t *testing.T) {
	d, _ := installed(t, "exec sleep 600\n", "app")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.CheckUpdates(ctx); err == nil {
		t.Error("it was waited for")
	}
}

func TestOnlyWebAddressesAreOpened(t *testing.T) {
	bin := t.TempDir()
	log := filepath.Join(bin, "log")
	write(t, filepath.Join(bin, "xdg-open"), "#!/bin/sh\necho \"$@\" >>"+log+"\n")
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	d := desktop.Desktop{OS: "linux", Getenv: env()}
	if err := d.Open(t.Context(), "https://fleet.test/a"); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"file:///etc/passwd", "--help", "", "javascript:x"} {
		if err := d.Open(t.Context(), bad); !errors.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if got := asked(t, log); !slices.Equal(got, []string{"https://fleet.test/a"}) {
		t.Errorf("opened %q", got)
	}
	write(t, filepath.Join(bin, "xdg-open"), "#!/bin/sh\nexit 3\n")
	if err := d.Open(t.Context(), "https://fleet.test"); !errors.Is(err, fault.Unavailable) || fault.Of(err).Hint == "" {
		t.Errorf("no browser: %v", err)
	}
}

func TestTheLinkThatUpdatesMoveIsTheProgram(t *testing.T) {
	home := t.TempDir()
	d := desktop.Desktop{OS: "linux", Getenv: env(), Home: home}
	one, two := filepath.Join(home, "app", "1.0.0", "nightshift"), filepath.Join(home, "app", "1.1.0", "nightshift")
	write(t, one, "1")
	write(t, two, "2")
	link := filepath.Join(home, "app", "current")
	if got := d.Program(one); got != one {
		t.Errorf("without a link: %s", got)
	}
	if err := os.Symlink("1.0.0", link); err != nil {
		t.Fatal(err)
	}
	program := d.Program(one)
	if program != filepath.Join(link, "nightshift") || d.Program(two) != two {
		t.Errorf("%s, %s", program, d.Program(two))
	}
	replaced := d.Replaced(program)
	if replaced() {
		t.Error("nothing was replaced")
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if replaced() {
		t.Error("a link that is gone is no newer version")
	}
	if err := os.Symlink("1.1.0", link); err != nil {
		t.Fatal(err)
	}
	if !replaced() {
		t.Error("the newer version is not seen")
	}
	if d.Replaced(filepath.Join(home, "none"))() {
		t.Error("a program that was never there was replaced")
	}
}

func TestRemovedIsWhenNeitherProgramNorGroupsAreLeft(t *testing.T) {
	home := t.TempDir()
	program, groups := filepath.Join(home, "nightshift"), filepath.Join(home, "groups")
	d := desktop.Desktop{Home: home}
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(groups, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []struct {
		path string
		want bool
	}{{"", false}, {program, false}, {groups, true}} {
		if err := os.Remove(gone.path); err != nil && gone.path != "" {
			t.Fatal(err)
		}
		if got := d.Removed(program); got != gone.want {
			t.Errorf("without %q: %v", gone.path, got)
		}
	}
}
