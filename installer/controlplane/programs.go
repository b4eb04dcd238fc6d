package controlplane

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// Programs is the folder of programs, root's own: a server that was broken into cannot replace what it is
// started from.
type Programs string

// Folder is where programs stand.
const Folder Programs = "/usr/local/lib/interlock"

const (
	program = "interlock"
	current = "current"
)

// Program is the path that a service runs: through the link.
func (p Programs) Program() string { return filepath.Join(string(p), current, program) }

var plainVersion = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}$`)

// Name is the folder of a program: its version and eight digits of its SHA-256, so that two builds of one
// version do not overwrite each other.
func (p Programs) Name(file, version string) (string, error) {
	if !plainVersion.MatchString(version) {
		return "", fault.New(fault.Invalid, "%s says that it is version %q, which is no version", file, version).
			WithHint("name a build of interlock")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read the program: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read the program: %w", err)
	}
	return version + mark(h.Sum(nil)), nil
}

// mark is what a folder's name has of the SHA-256 of its program.
func mark(sum []byte) string { return "-" + hex.EncodeToString(sum[:4]) }

// Path is the program of a folder.
func (p Programs) Path(name string) string { return filepath.Join(string(p), name, program) }

// Put copies a program into its folder, whole or not at all. One that is another by now than the one that Name
// read is refused: its user may write to the file while root looks.
func (p Programs) Put(file, name string) error {
	dir := filepath.Join(string(p), name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("put the program: %w", err)
	}
	// Whatever root's umask is, the service's user must be able to start it.
	for _, d := range []string{string(p), dir} {
		if err := os.Chmod(d, 0o755); err != nil {
			return fmt.Errorf("put the program: %w", err)
		}
	}
	err := atomicfile.CopyIf(file, p.Path(name), 0o755, func(sum [sha256.Size]byte) error {
		if strings.HasSuffix(name, mark(sum[:])) {
			return nil
		}
		return fault.New(fault.Conflict, "%s was changed while it was being installed", file).WithHint("nothing of it is used; try again when nobody writes to it")
	})
	if err != nil {
		return fmt.Errorf("put the program: %w", err)
	}
	return nil
}

// Current is the folder that the link names; "" when there is none.
func (p Programs) Current() string {
	name, err := os.Readlink(filepath.Join(string(p), current))
	if err != nil || filepath.Base(name) != name {
		return ""
	}
	return name
}

// Point makes a folder the current one, by one rename.
func (p Programs) Point(name string) error {
	if err := atomicfile.Symlink(name, filepath.Join(string(p), current)); err != nil {
		return fmt.Errorf("make %s current: %w", name, err)
	}
	return nil
}

// Prune removes all folders but the named ones.
func (p Programs) Prune(keep ...string) error {
	entries, err := os.ReadDir(string(p))
	if err != nil {
		return fmt.Errorf("list programs: %w", err)
	}
	kept := map[string]bool{}
	for _, name := range keep {
		kept[name] = true
	}
	for _, e := range entries {
		if !e.IsDir() || kept[e.Name()] {
			continue
		}
		if _, err := os.Lstat(p.Path(e.Name())); err != nil {
			continue // not a program of ours
		}
		if err := os.RemoveAll(filepath.Join(string(p), e.Name())); err != nil {
			return fmt.Errorf("remove an old program: %w", err)
		}
	}
	return nil
}
