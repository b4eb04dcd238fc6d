package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log of a service stays within twice its cap, loses nothing that is newer than that, and goes on
// after a restart.
func TestLogFileStaysSmall(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "agent.log")
	const limit = 1000
	n := 0
	for range 3 {
		l, err := newLogFile(path, limit)
		if err != nil {
			t.Fatal(err)
		}
		for range 100 {
			n++
			if _, err := fmt.Fprintf(l, "line %06d\n", n); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var all string
	for _, name := range []string{path + ".1", path} {
		b, err := os.ReadFile(name)
		if err != nil || len(b) > limit {
			t.Errorf("%s has %d bytes, %v", filepath.Base(name), len(b), err)
		}
		all += string(b)
	}
	lines := strings.Split(strings.TrimSpace(all), "\n")
	for i, line := range lines {
		if want := fmt.Sprintf("line %06d", n-len(lines)+1+i); line != want {
			t.Fatalf("line %d of %d is %q, want %q", i, len(lines), line, want)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	if others, _ := os.ReadDir(filepath.Dir(path)); len(others) != 2 {
		t.Errorf("the folder holds %v", others)
	}
}
