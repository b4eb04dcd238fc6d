package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The log of an agent stays within four times its cap, loses nothing that is newer than that, and goes on
// after a restart.
func TestLogFileStaysSmall(t *testing.T) {
	t.Parallel()
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
	for _, name := range []string{path + ".3", path + ".2", path + ".1", path} {
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
	if others, _ := os.ReadDir(filepath.Dir(path)); len(others) != 1+logsKept {
		t.Errorf("the folder holds %v", others)
	}
}

// A record stands in the file whatever becomes of the journal beside it.
func TestLogFileOutlivesTheJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "logs", "agent.log")
	l, err := newLogFile(path, 1000)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out := l.Beside(theirs)
	if _, err := fmt.Fprintln(out, "first"); err != nil {
		t.Fatal(err)
	}
	if b := make([]byte, 6); true {
		if _, err := ours.Read(b); err != nil || string(b) != "first\n" {
			t.Errorf("the journal has %q, %v", b, err)
		}
	}
	_ = ours.Close()
	if _, err := fmt.Fprintln(out, "second"); err != nil {
		t.Errorf("without a journal: %v", err)
	}
	_ = theirs.Close()
	if err := os.Remove(path); err != nil { // by somebody who cleans up
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(out, "third"); err != nil {
		t.Errorf("after the file was closed: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "third\n" {
		t.Errorf("the file has %q, %v", b, err)
	}
}
