package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/tufrepo"
	"interlock.sh/updater"
)

// A program from elsewhere is copied and linked once; a folder that has everything needs nothing.
func TestPlaceOfAProgram(t *testing.T) {
	home := t.TempDir()
	e := enrollment.Enrollment{Home: enrollment.Home(home), Group: "g", Role: fleet.RoleClient}
	p, err := findPlace(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if p.app != "app" || len(p.steps) != 3 {
		t.Fatalf("it needs %v in %s", p.steps, p.app)
	}
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range []string{"current", "updater"} {
		st, err := os.Stat(filepath.Join(home, "app", link, "interlock"))
		if err != nil || st.Mode().Perm() != 0o755 || st.Size() != self.Size() {
			t.Errorf("%s: %v, %v", link, st, err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(home, "app", Version, ".*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if p, err = findPlace(t.Context(), e); err != nil || len(p.steps) > 0 {
		t.Errorf("a second time it needs %v, %v", p.steps, err)
	}
	// Where only the updater's link was lost, only that is made.
	if err := os.Remove(filepath.Join(home, "app", "updater")); err != nil {
		t.Fatal(err)
	}
	if p, err = findPlace(t.Context(), e); err != nil || len(p.steps) != 1 || p.steps[0][0] != "link" {
		t.Errorf("without the updater's link it needs %v, %v", p.steps, err)
	}
}

// An enrollment whose control plane has another root of trust than the common folder runs out of its own,
// from wherever its service is installed, and also when that control plane is away.
func TestPlaceByTheRootOfTrust(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	ours, other := tufrepo.New(t, time.Now()), tufrepo.New(t, time.Now())
	of := func(url string) enrollment.Enrollment {
		return enrollment.Enrollment{Home: enrollment.Home(home), Group: "g", Role: fleet.RoleClient, Origin: url}
	}
	first, server := ours.Serve(), other.Serve()
	o, err := mirror(first.URL, "", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Client.Close)
	if _, err := updater.Pin(t.Context(), filepath.Join(home, "app"), o); err != nil {
		t.Fatal(err)
	}
	if p, err := findPlace(t.Context(), of(first.URL)); err != nil || p.app != "app" {
		t.Fatalf("the same root: %s, %v", p.app, err)
	}
	p, err := findPlace(t.Context(), of(server.URL))
	if err != nil || !strings.HasPrefix(p.app, "app-") || len(p.steps) != 3 {
		t.Fatalf("another root: %v in %s, %v", p.steps, p.app, err)
	}
	own := p.app
	if err := p.prepare(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, "app", "current")); !os.IsNotExist(err) {
		t.Error("the common folder was changed:", err)
	}
	o, err = mirror(server.URL, "", false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Client.Close)
	if is, err := updater.Belongs(t.Context(), home, filepath.Join(home, own), o); err != nil || !is { // as each pass of the updater asks
		t.Fatal("its origin does not belong there:", err)
	}
	server.Close()
	if p, err := findPlace(t.Context(), of(server.URL)); err != nil || p.app != own || len(p.steps) > 0 {
		t.Errorf("with its control plane away: %v in %s, %v", p.steps, p.app, err)
	}
	if p, err := findPlace(t.Context(), of("http://127.0.0.1:1")); err != nil || p.app != "app" {
		t.Errorf("one that was never there: %s, %v", p.app, err)
	}
}
