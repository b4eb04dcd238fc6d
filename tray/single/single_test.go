package single_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
	"interlock.sh/tray/single"
)

func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "one") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

func acquire(t *testing.T, path string) *single.Instance {
	t.Helper()
	i, err := single.Acquire(path)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func TestTheSecondTellsTheFirst(t *testing.T) {
	path := socket(t)
	one := acquire(t, path)
	if _, err := single.Acquire(path); !errors.Is(err, single.ErrRunning) {
		t.Fatalf("a second one: %v", err)
	}
	heard := make(chan string)
	go func() { heard <- <-one.Told() }()
	if err := single.Tell(t.Context(), path, "hours a/client\nrm -rf"); err != nil {
		t.Fatal(err)
	}
	if got := testkit.Get(t, "the message", heard); got != "hours a/client rm -rf" {
		t.Errorf("heard %q", got)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
	if err := acquire(t, path).Close(); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

func TestASocketLeftBehindIsReplaced(t *testing.T) {
	path := socket(t)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	_ = l.Close() // killed: the file stays, the lock is gone
	if err := single.Tell(t.Context(), path, "x"); !errors.Is(err, fault.Unavailable) {
		t.Errorf("nobody listens: %v", err)
	}
	one := acquire(t, path)
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", st, err)
	}
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}

func TestWhoSaysNothingOrTooMuchDoesNotBlockTheNext(t *testing.T) {
	path := socket(t)
	one := acquire(t, path)
	defer one.Close() //nolint:errcheck // the test ends
	for name, say := range map[string]string{"nothing": "", "no end of line": "abc", "too much": string(make([]byte, 4096))} {
		c, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = c.Write([]byte(say)) // it may be cut off
		_ = c.Close()
		select {
		case m := <-one.Told():
			t.Errorf("%s: heard %q", name, m)
		default:
		}
	}
	heard := make(chan string, 1)
	go func() { heard <- <-one.Told() }()
	if err := single.Tell(t.Context(), path, "about"); err != nil {
		t.Fatal(err)
	}
	if m := testkit.Get(t, "the message", heard); m != "about" {
		t.Errorf("heard %q", m)
	}
}

// What stands in the place of the socket and is none of this user's is neither removed nor spoken to.
func TestWhatIsNoSocketOfOursIsLeftAlone(t *testing.T) {
	path := socket(t)
	if err := os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := single.Acquire(path); !errors.Is(err, fault.Conflict) || fault.Of(err).Hint == "" {
		t.Errorf("acquire: %v", err)
	}
	if err := single.Tell(t.Context(), path, "x"); !errors.Is(err, fault.Conflict) || fault.Of(err).Hint == "" {
		t.Errorf("tell: %v", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "somebody's" {
		t.Errorf("it holds %q, %v", b, err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := acquire(t, path).Close(); err != nil { // the lock was given back
		t.Error(err)
	}
}
