package uninstall

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// machine is a folder with the given files; a name that ends with / is a folder, one with → a link.
func machine(t *testing.T, names ...string) (root string, m Machine) {
	t.Helper()
	root = t.TempDir()
	for _, name := range names {
		name, to, link := strings.Cut(name, "→")
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		err := os.MkdirAll(dir, 0o755)
		switch {
		case err != nil || dir == path:
		case link:
			err = os.Symlink(to, path)
		default:
			err = os.WriteFile(path, []byte("1234567890"), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	home := filepath.Join(root, ".nightshift")
	return root, Machine{Home: home, Sockets: []string{filepath.Join(root, "tmp/nightshift-1000/0a1b2c"), filepath.Join(root, "tmp/nightshift-1000/gone")}, Desktop: []string{
		filepath.Join(root, ".config/autostart/sh.interlock.nightshift.desktop"), filepath.Join(root, "Applications/Nightshift.app"),
	}}
}

// tree lists every file, link and empty folder below a folder.
func tree(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if d.IsDir() {
			if inside, _ := os.ReadDir(path); len(inside) > 0 || name == "" {
				return nil
			}
			name += "/"
		}
		out = append(out, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

var whole = []string{
	".nightshift/app/1.0.0/interlock", ".nightshift/app/1.0.0/nightshift", ".nightshift/app/current→1.0.0", ".nightshift/app/trust/root.json",
	".nightshift/app-0123abcd/2.0.0/interlock", ".nightshift/run/0a1b2c", ".nightshift/ledger.json", ".nightshift/ledger.json.lock", ".nightshift/enroll.lock",
	".nightshift/groups/small-abc123/group.json", ".nightshift/groups/small-abc123/roles/client/worker.env",
	".nightshift/groups/small-abc123/roles/trainer/worker.env", ".nightshift/groups/small-abc123/versions/d1/tiny.gguf→../../../../cache/blobs/ab",
	".nightshift/cache/blobs/ab", "tmp/nightshift-1000/0a1b2c", ".config/autostart/sh.interlock.nightshift.desktop",
	"Applications/Nightshift.app/Contents/Info.plist",
	// Not the agent's:
	".nightshift/notes.txt", ".nightshift/application/x", ".config/autostart/other.desktop", "src/model/train.py", ".cache/huggingface/m",
}

func TestTheWholeMachine(t *testing.T) {
	root, m := machine(t, whole...)
	l, err := m.All()
	if err != nil {
		t.Fatal(err)
	}
	if left := l.Remove(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	want := []string{".cache/huggingface/m", ".config/autostart/other.desktop", ".nightshift/application/x", ".nightshift/cache/blobs/ab",
		".nightshift/notes.txt", "Applications/", "src/model/train.py", "tmp/"}
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("the machine has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	stays := ""
	for _, s := range l.Stays {
		stays += strings.TrimPrefix(s.Path, root) + ": " + s.What + "\n"
	}
	if want := "/.nightshift/application: not the agent's\n/.nightshift/cache: shared model files, 10 B\n/.nightshift/notes.txt: not the agent's\n"; stays != want {
		t.Errorf("it says that these stay:\n%s", stays)
	}
	// Again, and on a machine that never had any.
	if l, err := m.All(); err != nil || len(l.Goes) > 0 {
		t.Errorf("a second time: %+v, %v", l, err)
	}
}

// Folders that somebody removed by half, or made read-only, go like whole ones.
func TestHalfDeletedFolders(t *testing.T) {
	for name, files := range map[string][]string{
		"no home at all":              nil,
		"an empty home":               {".nightshift/"},
		"a group without a file":      {".nightshift/groups/small-abc123/"},
		"a group that is a file":      {".nightshift/groups/small-abc123"},
		"a role without a credential": {".nightshift/groups/small-abc123/roles/client/role.json"},
		"links to nothing":            {".nightshift/app/current→9.9.9", ".nightshift/app/updater→9.9.9"},
		"an app that is a link":       {".nightshift/app→../elsewhere", "elsewhere/kept"},
		"groups without groups":       {".nightshift/groups/", ".nightshift/run/"},
	} {
		t.Run(name, func(t *testing.T) {
			root, m := machine(t, files...)
			l, err := m.All()
			if err != nil {
				t.Fatal(err)
			}
			if left := l.Remove(); len(left) > 0 {
				t.Errorf("left: %+v", left)
			}
			for _, path := range tree(t, root) {
				if path != "elsewhere/kept" {
					t.Errorf("left: %s", path)
				}
			}
		})
	}
}

func TestOneRole(t *testing.T) {
	root, m := machine(t, whole...)
	before := tree(t, root)
	l, err := m.Role("small-abc123", "trainer")
	if err != nil {
		t.Fatal(err)
	}
	if left := l.Remove(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	want := slices.DeleteFunc(slices.Clone(before), func(p string) bool { return strings.Contains(p, "roles/trainer") })
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("after the trainer the machine has %v", got)
	}
	if l, err = m.Role("small-abc123", "client"); err != nil {
		t.Fatal(err)
	}
	l.Remove()
	want = slices.DeleteFunc(want, func(p string) bool { return strings.HasPrefix(p, ".nightshift/groups/small") })
	want = append(want, ".nightshift/groups/")
	slices.Sort(want)
	if got := tree(t, root); !slices.Equal(got, want) {
		t.Errorf("after the client the machine has %v", got)
	}
	if l, err := m.Role("small-abc123", "client"); err != nil || len(l.Goes) > 0 {
		t.Errorf("a second time: %+v, %v", l, err)
	}
}
