package testkit

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// WriteProgram writes an executable file that can be run at once. A process that is forked while the file is
// open for writing would inherit it, and running the file fails with "text file busy" until that process has
// become another program: no fork happens meanwhile. The folder is made when it is not there.
func WriteProgram(t testing.TB, path string, text []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	syscall.ForkLock.RLock()
	err := os.WriteFile(path, text, 0o700)
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = os.Chmod(path, 0o755) //nolint:gosec // a program, as installers leave one
	}
	if err != nil {
		t.Fatalf("write the program: %v", err)
	}
}

// PlaceSelf makes the running test binary the program at path too: a link to it, or on another disk a copy.
func PlaceSelf(t testing.TB, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if os.Link(self, path) == nil {
		return
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	WriteProgram(t, path, b)
}
