package atomicfile

import (
	"crypto/sha256"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// holds checks what a folder has: names and texts.
func holds(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(want) {
		t.Errorf("the folder has %v, %v; want %v", entries, err, want)
	}
	for name, text := range want {
		if b, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(b) != text {
			t.Errorf("%s is %q, %v; want %q", name, b, err, text)
		}
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(dir, "to")
	for _, text := range []string{"one", "two", ""} { // a new file, then over another one
		if err := errors.Join(os.WriteFile(from, []byte(text), 0o600), Copy(from, to, 0o755)); err != nil {
			t.Fatal(err)
		}
		holds(t, dir, map[string]string{"to": text})
		if st, err := os.Stat(to); err != nil || st.Mode().Perm() != 0o755 {
			t.Errorf("its mode is %v, %v", st.Mode(), err)
		}
	}
}

func TestACopyThatFailsKeepsWhatWasThere(t *testing.T) {
	dir, refused := t.TempDir(), errors.New("refused")
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(dir, "to")
	if err := errors.Join(os.WriteFile(from, []byte("new"), 0o600), os.WriteFile(to, []byte("old"), 0o600)); err != nil {
		t.Fatal(err)
	}
	err := CopyIf(from, to, 0o755, func(sum [sha256.Size]byte) error {
		if sum != sha256.Sum256([]byte("new")) {
			t.Errorf("the sum is of other bytes: %x", sum)
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Errorf("other bytes than were asked for: %v", err)
	}
	if err := Copy(filepath.Join(dir, "none"), to, 0o755); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	if err := Copy(dir, to, 0o755); err == nil {
		t.Error("a folder was copied")
	}
	if err := Copy(from, filepath.Join(dir, "none", "to"), 0o755); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into no folder: %v", err)
	}
	holds(t, dir, map[string]string{"to": "old"})
}
