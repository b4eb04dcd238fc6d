package release

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"howett.net/plist"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

const (
	sayWithin = 15 * time.Second // for a program to say its version
	maxPlist  = 1 << 20
)

// CheckVersions refuses programs that are of another version than the release: a machine would install them
// and find that what runs is not what it wanted. Programs for this system are asked; in others, which cannot
// be started here, the version must stand somewhere in the bytes; an app of macOS says it in its Info.plist.
func (d Description) CheckVersions(ctx context.Context, dir string) error {
	for _, f := range d.Files {
		says, err := f.version(ctx, filepath.Join(dir, f.Name), d.Version)
		if err != nil {
			return err
		}
		if says != d.Version {
			return fault.New(fault.Invalid, "%s is of version %s, not of %s", f.Name, says, d.Version).WithField("version").
				WithHint("build it as that version, as in: make dist VERSION=%s; or release it as what it is", d.Version)
		}
	}
	return nil
}

// version is what a program is, as far as it can be told here.
func (f File) version(ctx context.Context, path, want string) (string, error) {
	if f.Arch == build.Universal {
		return f.bundled(path)
	}
	if f.OS == runtime.GOOS && f.Arch == runtime.GOARCH {
		says, started, err := f.says(ctx, path, want)
		if started || err != nil {
			return says, err
		}
	}
	is, err := holds(path, want)
	if err != nil {
		return "", fmt.Errorf("read program: %w", err)
	}
	if !is {
		return "another number (it was built for another system, and " + want + " is nowhere in its bytes)", nil
	}
	return want, nil
}

// says starts a program and has it say its version. One that cannot be started says nothing: here it may lack
// the right to, or, as Nightshift does where there is no desktop, its libraries.
func (f File) says(ctx context.Context, path, want string) (version string, started bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sayWithin)
	defer cancel()
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", false, fmt.Errorf("find program: %w", err)
	}
	cmd := exec.CommandContext(ctx, abs, "--version")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", true, fault.New(fault.Invalid, "%s did not say its version within %v", f.Name, sayWithin).WithHint("machines would not take it: build it again")
	case err != nil && (!errors.As(err, &exit) || f.Program == build.Nightshift):
		return "", false, nil
	case err != nil:
		return "", true, fault.New(fault.Invalid, "%s does not say its version: %v: %.200q", f.Name, err, bytes.TrimSpace(out)).WithHint("machines would not take it: build it again")
	}
	line, _, _ := strings.Cut(string(out), "\n")
	words := strings.Fields(line) // <program> <version>, and what built it
	if slices.Contains(words, want) {
		return want, true, nil
	}
	if len(words) < 2 {
		return fmt.Sprintf("%.80q", line), true, nil
	}
	return fmt.Sprintf("%.80s", words[1]), true, nil
}

// holds says whether a text stands in a file.
func holds(path, text string) (bool, error) {
	in, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer in.Close() //nolint:errcheck // read only
	buf := make([]byte, 0, 1<<20)
	for {
		n, err := io.ReadFull(in, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if bytes.Contains(buf, []byte(text)) {
			return true, nil
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		kept := copy(buf, buf[len(buf)-len(text):]) // it may begin here
		buf = buf[:kept]
	}
}

// bundled is the version of the app in an archive.
func (f File) bundled(archive string) (string, error) {
	bad := func(why string, args ...any) (string, error) {
		return "", fault.New(fault.Invalid, "%s %s", f.Name, fmt.Sprintf(why, args...)).WithHint("packaging/macos/bundle.sh makes it")
	}
	r, err := zip.OpenReader(archive)
	if err != nil {
		return bad("is no archive: %v", err)
	}
	defer r.Close() //nolint:errcheck // read only
	for _, file := range r.File {
		if ok, _ := path.Match("*.app/Contents/Info.plist", file.Name); !ok { // the pattern is well formed
			continue
		}
		in, err := file.Open()
		if err != nil {
			return bad("cannot be read: %v", err)
		}
		text, err := io.ReadAll(io.LimitReader(in, maxPlist))
		if err := errors.Join(err, in.Close()); err != nil {
			return bad("cannot be read: %v", err)
		}
		var info struct {
			Version string `plist:"CFBundleShortVersionString"`
		}
		if _, err := plist.Unmarshal(text, &info); err != nil {
			return bad("has an Info.plist that cannot be read: %v", err)
		}
		return info.Version, nil
	}
	return bad("holds no app")
}
