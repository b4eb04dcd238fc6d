package release

import (
	"archive/zip"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/testkit"
)

// says is the file beside a program that tells this test binary, which stands there as the program, what to
// say.
const says = ".says"

// sayVersion is a released program that is asked for its version.
func sayVersion() int {
	exe, err := os.Executable()
	if err != nil {
		return 3
	}
	b, err := os.ReadFile(exe + says)
	switch text := string(b); {
	case err != nil:
		return 3
	case strings.HasPrefix(text, "fail"):
		fmt.Fprintln(os.Stderr, text)
		return 1
	default:
		fmt.Println(text)
	}
	return 0
}

// program makes this test binary a released program for this machine, which says what is written here.
func program(t *testing.T, dir, name, text string) File {
	t.Helper()
	f := File{Program: name, OS: runtime.GOOS, Arch: runtime.GOARCH}
	f.Name = f.target("1.0.0").File()
	path := filepath.Join(dir, f.Name)
	testkit.PlaceSelf(t, path)
	if err := os.WriteFile(path+says, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAProgramOfAnotherVersionIsNotReleased(t *testing.T) {
	t.Parallel()
	const of = "7.7.7-number.of.no.library"
	for name, c := range map[string]struct {
		program, says string
		refused       string // "" is taken
	}{
		"the right one":             {build.Interlock, "interlock " + of + " · go1.26", ""},
		"the dashboard":             {build.TUI, "interlock-tui " + of, ""},
		"another":                   {build.Interlock, "interlock 0.1.0-dev.g12ab · go1.26", "interlock-linux-" + runtime.GOARCH + " is of version 0.1.0-dev.g12ab, not of " + of},
		"a candidate of it":         {build.Interlock, "interlock " + of + ".rc · go1.26", "is of version " + of + ".rc"},
		"says nothing":              {build.Interlock, "", `is of version ""`},
		"does not start":            {build.TUI, "fail: no such table", "does not say its version"},
		"Nightshift":                {build.Nightshift, "nightshift 2.0.0", "is of version 2.0.0, not of"},
		"Nightshift, no libraries":  {build.Nightshift, "fail: libGL.so.1: cannot open shared object file", ""}, // then the bytes tell
		"the right one, many words": {build.Interlock, "interlock version " + of, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			d := Description{Version: of, Files: []File{program(t, dir, c.program, c.says)}}
			err := d.CheckVersions(t.Context(), dir)
			if c.refused == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refusedWith(t, err, fault.Invalid, c.refused)
		})
	}
}

// What this machine cannot start is told by its bytes.
func TestAProgramForAnotherSystemHoldsItsVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := File{Program: build.Interlock, OS: "darwin", Arch: "arm64", Name: "interlock-darwin-arm64"}
	broken := File{Program: build.Interlock, OS: runtime.GOOS, Arch: runtime.GOARCH, Name: "interlock-" + runtime.GOOS + "-" + runtime.GOARCH} // no program at all
	for _, f := range []File{other, broken} {
		for name, c := range map[string]struct {
			text string
			good bool
		}{
			"holds it":                 {strings.Repeat("x", 100) + "1.4.0" + strings.Repeat("y", 100), true},
			"begins with it":           {"1.4.0", true},
			"across two reads":         {strings.Repeat("x", 1<<20-2) + "1.4.0", true},
			"across two reads, longer": {strings.Repeat("x", 2<<20-8) + "1.4.0" + strings.Repeat("y", 1<<20), true},
			"another":                  {strings.Repeat("x", 3<<20) + "1.4.1", false},
			"empty":                    {"", false},
		} {
			if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(c.text), 0o755); err != nil {
				t.Fatal(err)
			}
			err := Description{Version: "1.4.0", Files: []File{f}}.CheckVersions(t.Context(), dir)
			if c.good && err != nil {
				t.Errorf("%s, %s: %v", f.Name, name, err)
			}
			if !c.good {
				refusedWith(t, err, fault.Invalid, "1.4.0 is nowhere in its bytes")
			}
		}
	}
}

func TestAnAppOfAnotherVersionIsNotReleased(t *testing.T) {
	t.Parallel()
	info := `<?xml version="1.0"?><plist version="1.0"><dict><key>CFBundleShortVersionString</key><string>2.0.0</string></dict></plist>`
	const at = "Nightshift.app/Contents/Info.plist"
	for name, c := range map[string]struct {
		files   map[string]string
		version string
		refused string
	}{
		"the right one": {map[string]string{at: info}, "2.0.0", ""},
		"another":       {map[string]string{at: info}, "2.0.1", "is of version 2.0.0, not of 2.0.1"},
		"no app":        {map[string]string{"Info.plist": info}, "2.0.0", "holds no app"},
		"no plist":      {map[string]string{at: "{"}, "2.0.0", "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := File{Program: build.Nightshift, OS: "darwin", Arch: build.Universal, Name: "nightshift-macos-universal.zip"}
			out, err := os.Create(filepath.Join(dir, f.Name))
			if err != nil {
				t.Fatal(err)
			}
			w := zip.NewWriter(out)
			for name, text := range c.files {
				part, err := w.Create(name)
				if err == nil {
					_, err = part.Write([]byte(text))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := out.Close(); err != nil {
				t.Fatal(err)
			}
			err = Description{Version: c.version, Files: []File{f}}.CheckVersions(t.Context(), dir)
			if c.refused == "" && err != nil {
				t.Error(err)
			}
			if c.refused != "" {
				refusedWith(t, err, fault.Invalid, c.refused)
			}
		})
	}
}
