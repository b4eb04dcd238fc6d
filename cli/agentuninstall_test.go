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
	one, other := socketsOutside(deep("one")), socketsOutside(deep("other"))
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
	if got := socketsOutside(enrollment.Home(short)); len(got) > 0 {
		t.Errorf("a home whose sockets stand inside has %v", got)
	}
}
