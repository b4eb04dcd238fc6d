package enrollment

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ownersocket"
)

// stored is an enrollment as Enroll leaves it.
func stored(t *testing.T, home Home, group, name string, role fleet.Role) Enrollment {
	t.Helper()
	e := Enrollment{
		Home: home, Group: group, GroupName: name, Project: "p", Origin: "http://127.0.0.1:1", Role: role, Runtime: fleet.LlamaCpp,
		Machine: "mch_" + group, Name: "mini", HostID: "h",
	}
	if err := e.save("secret"); err != nil {
		t.Fatal(err)
	}
	return e
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestFindSaysWhatIsAmbiguous(t *testing.T) {
	home := Home(t.TempDir())
	if _, err := home.Find("", ""); !errors.Is(err, fault.NotFound) || fault.Of(err).Message != "this machine is not enrolled in any group" {
		t.Errorf("with none: %v", err)
	}
	stored(t, home, "one-aaaaaa", "one", fleet.RoleClient)
	if e, err := home.Find("", ""); err != nil || e.Group != "one-aaaaaa" {
		t.Errorf("the only one: %+v, %v", e, err)
	}
	stored(t, home, "one-aaaaaa", "one", fleet.RoleTrainer)
	stored(t, home, "one-bbbbbb", "one", fleet.RoleClient) // of another control plane, with the same name
	for _, c := range []struct {
		group string
		role  fleet.Role
		want  string // the group found; "" for the code
		code  fault.Code
	}{
		{"", "", "", fault.Invalid},
		{"one", fleet.RoleClient, "", fault.Invalid},
		{"one-aaaaaa", "", "", fault.Invalid},
		{"", fleet.RoleTrainer, "one-aaaaaa", ""},
		{"one-bbbbbb", "", "one-bbbbbb", ""},
		{"one", fleet.RoleTrainer, "one-aaaaaa", ""},
		{"two", "", "", fault.NotFound},
	} {
		e, err := home.Find(c.group, c.role)
		if e.Group != c.want || (c.code != "") != (err != nil) || err != nil && !errors.Is(err, c.code) {
			t.Errorf("%q %q: %q, %v", c.group, c.role, e.Group, err)
		}
	}
}

func TestWhatCannotBeReadHidesNothingElse(t *testing.T) {
	home := Home(t.TempDir())
	stored(t, home, "good", "good", fleet.RoleClient)
	for group, spoil := range map[string]func(e Enrollment){
		"cut":     func(e Enrollment) { write(t, filepath.Join(e.Dir(), "role.json"), `{"schema":1,`, 0o600) },
		"typed":   func(e Enrollment) { write(t, filepath.Join(e.Dir(), "role.json"), `{"schema":1,"role":7}`, 0o600) },
		"never":   func(e Enrollment) { write(t, filepath.Join(home.Group(e.Group), "group.json"), `{}`, 0o600) },
		"newer":   func(e Enrollment) { write(t, filepath.Join(home.Group(e.Group), "group.json"), `{"schema":2}`, 0o600) },
		"brokeff": func(e Enrollment) { _ = os.Remove(e.envPath()) },
	} {
		spoil(stored(t, home, group, group, fleet.RoleClient))
	}
	if err := os.MkdirAll(filepath.Join(string(home), "groups", "a folder of something else"), 0o700); err != nil {
		t.Fatal(err)
	}
	all, err := home.List()
	if len(all) != 1 || all[0].Group != "good" {
		t.Errorf("listed %+v", all)
	}
	for _, words := range []string{"cut", "typed", "never"} {
		if !strings.Contains(err.Error(), filepath.Join("groups", words)) {
			t.Errorf("%s is not named in %v", words, err)
		}
	}
	if !errors.Is(err, errDamaged) || !errors.Is(err, errNewer) || !strings.Contains(err.Error(), "has schema 2; this version reads 1") {
		t.Errorf("%v", err)
	}
	if _, err := home.Find("good", ""); err != nil {
		t.Errorf("the good one: %v", err)
	}
	if _, err := home.Find("cut", ""); !errors.Is(err, fault.Invalid) {
		t.Errorf("a damaged one: %v", err)
	}
	// A newer version's folder is never written over, whatever key is given.
	req := Request{Origin: "http://127.0.0.1:1", Group: "newer", Role: fleet.RoleClient, Key: "k"}
	if _, err := home.Enroll(t.Context(), req); !errors.Is(err, errNewer) {
		t.Errorf("beside a newer one: %v", err)
	}
	if err := os.RemoveAll(home.Group("newer")); err != nil {
		t.Fatal(err)
	}
	if _, err := home.Enroll(t.Context(), req); !errors.Is(err, fault.Unavailable) { // it came as far as asking
		t.Errorf("beside damaged ones: %v", err)
	}
	req.Key = ""
	if _, err := home.Enroll(t.Context(), req); !errors.Is(err, errDamaged) {
		t.Errorf("without a key: %v", err)
	}
}

func TestEnvironmentFile(t *testing.T) {
	e := stored(t, Home(t.TempDir()), "g", "g", fleet.RoleClient)
	write(t, e.envPath(), "# a comment\n\n  LLAMA_SERVER = /a=b \nA=\r\nINTERLOCK_MACHINE_CREDENTIAL=x\n", 0o600)
	env, err := e.Env()
	if err != nil || len(env) != 3 || env["LLAMA_SERVER"] != "/a=b" || env["A"] != "" || env[envCredential] != "x" {
		t.Errorf("%q, %v", env, err)
	}
	// A new credential keeps the rest, in an order that does not change.
	for range 3 {
		if err := e.save("new"); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(e.envPath())
		if err != nil || !strings.HasSuffix(string(b), "\nINTERLOCK_MACHINE_CREDENTIAL=new\nA=\nLLAMA_SERVER=/a=b\n") {
			t.Errorf("%q, %v", b, err)
		}
	}
	write(t, e.envPath(), "ok=1\nno equals sign\n", 0o600)
	if _, err := e.Env(); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "line 2 is no NAME=value") {
		t.Errorf("a line that is none: %v", err)
	}
	write(t, e.envPath(), "ok=1\n", 0o640)
	if _, err := e.Env(); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "chmod 600 ") {
		t.Errorf("readable by others: %v", err)
	}
	if _, err := e.Client("test"); !errors.Is(err, fault.Invalid) {
		t.Errorf("a client with it: %v", err)
	}
}

func TestASocketsPathIsShortHoweverDeepTheHome(t *testing.T) {
	deep := Home(filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 20)))
	seen := map[string]bool{}
	for _, home := range []Home{Home(filepath.Join(t.TempDir(), "ns")), deep} {
		for _, role := range []fleet.Role{fleet.RoleClient, fleet.RoleTrainer} {
			path, err := home.Socket("a-group-"+strings.Repeat("x", 80), role)
			if err != nil {
				t.Fatal(err)
			}
			again, err := home.Socket("a-group-"+strings.Repeat("x", 80), role)
			if err != nil || again != path || len(path) > ownersocket.MaxPath || seen[path] {
				t.Errorf("%q and %q, %d bytes, seen %v, %v", path, again, len(path), seen[path], err)
			}
			seen[path] = true
			st, err := os.Stat(filepath.Dir(path))
			if err != nil || st.Mode().Perm() != 0o700 {
				t.Errorf("its folder: %v, %v", st.Mode(), err)
			}
		}
	}
}

func TestAFolderOfOthersIsNotUsedForASocket(t *testing.T) {
	dir := t.TempDir()
	open, link, file := filepath.Join(dir, "open"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777), os.Symlink(t.TempDir(), link)); err != nil {
		t.Fatal(err)
	}
	write(t, file, "", 0o600)
	for _, path := range []string{open, link} {
		if err := privateDir(path); !errors.Is(err, fault.Invalid) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
	if err := privateDir(file); err == nil {
		t.Error("a file was taken for a folder")
	}
	if os.Getuid() == 0 {
		other := filepath.Join(dir, "other")
		if err := errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 12345, 12345)); err != nil {
			t.Fatal(err)
		}
		if err := privateDir(other); !errors.Is(err, fault.Invalid) {
			t.Errorf("another user's: %v", err)
		}
	}
}

func TestDefaultHome(t *testing.T) {
	t.Setenv(EnvHome, "/somewhere/else")
	if h, err := DefaultHome(); err != nil || h != "/somewhere/else" {
		t.Errorf("%q, %v", h, err)
	}
	t.Setenv(EnvHome, "")
	t.Setenv("HOME", "/home/me")
	if h, err := DefaultHome(); err != nil || h != Home("/home/me/.nightshift") {
		t.Errorf("%q, %v", h, err)
	}
	t.Setenv("HOME", "")
	if _, err := DefaultHome(); !errors.Is(err, fault.Invalid) {
		t.Errorf("without HOME: %v", err)
	}
}

// A home is a folder that its owner named: what its name has in it is no pattern.
func TestWhatIsInAHomeOfAnyName(t *testing.T) {
	for _, name := range []string{"ns", "odd [name]", "[", "*", `a\b`, "{a,b}", "?", " "} {
		home := Home(filepath.Join(t.TempDir(), name))
		if apps, err := home.Apps(); err != nil || len(apps) != 0 {
			t.Errorf("%q, not there: %v, %v", name, apps, err)
		}
		if all, err := home.Folders(); err != nil || len(all) != 0 {
			t.Errorf("%q, not there: %v, %v", name, all, err)
		}
		for _, dir := range []string{"app-0123abcd", "app", "apple", "app-old", "cache", "groups/g-aaaaaa/roles/client", "groups/g-aaaaaa/roles/trainer", "groups/h-bbbbbb", "groups/[-cccccc/roles/client"} {
			if err := os.MkdirAll(filepath.Join(string(home), dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(string(home), "groups", "note"), nil, 0o600); err != nil { // somebody else's
			t.Fatal(err)
		}
		apps, err := home.Apps()
		if err != nil || !slices.Equal(apps, []string{filepath.Join(string(home), "app"), filepath.Join(string(home), "app-0123abcd")}) {
			t.Errorf("%q has the app folders %q, %v", name, apps, err)
		}
		all, err := home.Folders()
		var got []string
		for _, e := range all {
			got = append(got, strings.TrimPrefix(e.Dir(), string(home)))
		}
		want := []string{"/groups/[-cccccc/roles/client", "/groups/g-aaaaaa/roles/client", "/groups/g-aaaaaa/roles/trainer"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q has the roles %q, %v", name, got, err)
		}
	}
}
