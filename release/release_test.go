package release

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

func TestAMachineSeesWhatIsPublishedAndNothingElse(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	m := l.machine()
	m.sees(0)
	l.sign("1.0.0", "linux-amd64", "linux-arm64")
	m.sees(0)
	if p := l.publish(); p != (Published{Targets: 2, Snapshot: 2, Timestamp: 2}) {
		t.Fatalf("%+v", p)
	}
	m.sees(2)
	if p := l.publish(); p != (Published{}) {
		t.Fatalf("publishing nothing changed %+v", p)
	}
	l.sign("1.1.0", "linux-amd64")
	l.publish()
	m.sees(3)
	l.machine().sees(3)
}

func TestVersionsOnlyGoUp(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.5.0", "linux-amd64")
	try := func(version, say string, names ...string) (n int, err error) {
		d, dir := l.dist(version, say, names...)
		err = l.with(func(r *Repository) error {
			n, err = r.Sign(t.Context(), d, dir, everybody, l.ring())
			return err
		})
		return n, err
	}
	_, err := try("1.4.9", "", "interlock-linux-amd64")
	refusedWith(t, err, fault.ReleaseConflict, "1.4.9 is below 1.5.0")
	_, err = try("1.4.9", "", "interlock-linux-arm64")
	refusedWith(t, err, fault.ReleaseConflict, "is below 1.5.0")
	_, err = try("1.5.0-rc.1", "", "interlock-linux-amd64")
	refusedWith(t, err, fault.ReleaseConflict, "is below 1.5.0")
	_, err = try("1.5.0", "others", "interlock-linux-amd64")
	refusedWith(t, err, fault.ReleaseConflict, "a version's bytes never change")
	if n, err := try("1.5.0", "", "interlock-linux-amd64"); n != 0 || err != nil {
		t.Fatalf("the same again: %d %v", n, err)
	}
	if n, err := try("1.5.0", "", "interlock-linux-amd64", "interlock-linux-arm64"); n != 1 || err != nil {
		t.Fatalf("another platform of the newest: %d %v", n, err)
	}
	if n, err := try("1.0.0", "", "nightshift-linux-amd64"); n != 1 || err != nil {
		t.Fatalf("another program has versions of its own: %d %v", n, err)
	}
	l.publish()
	l.machine().sees(3)
}

func TestAWithdrawalAndAShareReachTheMachine(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64", "linux-arm64")
	l.publish()
	const why = "verliert Aufträge <&> \"q\" \\ 日本"
	l.must(func(r *Repository) error {
		if n, err := r.SetShare(t.Context(), build.Interlock, "1.0.0", build.Canary, 10, l.ring()); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		if n, err := r.SetShare(t.Context(), build.Interlock, "1.0.0", build.Canary, 10, l.ring()); n != 0 || err != nil {
			t.Fatal("the same share again:", n, err)
		}
		if n, err := r.Yank(t.Context(), build.Interlock, "1.0.0", why, l.ring()); n != 2 || err != nil {
			t.Fatal(n, err)
		}
		_, err := r.Yank(t.Context(), build.Interlock, "2.0.0", why, l.ring())
		refusedWith(t, err, fault.NotFound, "no version 2.0.0 of interlock")
		_, err = r.Yank(t.Context(), build.Interlock, "1.0.0", "", l.ring())
		refusedWith(t, err, fault.Invalid, "wants its reason")
		_, err = r.SetShare(t.Context(), build.Interlock, "1.0.0", "beta", 10, l.ring())
		refusedWith(t, err, fault.Invalid, "stable or canary")
		_, err = r.SetShare(t.Context(), build.Interlock, "1.0.0", build.Canary, 101, l.ring())
		refusedWith(t, err, fault.Invalid, "from 0 to 100")
		live, err := r.Released(true)
		if err != nil || live[0].Yanked != "" {
			t.Fatal("a withdrawal that is not published is live", err)
		}
		return nil
	})
	l.publish()
	l.machine().sees(2)
	l.must(func(r *Repository) error {
		live, err := r.Released(true)
		if err != nil || len(live) != 2 || live[0].Yanked != why || live[1].Channels[build.Canary] != 10 || live[1].Channels[build.Stable] != 100 {
			t.Fatalf("%+v %v", live, err)
		}
		return nil
	})
}

func TestDescribeRefuses(t *testing.T) {
	t.Parallel()
	elf := heads["linux-amd64"] + "program"
	for name, c := range map[string]struct {
		version string
		files   map[string]string
		code    fault.Code
		words   string
	}{
		"no version":            {"one", nil, fault.Invalid, "no semantic version"},
		"no programs":           {"1.0.0", map[string]string{"notes.txt": "x", "interlock_1.0.deb": "x"}, fault.NotFound, "no program is in"},
		"unknown platform":      {"1.0.0", map[string]string{"interlock-plan9-amd64": elf}, fault.Invalid, "not released for"},
		"unknown architecture":  {"1.0.0", map[string]string{"nightshift-linux-mips": elf}, fault.Invalid, "linux-mips"},
		"another platform":      {"1.0.0", map[string]string{"interlock-linux-arm64": elf}, fault.Invalid, "is a program for linux-amd64, not for linux-arm64"},
		"a script":              {"1.0.0", map[string]string{"interlock-linux-arm64": "#!/bin/sh\nexec true || false\n"}, fault.Invalid, "an unknown system"},
		"cut off":               {"1.0.0", map[string]string{"interlock-linux-amd64": elf[:10]}, fault.Invalid, "10 bytes"},
		"empty":                 {"1.0.0", map[string]string{"interlock-linux-amd64": ""}, fault.Invalid, "0 bytes"},
		"a bundle that is none": {"1.0.0", map[string]string{"nightshift-macos-universal.zip": elf}, fault.Invalid, "not for darwin-universal"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range c.files {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			_, err := Describe(dir, c.version)
			refusedWith(t, err, c.code, c.words)
		})
	}
	t.Run("a link", func(t *testing.T) {
		dir := t.TempDir()
		if err := os.Symlink("/bin/true", filepath.Join(dir, "interlock-linux-amd64")); err != nil {
			t.Fatal(err)
		}
		_, err := Describe(dir, "1.0.0")
		refusedWith(t, err, fault.Invalid, "no regular file")
	})
	t.Run("too large", func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "interlock-linux-amd64")
		if err := os.WriteFile(path, []byte(elf), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, MaxProgram+1); err != nil { // sparse
			t.Fatal(err)
		}
		_, err := Describe(dir, "1.0.0")
		refusedWith(t, err, fault.TooLarge, "1 to 536870912")
	})
}

func TestABundleIsNamedForPeopleAndSignedForSystems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "nightshift-macos-universal.zip"), []byte("PK\x03\x04"+strings.Repeat("x", 40)), 0o644); err != nil {
		t.Fatal(err)
	}
	d, err := Describe(dir, "0.2.0")
	if err != nil || d.Files[0].target("0.2.0").Path() != "nightshift/0.2.0/nightshift-darwin-universal" {
		t.Fatalf("%+v %v", d, err)
	}
}

// A description comes from a file that anybody may have edited.
func TestReadDescriptionRefuses(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("ab", 32)
	entry := func(name, digest, size string) string {
		return `{"schema":1,"version":"1.0.0","files":[{"program":"interlock","os":"linux","arch":"amd64","name":"` + name + `","sha256":"` + digest + `","size":` + size + `}]}`
	}
	for name, c := range map[string]struct {
		text  string
		words string
	}{
		"no JSON":           {`{`, "no release of schema 1"},
		"another schema":    {`{"schema":2}`, "no release of schema 1"},
		"no files":          {`{"schema":1,"version":"1.0.0"}`, "names no files"},
		"a path":            {entry("../interlock-linux-amd64", sum, "1"), "no plain file name"},
		"an absolute path":  {entry("/bin/interlock-linux-amd64", sum, "1"), "no plain file name"},
		"another name":      {entry("passwd", sum, "1"), "no plain file name"},
		"no digest":         {entry("interlock-linux-amd64", "abc", "1"), "no SHA-256"},
		"no size":           {entry("interlock-linux-amd64", sum, "0"), "1 to 536870912"},
		"oversized":         {entry("interlock-linux-amd64", sum, "9999999999"), "1 to 536870912"},
		"an unknown system": {strings.Replace(entry("interlock-linux-amd64", sum, "1"), `"linux"`, `"plan9"`, 1), "plan9-amd64"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "release.json"), []byte(c.text), 0o644); err != nil {
				t.Fatal(err)
			}
			_, _, err := ReadDescription(dir)
			if err == nil || !strings.Contains(err.Error(), c.words) {
				t.Fatalf("%v; want %q", err, c.words)
			}
		})
	}
}

// What was built is what is signed: a file that changed in between stops everything.
func TestAProgramThatChangedAfterItWasBuiltIsNotSigned(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	d, dir := l.dist("1.0.0", "", "interlock-linux-amd64")
	if err := os.WriteFile(filepath.Join(dir, "interlock-linux-amd64"), []byte("something else"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := l.with(func(r *Repository) error {
		_, err := r.Sign(t.Context(), d, dir, everybody, l.ring())
		return err
	})
	refusedWith(t, err, fault.HashMismatch, "is not what it was when the release was built")
	l.must(func(r *Repository) error {
		if r.Pending() {
			t.Error("something is signed")
		}
		return nil
	})
}

func TestTwoCommandsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.must(func(*Repository) error {
		_, err := Open(l.dir, l.clock)
		refusedWith(t, err, fault.Conflict, "another release command")
		return nil
	})
}

// Bytes of the repository that somebody changed are found before anything is signed on top of them.
func TestADamagedRepositoryIsRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.sign("1.0.0", "linux-amd64")
	l.publish()
	for _, name := range []string{"1.root.json", "2.targets.json", "2.snapshot.json", "timestamp.json"} {
		path := filepath.Join(l.dir, "metadata", name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, text := range map[string][]byte{
			"cut off": whole[:len(whole)/2],
			"changed": []byte(strings.NewReplacer("2026-", "2036-", "2028-", "2038-").Replace(string(whole))),
			"empty":   {},
		} {
			if slices.Equal(text, whole) {
				t.Fatal("nothing was changed in", name)
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(l.dir, l.clock); err == nil || !strings.Contains(err.Error(), "cannot be trusted") {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l.machine().sees(1)
}
