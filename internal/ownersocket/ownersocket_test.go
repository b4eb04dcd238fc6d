package ownersocket

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPathFitsEverySystem(t *testing.T) {
	short := filepath.Join("/home", "me")
	if path, moved := Path(short, "a.sock", "x"); path != "/home/me/a.sock" || moved {
		t.Errorf("%s, %v", path, moved)
	}
	edge := "/" + strings.Repeat("d", MaxPath-len("/"+"/a.sock"))
	if path, moved := Path(edge, "a.sock", "x"); len(path) != MaxPath || moved {
		t.Errorf("%s, %v", path, moved)
	}
	deep := edge + "d"
	path, moved := Path(deep, "a.sock", "x")
	if !moved || filepath.Dir(path) != "/tmp/x-"+strconv.Itoa(os.Getuid()) || len(path) > MaxPath {
		t.Errorf("%s, %v", path, moved)
	}
	t.Setenv("TMPDIR", "/elsewhere")
	if again, _ := Path(deep, "a.sock", "x"); again != path {
		t.Errorf("another TMPDIR leads to %s", again)
	}
	for _, other := range [][2]string{{deep, "b.sock"}, {deep + "d", "a.sock"}} {
		if p, _ := Path(other[0], other[1], "x"); p == path {
			t.Errorf("%v has the path of another socket", other)
		}
	}
}

func TestOnlyTheOwnersDoorOpens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	if _, err := Dial(t.Context(), path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing there: %v", err)
	}
	l, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	go func(l net.Listener) {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}(l)
	c, err := Dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	// A program that was killed leaves its socket; the next one takes its place.
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	_ = l.Close()
	if _, err := Dial(t.Context(), path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a socket without its program: %v", err)
	}
	if l, err = Listen(path); err != nil {
		t.Fatal("over what was left:", err)
	}
	_ = l.Close()
}

func TestWhatIsNotOursIsRefusedInWords(t *testing.T) {
	dir := t.TempDir()
	path := func(name string, make func(string) error) string {
		p := filepath.Join(dir, name)
		if err := make(p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	bind := func(p string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p, Net: "unix"})
		if err == nil {
			l.SetUnlinkOnClose(false)
			_ = l.Close()
		}
		return err
	}
	file := path("file", func(p string) error { return os.WriteFile(p, []byte("kept"), 0o600) })
	link := path("link", func(p string) error { return os.Symlink(file, p) })
	open := path("open", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o750)) })
	ours := path("socket", bind)
	stranger := os.Getuid() + 1
	listen := func(p string) error { _, err := Listen(p); return err }
	dial := func(p string) error { _, err := Dial(context.Background(), p); return err }
	as := func(uid int) func(string) error { return func(p string) error { return check(p, uid, true) } }
	for name, c := range map[string]struct {
		try       func(string) error
		path      string
		what, fix string
	}{
		"listen over a file":        {listen, file, "is no socket", "move it away"},
		"dial a file":               {dial, file, "is no socket", "move it away"},
		"listen over a link":        {listen, link, "is no socket", "move it away"},
		"a socket of another user":  {as(stranger), ours, "belongs to another user (uid " + strconv.Itoa(os.Getuid()) + ")", "remove it"},
		"a folder open to a group":  {Private, open, "is open to others (mode 0750)", "chmod 700 " + open},
		"a file instead of the dir": {Private, link, "is no folder", "remove it"},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.try(c.path)
			var refused *RefusedError
			if name == "a file instead of the dir" { // MkdirAll sees it first
				if err == nil {
					t.Error("accepted")
				}
				return
			}
			if !errors.As(err, &refused) || refused.Path != c.path || !strings.Contains(refused.What, c.what) || !strings.Contains(refused.Fix, c.fix) {
				t.Errorf("%+v", err)
			}
		})
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "kept" {
		t.Errorf("the file that was in the way is %q, %v", b, err)
	}
	if err := check(ours, 0, true); err != nil {
		t.Errorf("root: %v", err)
	}
	if err := Private(filepath.Join(dir, "new")); err != nil {
		t.Error(err)
	}
}

// TestAFolderOfAnotherUserIsRefused needs to give a folder away, which only root can.
func TestAFolderOfAnotherUserIsRefused(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "theirs")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		return // nobody else can give a file away; the check of a socket's owner is tested above
	}
	if err := os.Chown(dir, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	var refused *RefusedError
	if err := Private(dir); !errors.As(err, &refused) || !strings.Contains(refused.What, "uid 12345") {
		t.Errorf("%v", err)
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chown(socket, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(socket); !errors.As(err, &refused) || !strings.Contains(refused.What, "uid 12345") {
		t.Errorf("even root takes no socket's place: %v", err)
	}
	if c, err := Dial(t.Context(), socket); err != nil {
		t.Errorf("root may look after another user's program: %v", err)
	} else {
		_ = c.Close()
	}
}
