package cli

import (
	"os"
	"path/filepath"
	"testing"

	"interlock.sh/agent/enrollment"
)

// A program from elsewhere is copied and linked once; a folder that has everything needs nothing.
func TestPlaceOfAProgram(t *testing.T) {
	home := t.TempDir()
	p, err := findPlace(enrollment.Home(home))
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
	if p, err = findPlace(enrollment.Home(home)); err != nil || len(p.steps) > 0 {
		t.Errorf("a second time it needs %v, %v", p.steps, err)
	}
	// Where only the updater's link was lost, only that is made.
	if err := os.Remove(filepath.Join(home, "app", "updater")); err != nil {
		t.Fatal(err)
	}
	if p, err = findPlace(enrollment.Home(home)); err != nil || len(p.steps) != 1 || p.steps[0][0] != "link" {
		t.Errorf("without the updater's link it needs %v, %v", p.steps, err)
	}
}
