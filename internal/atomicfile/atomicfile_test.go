package atomicfile

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWriteReplacesAndLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "f")
	for _, s := range []string{"one", "two"} {
		if err := Write(p, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(p); string(got) != s {
			t.Fatalf("read %q, want %q", got, s)
		}
	}
	st, _ := os.Stat(p)
	if st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, want 0600", st.Mode().Perm())
	}
	es, _ := os.ReadDir(dir)
	if len(es) != 1 {
		t.Fatalf("%d entries left, want 1", len(es))
	}
}

func TestWriteFailureKeepsTheOldFile(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "d")
	if err := os.MkdirAll(filepath.Join(p, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(p, []byte("x"), 0o600); err == nil {
		t.Fatal("renaming onto a full directory succeeded")
	}
	es, _ := os.ReadDir(dir)
	if len(es) != 1 {
		t.Fatalf("a temporary file stayed: %v", es)
	}
}

func TestSymlinkSwaps(t *testing.T) {
	dir := t.TempDir()
	l := filepath.Join(dir, "current")
	for _, to := range []string{"1.0", "1.1"} {
		if err := Symlink(to, l); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.Readlink(l); got != to {
			t.Fatalf("link points at %q, want %q", got, to)
		}
	}
}

func TestExchange(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, p := range []string{a, b} {
		if err := os.MkdirAll(filepath.Join(p, "was "+filepath.Base(p)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := Exchange(a, b); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(a, "was b")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(b, "was a")); err != nil {
		t.Error(err)
	}
	if err := Exchange(a, filepath.Join(dir, "none")); err == nil {
		t.Error("a name that is not there was exchanged")
	}
	if _, err := os.Stat(a); err != nil {
		t.Error("what could not be exchanged is gone:", err)
	}
}
