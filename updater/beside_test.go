package updater

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/fleet/build"
)

// night publishes a version of Nightshift.
func (r *rig) night(version, text string) {
	r.t.Helper()
	r.repo.Add(build.Target{Program: build.Nightshift, Version: version, OS: "linux", Arch: "amd64", Channels: map[string]int{build.Stable: 100}}, []byte(text))
	r.repo.Publish()
}

// put lays a program beside a version, as the install line does.
func (r *rig) put(version, name, text string) {
	r.t.Helper()
	must(r.t, os.WriteFile(filepath.Join(r.app, version, name), []byte(text), 0o755))
}

func (r *rig) holds(name, want string) {
	r.t.Helper()
	b, err := os.ReadFile(filepath.Join(r.app, "current", name))
	if st, gone := os.Stat(filepath.Join(r.app, "current", name)); err != nil || gone != nil || string(b) != want || st.Mode().Perm()&0o100 == 0 {
		r.t.Fatalf("%s holds %q, %v; want %q", name, b, errors.Join(err, gone), want)
	}
}

// Whatever current comes to name, and whenever Nightshift was installed, its path names it.
func TestNightshiftIsNeverLost(t *testing.T) {
	t.Parallel()
	t.Run("installed while an update waits", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.saw("den.client")
		s.BusyUntil = r.clock.Now().Add(time.Hour)
		r.world.write(s)
		r.release("1.1.0", "good")
		r.want(r.run(), Waiting, "1.0.0")
		r.put("1.0.0", build.Nightshift, "night")
		r.clock.Advance(time.Hour)
		r.want(r.run(), Current, "1.1.0")
		r.holds(build.Nightshift, "night")
	})
	t.Run("reverted", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.put("1.0.0", build.Nightshift, "night old")
		r.put("1.0.0", build.TUI, "tui")
		r.release("1.1.0", "dead")
		u := r.updater()
		u.reached = func(step string) {
			if step == "watching" { // the install line brings one meanwhile
				r.put("1.1.0", build.Nightshift, "night new")
			}
		}
		n, err := u.Run(t.Context())
		must(t, err)
		r.want(n, Reverted, "1.0.0")
		r.holds(build.Nightshift, "night new")
		r.holds(build.TUI, "tui")
	})
	t.Run("rolled back", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
		r.put("1.1.0", build.Nightshift, "night new")
		r.put("1.0.0", build.Nightshift, "night old")
		n, err := r.updater().Rollback(t.Context())
		must(t, err)
		r.want(n, Current, "1.0.0")
		r.holds(build.Nightshift, "night new")
	})
	t.Run("current was damaged", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.release("1.1.0", "good")
		r.want(r.run(), Current, "1.1.0")
		r.put("1.1.0", build.Nightshift, "night")
		must(t, os.Truncate(filepath.Join(r.app, "1.1.0", build.Interlock), 0))
		r.run()
		r.holds(build.Nightshift, "night")
	})
	t.Run("by hand, without a new version of the agent", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.put("1.0.0", build.Nightshift, "night old")
		r.night("2.0.0", "night 2.0.0")
		n, err := r.updater().Now(t.Context(), NowOptions{})
		must(t, err)
		r.want(n, Current, "1.0.0")
		r.holds(build.Nightshift, "night 2.0.0")
	})
}

// A Nightshift that does not start takes no place, unless this machine could not start the one before either.
func TestANightshiftThatDoesNotStartTakesNoPlace(t *testing.T) {
	t.Parallel()
	for old, want := range map[string]string{"night good": "night good", "night no libraries": "night broken"} {
		for _, along := range []bool{false, true} { // with a new version of the agent
			t.Run(fmt.Sprint(old, along), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.Try = func(_ context.Context, program string) error {
					if b, err := os.ReadFile(program); err != nil || !strings.HasSuffix(string(b), "good") {
						return exited(1)
					}
					return nil
				}
				r.put("1.0.0", build.Nightshift, old)
				current := "1.0.0"
				if along {
					r.release("1.1.0", "good")
					current = "1.1.0"
				}
				r.night("2.0.0", "night broken")
				r.want(r.run(), Current, current)
				r.holds(build.Nightshift, want)
				fetched := r.fetched("nightshift/2.0.0/")
				r.run()
				if again := r.fetched("nightshift/2.0.0/"); fetched != 1 || again != 0 {
					t.Errorf("its bytes were fetched %d times, and %d times in the next pass", fetched, again)
				}
				if want != old { // it was taken
					return
				}
				r.night("2.1.0", "night good")
				r.want(r.run(), Current, current)
				r.holds(build.Nightshift, "night good")
			})
		}
	}
}

// fetched counts the requests for files below a place since the last time.
func (r *rig) fetched(below string) (n int) {
	for _, p := range r.repo.Requests() {
		if strings.Contains(p, below) {
			n++
		}
	}
	return n
}

// entry is one file of an archive.
type entry struct {
	name, text string
	mode       fs.FileMode
}

func archive(t *testing.T, files ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		h.SetMode(f.mode)
		out, err := w.CreateHeader(h)
		if err == nil {
			_, err = out.Write([]byte(f.text))
		}
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

func infoPlist(version string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><plist version="1.0"><dict><key>CFBundleShortVersionString</key><string>` + version + `</string></dict></plist>`
}

// appOf is Nightshift for macOS as it is released.
func appOf(version, text string) []entry {
	return []entry{
		{"Nightshift.app/", "", fs.ModeDir | 0o755},
		{"Nightshift.app/Contents/Info.plist", infoPlist(version), 0o644},
		{"Nightshift.app/Contents/MacOS/nightshift", text, 0o755},
		{"__MACOSX/Nightshift.app/._Contents", "attributes", 0o644},
	}
}

// withBundle is a rig with the app of an older version in a folder of apps.
func withBundle(t *testing.T) (r *rig, apps string) {
	t.Helper()
	r, apps = newRig(t), t.TempDir()
	r.Bundle = &Bundle{Program: build.Nightshift, Path: filepath.Join(apps, "Nightshift.app")}
	must(t, os.MkdirAll(filepath.Join(r.Bundle.Path, "Contents", "MacOS"), 0o755))
	must(t, os.WriteFile(filepath.Join(r.Bundle.Path, "Contents", "Info.plist"), []byte(infoPlist("1.0.0")), 0o644))
	must(t, os.WriteFile(filepath.Join(r.Bundle.Path, "Contents", "MacOS", "nightshift"), []byte("app 1.0.0"), 0o755))
	return r, apps
}

func (r *rig) forMac(version string, files ...entry) {
	r.t.Helper()
	r.repo.Add(build.Target{Program: build.Nightshift, Version: version, OS: "darwin", Arch: build.Universal, Channels: map[string]int{build.Stable: 100}}, archive(r.t, files...))
	r.repo.Publish()
}

func (r *rig) wantApp(apps, text string) {
	r.t.Helper()
	program := filepath.Join(r.Bundle.Path, "Contents", "MacOS", "nightshift")
	if b, err := os.ReadFile(program); err != nil || string(b) != text {
		r.t.Errorf("the app holds %q, %v; want %q", b, err, text)
	}
	equal(r.t, "the folder of apps", names(r.t, apps), []string{"Nightshift.app"})
}

func TestAnAppOfMacOSIsKeptAtItsOwnVersion(t *testing.T) {
	t.Parallel()
	r, apps := withBundle(t)
	must(t, os.MkdirAll(filepath.Join(apps, bundleStaging+"killed", "fresh"), 0o755)) // by a pass that was killed
	r.forMac("1.1.0", appOf("1.1.0", "app 1.1.0")...)
	r.want(r.run(), Current, "1.0.0")
	r.wantApp(apps, "app 1.1.0")
	equal(t, "the app", names(t, r.Bundle.Path), []string{"Contents"})
	was, err := os.Stat(r.Bundle.Path)
	must(t, err)
	r.run()
	if is, err := os.Stat(r.Bundle.Path); err != nil || !os.SameFile(was, is) {
		t.Error("the newest version was replaced by itself")
	}
	must(t, os.RemoveAll(r.Bundle.Path))
	r.run()
	if got := names(t, apps); len(got) != 0 {
		t.Errorf("an app that its owner threw away is back: %v", got)
	}
}

// What is signed by mistake must not leave a Mac without its app, nor write anywhere else.
func TestAnArchiveThatIsNoAppIsNotTaken(t *testing.T) {
	t.Parallel()
	more := func(e entry) []entry { return append(appOf("1.1.0", "app 1.1.0"), e) }
	for name, files := range map[string][]entry{
		"another version":      appOf("1.2.0", "app"),
		"another app":          {{"Other.app/Contents/Info.plist", infoPlist("1.1.0"), 0o644}},
		"empty":                nil,
		"outside":              more(entry{"../escaped", "x", 0o644}),
		"outside by a detour":  more(entry{"Nightshift.app/../../escaped", "x", 0o644}),
		"an absolute path":     more(entry{"/escaped", "x", 0o644}),
		"a link":               more(entry{"Nightshift.app/link", "/etc", fs.ModeSymlink | 0o777}),
		"a device":             more(entry{"Nightshift.app/dev", "", fs.ModeDevice | 0o644}),
		"a file twice":         more(entry{"Nightshift.app/Contents/Info.plist", infoPlist("1.1.0"), 0o644}),
		"a file and a folder":  more(entry{"Nightshift.app/Contents/Info.plist/x", "x", 0o644}),
		"no program":           {{"Nightshift.app/Contents/Info.plist", "no plist", 0o644}},
		"a backslash for path": more(entry{`Nightshift.app\..\escaped`, "x", 0o644}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, apps := withBundle(t)
			r.forMac("1.1.0", files...)
			r.want(r.run(), Current, "1.0.0")
			r.wantApp(apps, "app 1.0.0")
			first := r.fetched("nightshift/1.1.0/")
			r.run()
			if again := r.fetched("nightshift/1.1.0/"); first != 1 || again != 0 {
				t.Errorf("its bytes were fetched %d times, and %d times in the next pass", first, again)
			}
			if _, err := os.Lstat(filepath.Join(filepath.Dir(apps), "escaped")); err == nil {
				t.Error("it wrote outside")
			}
		})
	}
	t.Run("no archive", func(t *testing.T) {
		t.Parallel()
		r, apps := withBundle(t)
		r.repo.Add(build.Target{Program: build.Nightshift, Version: "1.1.0", OS: "darwin", Arch: build.Universal, Channels: map[string]int{build.Stable: 100}}, []byte("PK no"))
		r.repo.Publish()
		r.run()
		r.wantApp(apps, "app 1.0.0")
	})
}

// What stands beside is on the machine's channel, as the main program is: by the timer, along with an update, and
// as an app of macOS.
func TestTheChannelHoldsForNightshift(t *testing.T) {
	t.Parallel()
	canary := func(b *build.Target) { b.Channels = map[string]int{build.Canary: 100} }
	for channel, want := range map[string]string{build.Stable: "1.1.0", build.Canary: "2.0.0", "": "2.0.0"} {
		t.Run("channel "+channel, func(t *testing.T) {
			t.Parallel()
			r, apps := withBundle(t)
			r.put("1.0.0", build.Nightshift, "night 1.0.0")
			r.forMac("1.1.0", appOf("1.1.0", "app 1.1.0")...)
			r.night("1.1.0", "night 1.1.0")
			for _, os := range []string{"linux-amd64", "darwin-universal"} {
				b := build.Target{Program: build.Nightshift, Version: "2.0.0"}
				b.OS, b.Arch, _ = strings.Cut(os, "-")
				canary(&b)
				text := []byte("night 2.0.0")
				if b.OS == "darwin" {
					text = archive(t, appOf("2.0.0", "app 2.0.0")...)
				}
				r.repo.Add(b, text)
			}
			r.repo.Publish()
			_, err := r.updater().Now(t.Context(), NowOptions{Channel: &channel})
			must(t, err)
			r.run()
			r.holds(build.Nightshift, "night "+want)
			r.wantApp(apps, "app "+want)
			r.release("1.1.0", "good") // along with a new version
			r.want(r.run(), Current, "1.1.0")
			r.holds(build.Nightshift, "night "+want)
		})
	}
}

// A Nightshift that no release knows is replaced by a newer one alone, and by any when it cannot tell its version.
func TestANightshiftThatNoReleaseKnowsGrowsNoOlder(t *testing.T) {
	t.Parallel()
	for says, want := range map[string]string{
		"1.9.0": "night 2.0.0", "2.0.0": "night unknown", "2.1.0-dev": "night unknown", "": "night 2.0.0", "devel": "night 2.0.0",
	} {
		for _, along := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %v", says, along), func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.VersionOf = func(context.Context, string) string { return says }
				r.put("1.0.0", build.Nightshift, "night unknown")
				r.night("2.0.0", "night 2.0.0")
				if along {
					r.release("1.1.0", "good")
				}
				r.run()
				r.holds(build.Nightshift, want)
			})
		}
	}
}
