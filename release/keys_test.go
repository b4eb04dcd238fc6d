package release

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
)

func (l *lab) rotate(ring *Keyring, replace ...string) (out Published, err error) {
	l.t.Helper()
	err = l.with(func(r *Repository) error {
		out, err = r.Rotate(l.t.Context(), replacements(replace...), ring)
		return err
	})
	return out, err
}

func replacements(names ...string) (out []Replacement) {
	for _, name := range names {
		out = append(out, Replacement{Key: name})
	}
	return out
}

func (l *lab) keyFiles(dir string) []string {
	l.t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		l.t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

func TestKeysAreFilesOfTheirOwnUnderTheirOwnPassphrase(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	want := []string{"root-1.key", "root-2.key", "root-3.key", "snapshot-1.key", "targets-1.key", "timestamp-1.key"}
	if got := l.keyFiles(l.keys); !slices.Equal(got, want) {
		t.Fatal(got)
	}
	for _, name := range want {
		path := filepath.Join(l.keys, name)
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, st.Mode(), err)
		}
		key, err := readKey(path)
		if err != nil {
			t.Fatal(err)
		}
		open, err := key.unlock(passphraseOf(strings.TrimSuffix(name, keySuffix)))
		if err != nil {
			t.Error(err)
		}
		for _, text := range []string{fmt.Sprint(open), fmt.Sprintf("%+v", open), fmt.Sprintf("%#v", open), fmt.Sprintf("%v", []Key{open})} {
			if strings.Trim(text, "[]") != open.Name {
				t.Error("a key shows itself:", text)
			}
		}
		_, err = key.unlock(passphraseOf("another"))
		refusedWith(t, err, fault.Unauthenticated, "is not the passphrase of key "+key.name)
		_, err = key.unlock("")
		refusedWith(t, err, fault.Invalid, "no passphrase")
	}
}

// A key file that was cut, or put together of two, is named as such.
func TestADamagedKeyFile(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	path := filepath.Join(l.keys, "targets-1.key")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other, err := readKey(filepath.Join(l.keys, "root-1.key"))
	if err != nil {
		t.Fatal(err)
	}
	mixed, err := readKey(path)
	if err != nil {
		t.Fatal(err)
	}
	mixed.ID = other.ID
	text, err := json.Marshal(mixed.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for what, bad := range map[string][]byte{"cut": whole[:100], "empty": {}, "large": make([]byte, maxKeyFile+1), "mixed": text} {
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		key, err := readKey(path)
		if err == nil {
			_, err = key.unlock(passphraseOf("targets-1"))
		}
		if err == nil || !strings.Contains(err.Error(), "targets-1.key") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestInitRefuses(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ring := func(passphrase string, err error) *Keyring {
		k, bad := NewKeyring([]string{t.TempDir()}, func(context.Context, string, bool) (string, error) { return passphrase, err }, MinCost)
		if bad != nil {
			t.Fatal(bad)
		}
		return k
	}
	good := passphraseOf("any")
	gone := errors.New("went away")
	for name, c := range map[string]struct {
		dir    string
		layout Layout
		change func(*Settings)
		ring   *Keyring
		words  string
	}{
		"a repository that is there": {l.dir, Layout{3, 2}, nil, ring(good, nil), "is a repository of releases already"},
		"a threshold of none":        {"", Layout{3, 0}, nil, ring(good, nil), "threshold of the root is 0"},
		"a threshold above the keys": {"", Layout{3, 4}, nil, ring(good, nil), "threshold of the root is 4; it is 1 to the 3 keys"},
		"no root keys":               {"", Layout{0, 0}, nil, ring(good, nil), "0 root keys"},
		"too many root keys":         {"", Layout{10, 2}, nil, ring(good, nil), "10 root keys"},
		"a life of nothing":          {"", Layout{3, 2}, func(s *Settings) { s.TimestampDays = 0 }, ring(good, nil), "timestampDays is 0"},
		"an endless life":            {"", Layout{3, 2}, func(s *Settings) { s.RootDays = 99999 }, ring(good, nil), "rootDays is 99999"},
		"a short passphrase":         {"", Layout{3, 2}, nil, ring("secret", nil), "at least 12 bytes; this one has 6"},
		"nobody to ask":              {"", Layout{3, 2}, nil, ring("", gone), "went away"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := c.dir
			if dir == "" {
				dir = filepath.Join(t.TempDir(), "new")
			}
			s := DefaultSettings()
			if c.change != nil {
				c.change(&s)
			}
			_, err := Init(t.Context(), dir, c.layout, s, c.ring, l.clock)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("%v; want %q", err, c.words)
			}
			if got := l.keyFiles(c.ring.dirs[0]); len(got) != 0 {
				t.Error("keys were written:", got)
			}
		})
	}
	if _, err := NewKeyring([]string{l.keys}, nil, MinCost-1); err == nil {
		t.Error("a cheap passphrase was let through")
	}
}

// Machines follow every root from the one they know; a key that was replaced signs nothing any more.
func TestRotation(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	first := l.machine()
	first.sees(1)
	stolen := l.ring()

	p, err := l.rotate(l.ring(), "targets-1", "snapshot-1", "timestamp-1")
	if err != nil || p != (Published{Root: 2, Targets: 3, Snapshot: 3, Timestamp: 3}) {
		t.Fatalf("%+v %v", p, err)
	}
	first.sees(1)
	l.machine().sees(1)
	if p, err = l.rotate(l.ring(), "root-2"); err != nil || p != (Published{Root: 3}) {
		t.Fatalf("%+v %v", p, err)
	}
	if p, err = l.rotate(l.ring()); err != nil || p != (Published{Root: 4}) {
		t.Fatalf("a root's life was not renewed: %+v %v", p, err)
	}
	l.sign("1.1.0", "linux-amd64")
	l.publish()
	first.sees(2)
	l.machine().sees(2)

	d, dir := l.dist("6.6.6", "", "interlock-linux-amd64")
	err = l.with(func(r *Repository) error {
		for id, key := range stolen.found { // what the thief has
			if !strings.HasSuffix(key.name, "-1") {
				delete(stolen.found, id)
			}
		}
		_, err := r.Sign(t.Context(), d, dir, everybody, stolen)
		return err
	})
	refusedWith(t, err, fault.Invalid, "targets wants 1 of its 1 keys, and 0 are in")
	_, err = l.rotate(l.ring(), "targets-1")
	refusedWith(t, err, fault.Conflict, "targets-1 is in no role of the newest root")
	_, err = l.rotate(l.ring(), "targets-9")
	refusedWith(t, err, fault.NotFound, "no key targets-9")
	_, err = l.rotate(l.ring(), "../targets-2")
	refusedWith(t, err, fault.Invalid, "no name of a key")
}

// A single stolen root key makes no root, and the folder on its own finds one that was smuggled in.
func TestOneKeyBelowTheThresholdMakesNoRoot(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one := t.TempDir()
	if err := os.Link(filepath.Join(l.keys, "root-2.key"), filepath.Join(one, "root-2.key")); err != nil {
		t.Fatal(err)
	}
	before := len(l.asked)
	_, err := l.rotate(l.ring(one))
	refusedWith(t, err, fault.Invalid, "root wants 2 of its 3 keys, and 1 are in")
	if len(l.asked) != before {
		t.Error("a passphrase was asked for in vain:", l.asked[before:])
	}
	if got := l.keyFiles(one); len(got) != 1 {
		t.Error("keys were made:", got)
	}
	l.must(func(r *Repository) error { // the thief signs by hand, twice with the same key
		next := *r.root()
		next.Signed.Version = 2
		thief := l.ring(one)
		key := thief.have(r.root().Signed.Roles[metadata.ROOT])[0]
		open, err := key.unlock(passphraseOf("root-2"))
		if err != nil {
			return err
		}
		if err := sign(&next, []Key{open}); err != nil {
			return err
		}
		next.Signatures = append(next.Signatures, next.Signatures...)
		return put(r, "2.root.json", &next)
	})
	if _, err := Open(l.dir, l.clock); err == nil {
		t.Error("the repository took the root of a single key")
	}
	if got, err := l.machine().update(); err == nil {
		t.Error("a machine took the root of a single key", got)
	}
}

// Holders keep their keys in folders of their own, and only those that are needed are asked.
func TestKeysInSeveralFolders(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var dirs []string
	for _, name := range []string{"root-3", "root-1"} {
		dir := t.TempDir()
		if err := os.Link(filepath.Join(l.keys, name+".key"), filepath.Join(dir, name+".key")); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	l.asked = nil
	p, err := l.rotate(l.ring(dirs...))
	if err != nil || p != (Published{Root: 2}) {
		t.Fatalf("%+v %v", p, err)
	}
	if !slices.Equal(l.asked, []string{"root-1", "root-3"}) {
		t.Error(l.asked)
	}
	l.machine().sees(0)
}

// A lost key is named by its id; its successor takes over without it.
func TestALostKey(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"timestamp", "targets", "snapshot", "root"} {
		t.Run(role, func(t *testing.T) {
			l := newLab(t)
			l.sign("1.0.0", "linux-amd64")
			l.publish()
			path := filepath.Join(l.keys, role+"-1.key")
			key, err := readKey(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			_, err = l.rotate(l.ring(), role+"-1")
			refusedWith(t, err, fault.NotFound, "its file is needed to know the key")
			if _, err := l.rotate(l.ring(), key.ID[:12]); err != nil {
				t.Fatal(err)
			}
			l.machine().sees(1)
			l.sign("1.1.0", "linux-amd64")
			l.publish()
			l.machine().sees(2)
		})
	}
}
