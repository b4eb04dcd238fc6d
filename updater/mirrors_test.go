package updater

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/testkit/tufrepo"
)

// fleetOf is a machine that is enrolled at several origins, each a mirror with the files of its time.
func fleetOf(t *testing.T, r *rig, mirrors ...http.Handler) {
	r.Origins = nil
	for i, h := range mirrors {
		o := origin(t, tufrepo.Serve(t, h))
		o.Name = string(rune('a' + i))
		r.Origins = append(r.Origins, o)
	}
}

// Two origins, one at N and one at N−1, in either order: the machine goes to N and never down.
func TestTwoOriginsOfferNAndNMinusOne(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"old first", "new first"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.release("1.1.0", "good")
			old := tufrepo.Copy(r.repo.Files())
			r.release("1.2.0", "good")
			mirrors := []http.Handler{old, r.repo}
			if order == "new first" {
				mirrors = []http.Handler{r.repo, old}
			}
			fleetOf(t, r, mirrors...)
			n := r.run()
			r.want(n, Current, "1.2.0")
			r.want(r.run(), Current, "1.2.0")
			for _, m := range n.Mirrors {
				if behind := (m.Name == "a") == (order == "old first"); m.OK == behind || behind && !strings.Contains(m.Why, "this machine has seen") {
					t.Errorf("mirror %+v", m)
				}
			}
			r.Origins = r.Origins[:1] // the other one is gone
			if order == "new first" {
				return
			}
			n = r.run()
			r.want(n, Stopped, "1.2.0")
			r.why(n, "older metadata than this machine has seen")
		})
	}
}

// A mirror that fails, in any way, neither stops the others nor spoils what they say.
func TestOneBadMirrorStopsNobody(t *testing.T) {
	t.Parallel()
	other := func(t *testing.T, _ *rig) http.Handler { return tufrepo.New(t, born) }
	status := func(code int) func(*testing.T, *rig) http.Handler {
		return func(*testing.T, *rig) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
		}
	}
	for name, bad := range map[string]func(*testing.T, *rig) http.Handler{
		"answers 500":     status(500),
		"answers 403":     status(403),
		"has nothing":     status(404),
		"another root":    other,
		"sends elsewhere": status(302),
		"lower numbers after a new start": func(t *testing.T, r *rig) http.Handler {
			// Same keys, numbers that began again: what a restored backup serves.
			files := r.repo.Files()
			was := *r.repo.Timestamp
			r.repo.Timestamp.Signed.Version = 1
			files["metadata/timestamp.json"] = r.repo.Signed(tufrepo.Timestamp)
			*r.repo.Timestamp = was
			return tufrepo.Copy(files)
		},
		"in the middle of an upload": func(t *testing.T, r *rig) http.Handler {
			// A newer timestamp is there, the snapshot that it names is not.
			files := r.repo.Files()
			r.repo.Snapshot.Signed.Version++
			r.repo.Publish(tufrepo.Timestamp)
			files["metadata/timestamp.json"] = r.repo.File("metadata/timestamp.json")
			r.repo.Snapshot.Signed.Version--
			r.repo.Timestamp.Signed.Version--
			r.repo.Timestamp.Signed.Version--
			r.repo.Publish(tufrepo.Timestamp)
			return tufrepo.Copy(files)
		},
		"a program that is not whole": func(t *testing.T, r *rig) http.Handler {
			files := r.repo.Files()
			for path := range files {
				if strings.HasPrefix(path, "targets/") {
					files[path] = files[path][:3]
				}
			}
			return tufrepo.Copy(files)
		},
	} {
		for _, first := range []bool{true, false} {
			where := map[bool]string{true: "first", false: "last"}[first]
			t.Run(name+", "+where, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				must(t, os.MkdirAll(filepath.Join(r.app, "trust"), 0o700))
				must(t, os.WriteFile(filepath.Join(r.app, "trust", "root.json"), r.repo.File("metadata/1.root.json"), 0o600))
				r.release("1.1.0", "good")
				mirrors := []http.Handler{bad(t, r), r.repo}
				if !first {
					mirrors = []http.Handler{r.repo, mirrors[0]}
				}
				fleetOf(t, r, mirrors...)
				n := r.run()
				r.want(n, Current, "1.1.0")
				for _, m := range n.Mirrors {
					good := (m.Name == "b") == first || name == "a program that is not whole"
					if m.OK != good {
						t.Errorf("mirror %+v", m)
					}
				}
				r.release("1.2.0", "good")
				r.want(r.run(), Current, "1.2.0")
			})
		}
	}
}

// A control plane that is away is no news for a day.
func TestAControlPlaneThatIsAway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "good")
	r.want(r.run(), Current, "1.1.0")
	r.server.CloseClientConnections()
	r.server.Close()
	r.want(r.run(), Current, "1.1.0")
	r.clock.Advance(25 * 60 * 60 * 1e9)
	n := r.run()
	r.want(n, Stopped, "1.1.0")
	r.why(n, "no control plane answered since 2026-11-30")
	if _, err := r.updater().Check(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Fatalf("by hand: %v", err)
	}
}

// A control plane that never offered signed releases is no fault, and each look is news; one that did and does
// not any more is a fault, and so is one that offers half of them.
func TestNoReleasesAndNoOrigin(t *testing.T) {
	t.Parallel()
	never := func(t *testing.T, spoil func(files map[string][]byte)) *rig {
		r := newRig(t)
		r.release("1.1.0", "good")
		files := r.repo.Files()
		spoil(files)
		fleetOf(t, r, tufrepo.Copy(files))
		return r
	}
	for name, c := range map[string]struct {
		spoil func(files map[string][]byte)
		state string
	}{
		"nothing at all":      {func(files map[string][]byte) { clear(files) }, Unoffered},
		"a root alone":        {func(files map[string][]byte) { delete(files, "metadata/timestamp.json") }, Unoffered},
		"half of an upload":   {func(files map[string][]byte) { delete(files, "metadata/2.targets.json") }, Stopped},
		"a page of a network": {func(files map[string][]byte) { files["metadata/timestamp.json"] = []byte("<html>") }, Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := never(t, c.spoil)
			r.want(r.run(), c.state, "1.0.0")
			n := r.run()
			r.want(n, c.state, "1.0.0")
			if fresh := n.Report.At.Equal(r.clock.Now()); fresh != (c.state == Unoffered) {
				t.Errorf("the report is of %v, now is %v", n.Report.At, r.clock.Now())
			}
			if c.state == Unoffered {
				r.why(n, "offers no signed releases")
			}
		})
	}
	t.Run("not any more", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		fleetOf(t, r, r.repo)
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
		r.Origins = []Origin{{Name: r.Origins[0].Name, Client: origin(t, tufrepo.Serve(t, http.NotFoundHandler())).Client}}
		n := r.run()
		r.want(n, Stopped, "1.1.0")
		r.why(n, "offers no signed releases")
	})
	t.Run("no origin", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.Origins = nil
		n := r.run()
		r.want(n, Stopped, "1.0.0")
		r.why(n, "not enrolled")
	})
}

func TestPinTrustsTheFirstRootOnly(t *testing.T) {
	t.Parallel()
	app := filepath.Join(t.TempDir(), "app")
	a, b := tufrepo.New(t, born), tufrepo.New(t, born)
	first, err := Pin(t.Context(), app, origin(t, a.Serve()))
	if err != nil || !first {
		t.Fatalf("%v %v", first, err)
	}
	if first, err = Pin(t.Context(), app, origin(t, b.Serve())); err != nil || first {
		t.Fatalf("a second root was pinned: %v %v", first, err)
	}
	if first, err = Pin(t.Context(), t.TempDir(), origin(t, tufrepo.Serve(t, http.NotFoundHandler()))); err != nil || first {
		t.Fatalf("nothing was pinned: %v %v", first, err)
	}
	bad := tufrepo.New(t, born)
	bad.Put("metadata/1.root.json", []byte(`{"signatures":[],"signed":{}}`))
	if _, err = Pin(t.Context(), t.TempDir(), origin(t, bad.Serve())); err == nil {
		t.Fatal("a root that nobody signed was pinned")
	}
}

func TestTheBuiltInRoot(t *testing.T) {
	t.Parallel()
	t.Run("needs no pinning, and nobody else's is pinned", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.repo.Publish(tufrepo.Root) // a program is built with a later root
		r.Root = r.repo.File("metadata/2.root.json")
		r.release("1.1.0", "good")
		fleetOf(t, r, tufrepo.New(t, born), r.repo)
		n := r.run()
		r.want(n, Current, "1.1.0")
		if n.Mirrors[0].OK || !n.Mirrors[1].OK {
			t.Errorf("mirrors %+v", n.Mirrors)
		}
		first, err := os.ReadFile(filepath.Join(r.app, "trust", firstRoot))
		if err != nil || string(first) != string(r.repo.File("metadata/1.root.json")) {
			t.Errorf("the first root is not kept: %v", err)
		}
	})
	t.Run("of another repository does not replace what is kept", func(t *testing.T) {
		t.Parallel()
		r := attacked(t)
		other := tufrepo.New(t, born)
		for range 5 {
			other.Publish(tufrepo.Root)
		}
		r.Root = other.File("metadata/6.root.json")
		r.release("1.2.0", "good")
		r.want(r.run(), Current, "1.2.0")
	})
	t.Run("means nothing in a folder of its own", func(t *testing.T) {
		t.Parallel()
		other, builtIn := tufrepo.New(t, born), tufrepo.New(t, born)
		first := other.File("metadata/1.root.json")
		f := folder(filepath.Join(t.TempDir(), "app-"+ownName(first)))
		if _, err := f.pin(t.Context(), origin(t, builtIn.Serve()), builtIn.File("metadata/1.root.json")); contains(err, "another root of trust than the one that") != nil {
			t.Errorf("a root was pinned that the folder is not for: %v", err)
		}
		if ok, err := f.pin(t.Context(), origin(t, other.Serve()), builtIn.File("metadata/1.root.json")); err != nil || !ok {
			t.Fatalf("%v %v", ok, err)
		}
		if held, _, err := f.root(builtIn.File("metadata/1.root.json")); err != nil || string(held) != string(first) {
			t.Errorf("the root is another: %v", err)
		}
	})
}

func TestFolderOfAnOrigin(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	common := filepath.Join(home, "app")
	a, b := tufrepo.New(t, born), tufrepo.New(t, born)
	at := origin(t, a.Serve())
	folderOf := func(o Origin) string {
		t.Helper()
		f, err := Folder(t.Context(), home, o)
		must(t, err)
		return f
	}
	if got := folderOf(at); got != common {
		t.Fatalf("the first origin: %s", got)
	}
	if _, err := Pin(t.Context(), common, at); err != nil {
		t.Fatal(err)
	}
	other := origin(t, b.Serve())
	own := folderOf(other)
	if got := filepath.Base(own); len(got) != len("app-01234567") || !strings.HasPrefix(got, "app-") {
		t.Fatalf("an origin with another root: %s", own)
	}
	if got := folderOf(other); got != own {
		t.Fatalf("the second time: %s, not %s", got, own)
	}
	b.Publish(tufrepo.Root) // a new root of the same chain
	if got := folderOf(other); got != own {
		t.Fatalf("after its root moved: %s, not %s", got, own)
	}
	a.Publish(tufrepo.Root)
	if got := folderOf(at); got != common {
		t.Fatalf("our own origin after its root moved: %s", got)
	}
	if got := folderOf(origin(t, tufrepo.Serve(t, http.NotFoundHandler()))); got != common {
		t.Fatalf("an origin without releases: %s", got)
	}
}

// Each origin's services belong to one app folder, also when the origin is away, whatever the home is called.
func TestBelongs(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ns", "odd [name]", "[", "*", `a\b`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			belongs(t, filepath.Join(t.TempDir(), name))
		})
	}
}

func belongs(t *testing.T, home string) {
	t.Helper()
	common := filepath.Join(home, "app")
	a, b := tufrepo.New(t, born), tufrepo.New(t, born)
	ours, server := origin(t, a.Serve()), b.Serve()
	other := origin(t, server)
	is := func(app string, o Origin) bool {
		t.Helper()
		ok, err := Belongs(t.Context(), home, app, o)
		must(t, err)
		return ok
	}
	_, err := Pin(t.Context(), common, ours)
	must(t, err)
	must(t, os.MkdirAll(filepath.Join(home, "app-old"), 0o755)) // its owner's, and none of ours
	if !is(common, ours) || !is(common, other) {
		t.Error("with one app folder all origins belong to it")
	}
	own, err := Folder(t.Context(), home, other)
	must(t, err)
	must(t, os.MkdirAll(own, 0o755))
	for range 2 { // the second time its origin is away
		if !is(common, ours) || is(own, ours) || is(common, other) || !is(own, other) {
			t.Errorf("ours: %v %v, other: %v %v", is(common, ours), is(own, ours), is(common, other), is(own, other))
		}
		server.Close()
	}
}

// Programs beside the main one move along, each at its own newest version, and are refreshed by themselves.
func TestProgramsBesideMoveAlong(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	must(t, os.WriteFile(filepath.Join(r.app, "1.0.0", build.Nightshift), []byte("night old"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.app, "1.0.0", build.TUI), []byte("tui unsigned"), 0o755))
	night := func(version, text string) {
		r.repo.Add(build.Target{Program: build.Nightshift, Version: version, OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}, []byte(text))
		r.repo.Publish()
	}
	holds := func(name, want string) {
		t.Helper()
		if b, err := os.ReadFile(filepath.Join(r.app, "current", name)); err != nil || string(b) != want {
			t.Fatalf("%s holds %q, %v; want %q", name, b, err, want)
		}
	}
	night("2.0.0", "night 2.0.0")
	r.want(r.run(), Current, "1.0.0")
	holds(build.Nightshift, "night 2.0.0")
	r.release("1.1.0", "good")
	r.want(r.run(), Current, "1.1.0")
	holds(build.Nightshift, "night 2.0.0")
	holds(build.TUI, "tui unsigned")
	night("2.1.0", "night 2.1.0")
	r.release("1.2.0", "good")
	r.want(r.run(), Current, "1.2.0")
	holds(build.Nightshift, "night 2.1.0")
	equal(t, "the folder", names(t, filepath.Join(r.app, "1.2.0")), []string{build.Interlock, build.TUI, build.Nightshift})
}

func TestCanaryByLot(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.release("1.1.0", "good", func(b *build.Target) { b.Channels = map[string]int{build.Canary: 100} })
	stable, canary := build.Stable, build.Canary
	n, err := r.updater().Now(t.Context(), NowOptions{Channel: &stable})
	must(t, err)
	r.want(n, Current, "1.0.0")
	r.why(n, "1.1.0 is not for this machine yet")
	wrong := "beta"
	if _, err = r.updater().Now(t.Context(), NowOptions{Channel: &wrong}); !errors.Is(err, fault.Invalid) {
		t.Fatalf("channel beta: %v", err)
	}
	n, err = r.updater().Now(t.Context(), NowOptions{Channel: &canary})
	must(t, err)
	r.want(n, Current, "1.1.0")
	if n.Channel != build.Canary {
		t.Errorf("the channel is %q", n.Channel)
	}
}

func TestSelfUpdate(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := t.TempDir()
	path := filepath.Join(dir, "interlock")
	must(t, os.WriteFile(path, []byte("1.0.0 good"), 0o755))
	link := filepath.Join(t.TempDir(), "interlock")
	must(t, os.Symlink(path, link))
	o := r.Options
	o.App, o.Services = t.TempDir(), nil
	update := func(version string) (string, bool, error) {
		return SelfUpdate(t.Context(), o, Single{Path: link, Version: version})
	}
	if v, fresh, err := update("1.0.0"); v != "1.0.0" || fresh || err != nil {
		t.Fatalf("nothing to do: %s %v %v", v, fresh, err)
	}
	r.release("1.1.0", "good")
	if v, fresh, err := update("1.0.0"); v != "1.1.0" || !fresh || err != nil {
		t.Fatalf("%s %v %v", v, fresh, err)
	}
	if b, _ := os.ReadFile(path); string(b) != "1.1.0 good" {
		t.Fatalf("the file holds %q", b)
	}
	equal(t, "the folder", names(t, dir), []string{"interlock"})
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o755 {
		t.Fatalf("%v, %v", st.Mode(), err)
	}
	r.release("1.2.0", "good")
	for p := range r.repo.Files() {
		if strings.HasPrefix(p, "targets/interlock/1.2.0") {
			r.repo.Put(p, []byte("1.2.0 evil"))
		}
	}
	if _, _, err := update("1.1.0"); !errors.Is(err, fault.HashMismatch) {
		t.Fatalf("a wrong file: %v", err)
	}
	if b, _ := os.ReadFile(path); string(b) != "1.1.0 good" {
		t.Fatalf("the file holds %q", b)
	}
	if _, _, err := SelfUpdate(t.Context(), o, Single{Path: filepath.Join(r.app, "current", "interlock"), Version: "1.0.0"}); !errors.Is(err, fault.Conflict) || contains(err, "agent update") != nil {
		t.Fatalf("the agent's own program: %v", err)
	}
}
