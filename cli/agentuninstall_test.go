package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/agent/enrollment"
)

// Everything goes that belongs to this home, what starts Nightshift at login too; what belongs to another home
// of the same user stays.
func TestUninstallTakesNightshiftsAutostartAndNothingOfAnotherHome(t *testing.T) {
	l := newLab(t)
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("XDG_CONFIG_HOME", "")
	autostart := filepath.Join(user, ".config", "autostart")
	l.write(filepath.Join(autostart, "sh.interlock.nightshift.desktop"), "[Desktop Entry]\n", 0o644)
	l.write(filepath.Join(autostart, "other.desktop"), "[Desktop Entry]\n", 0o644)
	l.write(filepath.Join(string(l.home), "app", "1.0.0", "nightshift"), "night", 0o755)
	l.write(filepath.Join(string(l.home), "cache", "blobs", "ab"), "model", 0o600)

	code, out, errs := l.interlock("agent", "uninstall", "--all", "--dry-run")
	if code != 0 || !strings.Contains(out, "nothing was changed") || !strings.Contains(out, filepath.Join(autostart, "sh.interlock.nightshift.desktop")+"  (Nightshift)") {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	if code, out, errs = l.interlock("agent", "uninstall", "--all", "--yes"); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	left, err := os.ReadDir(autostart)
	if err != nil || len(left) != 1 || left[0].Name() != "other.desktop" {
		t.Errorf("what starts at login: %v, %v", left, err)
	}
	if left, err := os.ReadDir(string(l.home)); err != nil || len(left) != 1 || left[0].Name() != "cache" {
		t.Errorf("the home holds %v, %v", left, err)
	}
}

// The sockets of a home with a long path share a folder with those of other homes.
func TestSocketsOutsideAreThisHomesAlone(t *testing.T) {
	t.Parallel()
	deep := func(name string) enrollment.Home {
		home := enrollment.Home(filepath.Join(t.TempDir(), strings.Repeat("d", 90), name))
		if err := os.MkdirAll(home.Role("small-abc123", "client"), 0o700); err != nil {
			t.Fatal(err)
		}
		return home
	}
	one, other := socketsOutside(deep("one"), os.Getuid()), socketsOutside(deep("other"), os.Getuid())
	if len(one) != 6 || len(other) != 6 {
		t.Fatalf("%v\n%v", one, other)
	}
	for i := range one {
		if one[i] == other[i] || filepath.Dir(one[i]) != filepath.Dir(other[i]) {
			t.Errorf("%s and %s", one[i], other[i])
		}
	}
	short, err := os.MkdirTemp("/tmp", "h")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	if got := socketsOutside(enrollment.Home(short), os.Getuid()); len(got) > 0 {
		t.Errorf("a home whose sockets stand inside has %v", got)
	}
}

// Root may uninstall for another user, as by sudo on a system that keeps HOME: whose services to look for, the
// folder's owner says. Root makes no such folder, since it would be root's.
func TestWhoseServicesAnUninstallLooksFor(t *testing.T) {
	t.Parallel()
	own := func(uid int) enrollment.Home {
		home := t.TempDir()
		if os.Geteuid() == 0 { // nobody else can give a folder away
			if err := os.Chown(home, uid, -1); err != nil {
				t.Fatal(err)
			}
		}
		return enrollment.Home(home)
	}
	gone := func() enrollment.Home { return enrollment.Home(filepath.Join(t.TempDir(), "ns")) }
	for name, c := range map[string]struct {
		home  enrollment.Home
		euid  int
		looks bool
		makes bool
		root  bool // only root can set this up
		dry   bool
	}{
		"a user's own":              {home: own(1234), euid: 1234, looks: true, root: true},
		"a user's, asked by root":   {home: own(1234), euid: 0, looks: true, root: true},
		"root's own":                {home: own(0), euid: 0, root: true},
		"gone, asked by its user":   {home: gone(), euid: 1234, looks: true, makes: true},
		"gone, asked by root alone": {home: gone(), euid: 0},
		"a user's own, dry":         {home: own(1234), euid: 1234, looks: true, root: true, dry: true},
		"gone, dry":                 {home: gone(), euid: 1234, dry: true},
	} {
		if c.root && os.Geteuid() != 0 {
			continue
		}
		_, before := os.Stat(string(c.home))
		looks, err := mayHaveServices(c.home, c.euid, c.dry)
		_, after := os.Stat(string(c.home))
		if err != nil || looks != c.looks || (before != nil && after == nil) != c.makes {
			t.Errorf("%s: looks %v, made %v, %v", name, looks, before != nil && after == nil, err)
		}
	}
}

// What root removes for another user is that user's: their sockets, and their desktop.
func TestWhatRootRemovesIsTheOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		home := enrollment.Home(t.TempDir())
		if uid, there := ownerOf(home); uid != os.Geteuid() || !there {
			t.Errorf("a folder of this user's is %d's", uid)
		}
		return
	}
	home := enrollment.Home(filepath.Join(t.TempDir(), strings.Repeat("d", 90)))
	if err := os.MkdirAll(home.Role("small-abc123", "client"), 0o700); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534 // every system has this one
	if err := os.Chown(string(home), nobody, -1); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", t.TempDir())
	m := thisMachine(home)
	for _, path := range m.Sockets {
		if !strings.HasPrefix(path, "/tmp/nightshift-65534/") {
			t.Errorf("a socket of another user: %s", path)
		}
	}
	if len(m.Sockets) != 6 {
		t.Errorf("sockets %q", m.Sockets)
	}
	for _, path := range m.Desktop {
		if strings.HasPrefix(path, os.Getenv("HOME")) {
			t.Errorf("root's own desktop: %s", path)
		}
	}
}
