package service

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fault"
)

// A link to a folder is fine where both are one user's.
func TestFolderOfThisMachine(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, link} {
		if real, uid, err := folder(path); err != nil || uid != os.Getuid() || real != dir {
			t.Errorf("%s: %s of %d, %v", path, real, uid, err)
		}
	}
	file := script(t, dir, "file", "")
	if err := os.Symlink("nowhere", filepath.Join(dir, "broken")); err != nil {
		t.Fatal(err)
	}
	foreign := filepath.Join(dir, "foreign")
	if err := os.Symlink("/usr", foreign); err != nil { // root's
		t.Fatal(err)
	}
	if err := os.Lchown(foreign, 65534, 65534); err != nil && os.Getuid() == 0 {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(dir, "broken"), filepath.Join(dir, "none"), foreign} {
		if real, uid, err := folder(path); err == nil {
			t.Errorf("%s is said to be %s of user %d", path, real, uid)
		}
	}
}

// Every part of a path, before and after its links are followed, is the owner's or root's.
func TestAPathThatSomebodyElseMayChange(t *testing.T) {
	const root, bob, mallory = 0, 1000, 1001
	dir := func(uid int) entry { return entry{uid, fs.ModeDir | 0o755} }
	link := func(uid int) entry { return entry{uid, fs.ModeSymlink | 0o777} }
	base := map[string]entry{
		"/": dir(root), "/home": dir(root), "/home/bob": dir(bob), "/home/bob/.nightshift": dir(bob), "/home/mallory": dir(mallory), "/data": dir(root), "/data/bob": dir(bob),
		"/tmp": {root, fs.ModeDir | fs.ModeSticky | 0o777},
	}
	for what, c := range map[string]struct {
		path, real string // real is path when it is ""
		more       map[string]entry
		words      string // of the refusal; "" is none
	}{
		"a home":                              {path: "/home/bob/.nightshift"},
		"a link of the owner's":               {path: "/home/bob/ns", real: "/data/bob", more: map[string]entry{"/home/bob/ns": link(bob)}},
		"a link of root's on the way":         {path: "/people/bob/.nightshift", real: "/home/bob/.nightshift", more: map[string]entry{"/people": link(root), "/people/bob": dir(bob), "/people/bob/.nightshift": dir(bob)}},
		"a link of somebody else":             {path: "/tmp/ns", real: "/home/bob/.nightshift", more: map[string]entry{"/tmp/ns": link(mallory)}, words: "/tmp/ns belongs to user 1001, and leads to a folder of user 1000: /home/bob/.nightshift"},
		"a link of somebody else on the way":  {path: "/home/mallory/way/.nightshift", real: "/home/bob/.nightshift", more: map[string]entry{"/home/mallory/way": link(mallory), "/home/mallory/way/.nightshift": dir(bob)}, words: "/home/mallory/way belongs to user 1001"},
		"a folder that somebody else holds":   {path: "/home/mallory/of-bob", more: map[string]entry{"/home/mallory/of-bob": dir(bob)}, words: "/home/mallory belongs to user 1001"},
		"a part exchanged for a link since":   {path: "/home/bob/.nightshift", more: map[string]entry{"/home/bob": link(mallory)}, words: "/home/bob is no folder"},
		"a folder exchanged for a link since": {path: "/home/bob/.nightshift", more: map[string]entry{"/home/bob/.nightshift": link(bob)}, words: "/home/bob/.nightshift is no folder"},
	} {
		t.Run(what, func(t *testing.T) {
			want := c.real
			if want == "" {
				want = c.path
			}
			real, uid, err := folderOf(c.path, func(string) (string, error) { return want, nil }, func(path string) (entry, error) {
				if e, ok := c.more[path]; ok {
					return e, nil
				}
				if e, ok := base[path]; ok {
					return e, nil
				}
				return entry{}, fs.ErrNotExist
			})
			if c.words == "" {
				if err != nil || real != want || uid != bob {
					t.Errorf("%s of %d, %v", real, uid, err)
				}
				return
			}
			if code := fault.CodeOf(err); err == nil || !strings.Contains(err.Error(), c.words) || code != fault.ScopeDenied && code != fault.Invalid {
				t.Errorf("%s of %d, %v", real, uid, err)
			}
		})
	}
}

// The path of a home is exchanged between the look at who asked and the plan: what is installed is what was
// looked at, by its path without links, and runs as who asked.
func TestAHomeThatIsExchangedWhileRootLooks(t *testing.T) {
	m := newMachine(t)
	looks := 0
	m.folder = func(path string) (string, int, error) {
		if looks++; looks > 1 {
			return "/home/bob/.nightshift", 1001, nil
		}
		return "/home/fleet/real", 1000, nil
	}
	caller := 1000
	p, err := m.Apply(t.Context(), NewRequest(Install, "/home/fleet/link", client), &caller)
	if err != nil || p.User != "fleet" || looks != 1 {
		t.Fatalf("%+v, %v, after %d looks", p, err, looks)
	}
	text, err := os.ReadFile(m.at(unitFile(client, "service")))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"User=fleet\n", "ExecStart=/home/fleet/real/app/current/interlock ", "WorkingDirectory=-/home/fleet/real\n", "ReadWritePaths=-/home/fleet/real\n",
		"Environment=NIGHTSHIFT_HOME=/home/fleet/link\n"} { // by which its sockets are found
		if !strings.Contains(string(text), line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}

// A second folder of the same user never takes the services of the first; one that is gone is no reason.
func TestServicesOfAnotherHome(t *testing.T) {
	const other = "/home/fleet/second home"
	for name, manager := range map[string]manager{"systemd": systemd{facts: systemdFacts{version: 252}}, "launchd": launchd{}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.manager = manager
			if name == "launchd" {
				m.run = func(_ context.Context, argv ...string) (string, error) {
					if argv[1] == "print" {
						return "", errors.New("Could not find service")
					}
					return "", nil
				}
			}
			gone, links := map[string]bool{}, map[string]string{"/home/fleet/link": testHome}
			m.folder = func(path string) (string, int, error) {
				if gone[path] {
					return "", 0, fs.ErrNotExist
				}
				if to, ok := links[path]; ok {
					path = to
				}
				return path, 1000, nil
			}
			m.apply(NewRequest(Install, testHome, client, looker))
			before := m.files()

			// The group is another, and the updater would be the same.
			_, err := m.Apply(t.Context(), NewRequest(Install, other, trainer, looker), nil)
			if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), looker.Name()+" of this machine is for "+testHome+", and this one would be for "+other) {
				t.Errorf("install: %v", err)
			}
			if _, err := m.Plan(t.Context(), NewRequest(Install, other, looker)); !errors.Is(err, fault.Conflict) {
				t.Errorf("plan: %v", err)
			}
			// Another name of the same folder is no other folder.
			if _, err := m.Plan(t.Context(), NewRequest(Install, "/home/fleet/link", client, looker)); err != nil {
				t.Errorf("plan by a link: %v", err)
			}
			// Nor does it take them away.
			for _, q := range []Request{NewRequest(Remove, other, client, looker), {Schema: 1, Verb: Remove, Home: other, All: true}} {
				if p := m.apply(q); p.NeedsRoot() || len(m.files()) != len(before) {
					t.Errorf("%+v left %v", q, m.files())
				}
			}
			if names, err := m.Installed(other); err != nil || len(names) > 0 {
				t.Errorf("it has %v, %v", names, err)
			}
			gone[testHome] = true
			m.apply(NewRequest(Install, other, looker))
			if names, err := m.Installed(other); err != nil || len(names) != 2 { // what a folder that is gone left is anybody's
				t.Errorf("it has %v, %v", names, err)
			}
			m.apply(Request{Schema: 1, Verb: Remove, Home: other, All: true})
			for _, path := range m.files() {
				if strings.Contains(path, Prefix+"model") || strings.Contains(path, Prefix+"updater") {
					t.Errorf("it left %s", path)
				}
			}
		})
	}
}

// The caches of model servers are there before a service starts that would have them read-only.
func TestCachesAreMade(t *testing.T) {
	m := newMachine(t)
	home := fleetUser.home
	if err := os.MkdirAll(m.at(home), 0o755); err != nil {
		t.Fatal(err)
	}
	missing := func(q Request) string {
		t.Helper()
		p, err := m.Plan(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(p.Missing, " ")
	}
	install := NewRequest(Install, testHome, client, looker)
	if got := missing(install); got != home+"/.cache" {
		t.Errorf("without a driver %q", got)
	}
	m.put(nvidia+"/version", "")
	if got := missing(install); got != home+"/.cache "+home+"/.nv" {
		t.Errorf("with a driver %q", got)
	}
	if got := missing(NewRequest(Install, testHome, looker)) + missing(NewRequest(Remove, testHome, client)); got != "" {
		t.Errorf("where nothing computes %q", got)
	}
	m.manager = launchd{}
	m.run = func(context.Context, ...string) (string, error) { return "", errors.New("could not find service") }
	if got := missing(install); got != "" {
		t.Errorf("where nothing is confined %q", got)
	}
	m.manager, m.run = systemd{}, m.command

	// A link that leads out of the home is left alone, by root above all.
	if err := os.Symlink("/nowhere/else", m.at(home+"/.nv")); err != nil {
		t.Fatal(err)
	}
	if got := missing(install); got != home+"/.cache" {
		t.Errorf("with a link %q", got)
	}
	p, err := m.Plan(t.Context(), install)
	if err != nil {
		t.Fatal(err)
	}
	owner := os.Getuid()
	if owner == 0 { // root gives them to the user
		owner = 1234
		if err := os.Chown(m.at(home), owner, -1); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := m.MakeMissing(p); err != nil {
			t.Fatal(err)
		}
	}
	if e, err := lstat(m.at(home + "/.cache")); err != nil || e.uid != owner || e.mode != fs.ModeDir|0o700 {
		t.Errorf("%+v, %v; want it to be of user %d", e, err, owner)
	}
	p.Missing = []string{"/home/nobody/.cache"}
	if err := m.MakeMissing(p); err == nil {
		t.Error("a home that is not there was made")
	}
}
