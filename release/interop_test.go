package release

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/plane"
	"interlock.sh/updater"
)

// python runs a script of testdata with the reference implementation.
func python(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PYTHONPATH=" + testkit.TUFPython(t), "PYTHONDONTWRITEBYTECODE=1"}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, said.Bytes())
	}
	return out
}

// What we sign, after keys were replaced, is read by the reference client through the control plane's
// mirror, whatever root it began with, and again after the repository went on.
func TestTheReferenceClientReadsOurs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.clock = clock.NewFake(time.Now()) // the other side has no clock to set
	l.dir, l.keys = filepath.Join(t.TempDir(), "repository"), t.TempDir()
	r, err := Init(t.Context(), l.dir, Layout{RootKeys: 3, Threshold: 2}, DefaultSettings(), l.ring(), l.clock)
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	p := plane.Start(t, plane.Options{})
	mirror := func() {
		l.must(func(r *Repository) error { return r.Upload(t.Context(), p.Owner, func(string) {}) })
	}
	cache := t.TempDir()
	read := func(root, cache string) map[string]seen {
		var out map[string]seen
		text := python(t, "testdata/read.py", p.URL+updater.DefaultPath, filepath.Join(l.dir, "metadata", root), cache)
		if err := json.Unmarshal(text, &out); err != nil {
			t.Fatal(err, string(text))
		}
		return out
	}
	l.sign("1.0.0", "linux-amd64", "linux-arm64")
	l.publish()
	mirror()
	if got := read("1.root.json", cache); len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	if _, err := l.rotate(l.ring(), "root-1", "targets-1", "timestamp-1"); err != nil {
		t.Fatal(err)
	}
	l.sign("1.1.0", "linux-amd64")
	const why = "verliert Aufträge <&> \"q\" \\ 日本"
	l.must(func(r *Repository) error {
		_, err := r.Yank(t.Context(), build.Interlock, "1.0.0", why, l.ring())
		return err
	})
	l.publish()
	mirror()
	mirror() // a repetition sends nothing and changes nothing
	want := map[string]seen{}
	l.must(func(r *Repository) error {
		all, err := r.Released(true)
		for _, x := range all {
			want[x.Path()] = seen{Length: x.Size, SHA256: x.SHA256, Custom: x.Target}
		}
		return err
	})
	for root, cache := range map[string]string{"1.root.json": cache, "2.root.json": t.TempDir()} {
		got := read(root, cache)
		if len(got) != 3 {
			t.Errorf("from %s: %+v", root, got)
		}
		for path, w := range want {
			g := got[path]
			if g.Length != w.Length || g.SHA256 != w.SHA256 || g.Custom.Path() != path || g.Custom.Yanked != w.Custom.Yanked || g.Custom.Channels[build.Stable] != 100 {
				t.Errorf("%s from %s: %+v, want %+v", path, root, g, w)
			}
		}
	}
	if want["interlock/1.0.0/interlock-linux-arm64"].Custom.Yanked != why {
		t.Errorf("%+v", want)
	}
}

// seen is a target as the reference client prints it.
type seen struct {
	Length int64        `json:"length"`
	SHA256 string       `json:"sha256"`
	Custom build.Target `json:"custom"`
}

// What the reference implementation signs passes our mirror and our updater: the highest version that is
// not withdrawn is installed.
func TestOursReadTheReference(t *testing.T) {
	t.Parallel()
	made := filepath.Join(t.TempDir(), "repository")
	python(t, "testdata/make.py", made)
	p := plane.Start(t, plane.Options{})
	err := fs.WalkDir(os.DirFS(made), "targets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		_, err = p.Owner.Upload(t.Context(), filepath.Join(made, path), client.Transfer{})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"1.root.json", "2.root.json", "1.targets.json", "1.snapshot.json", "timestamp.json"} {
		text, err := os.ReadFile(filepath.Join(made, "metadata", name))
		if err == nil {
			err = p.Owner.PutReleaseMetadata(t.Context(), name, text)
		}
		if err != nil {
			t.Fatal(name, err)
		}
	}
	installed := filepath.Join(t.TempDir(), "interlock")
	if err := os.WriteFile(installed, []byte("interlock 1.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	version, fresh, err := updater.SelfUpdate(t.Context(), updater.Options{
		App: t.TempDir(), Origins: []updater.Origin{{Name: p.URL, Client: p.Client("")}}, Machine: "mach_1", OS: "linux", Arch: "amd64",
	}, updater.Single{Path: installed, Version: "1.0.0"})
	if err != nil || version != "1.1.0" || !fresh {
		t.Fatal(version, fresh, err)
	}
	if text, err := os.ReadFile(installed); err != nil || string(text) != "interlock 1.1.0" {
		t.Fatal(string(text), err)
	}
}
