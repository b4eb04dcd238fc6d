package updater

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

// folder is an app folder.
type folder string

// The links of an app folder.
const (
	linkCurrent  = "current"
	linkPrevious = "previous"
	linkUpdater  = "updater"
)

const stagingPrefix = ".staging-"

func (f folder) trust() string      { return filepath.Join(string(f), "trust") }
func (f folder) rootFile() string   { return filepath.Join(f.trust(), "root.json") }
func (f folder) accepted() string   { return filepath.Join(f.trust(), "metadata") }
func (f folder) stateFile() string  { return filepath.Join(f.trust(), "state.json") }
func (f folder) reportFile() string { return filepath.Join(f.trust(), "report.json") }

func (f folder) mirror(o Origin) string {
	sum := sha256.Sum256([]byte(o.Name))
	return filepath.Join(f.trust(), "mirrors", hex.EncodeToString(sum[:8]))
}

func (f folder) program(version, name string) string {
	return filepath.Join(string(f), version, name)
}

// target is the version that a link names; "" when the link is not there or names something else than a
// folder beside it.
func (f folder) target(link string) string {
	to, err := os.Readlink(filepath.Join(string(f), link))
	if err != nil || !plain(to) {
		return ""
	}
	return to
}

// plain is true for a name that is one element of a path.
func plain(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/\\\x00") && !strings.HasPrefix(name, ".")
}

// point makes a link name a version, by one rename.
func (f folder) point(link, version string) error {
	if f.target(link) == version {
		return nil
	}
	if err := atomicfile.Symlink(version, filepath.Join(string(f), link)); err != nil {
		return fmt.Errorf("point %s at %s: %w", link, version, err)
	}
	return nil
}

// unlink removes a link.
func (f folder) unlink(link string) error {
	if err := os.Remove(filepath.Join(string(f), link)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", link, err)
	}
	return atomicfile.SyncDir(string(f))
}

// complete is true for a version whose program is there whole. A file that was verified when it was
// staged must have that size still; deep also reads it.
func (f folder) complete(version, name string, known map[string]installed, deep bool) bool {
	if !plain(version) {
		return false
	}
	st, err := os.Stat(f.program(version, name))
	if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o100 == 0 || st.Size() == 0 {
		return false
	}
	was, ok := known[version]
	if !ok {
		return true
	}
	if was.Length != st.Size() {
		return false
	}
	if !deep {
		return true
	}
	is, err := digest(f.program(version, name))
	return err == nil && is == was
}

// digest reads a file whole.
func digest(path string) (installed, error) {
	file, err := os.Open(path)
	if err != nil {
		return installed{}, err
	}
	defer file.Close() //nolint:errcheck // read only
	h := sha256.New()
	n, err := io.Copy(h, file)
	if err != nil {
		return installed{}, fmt.Errorf("read %s: %w", path, err)
	}
	return installed{SHA256: hex.EncodeToString(h.Sum(nil)), Length: n}, nil
}

// versions are the folders that hold the program, highest first.
func (f folder) versions(name string) ([]string, error) {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return nil, fmt.Errorf("list versions: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && plain(e.Name()) {
			if _, err := os.Lstat(f.program(e.Name(), name)); err == nil {
				out = append(out, e.Name())
			}
		}
	}
	slices.SortFunc(out, func(a, b string) int { return build.Compare(b, a) })
	return out, nil
}

// mend makes current name a complete program again, whatever a crash or a hand left, and clears what an
// interrupted download left. It says what it did.
func (f folder) mend(name string, st *state) (notes []string, err error) {
	if err := f.clear(); err != nil {
		return nil, err
	}
	deep := st.Pending != nil
	if now := f.target(linkCurrent); !f.complete(now, name, st.Installed, deep) {
		candidates := []string{f.target(linkPrevious), f.target(linkUpdater)}
		if p := st.Pending; p != nil {
			candidates = append([]string{p.From}, candidates...)
		}
		rest, err := f.versions(name)
		if err != nil {
			return nil, err
		}
		good := ""
		for _, v := range append(candidates, rest...) {
			if v != now && st.Quarantined[v] == "" && f.complete(v, name, st.Installed, true) {
				good = v
				break
			}
		}
		if good == "" {
			return nil, fault.New(fault.NotFound, "%s holds no complete %s", f, name).WithHint("run the install line again")
		}
		if err := f.moveAlong(now, good, name, false); err != nil {
			notes = append(notes, err.Error())
		}
		if err := f.point(linkCurrent, good); err != nil {
			return nil, err
		}
		notes = append(notes, fmt.Sprintf("current named %s, which is not complete; it names %s now", orNothing(now), good))
	}
	if !f.complete(f.target(linkUpdater), name, st.Installed, false) {
		to := f.target(linkCurrent)
		if p := st.Pending; p != nil && f.complete(p.goesBackTo(), name, st.Installed, true) {
			to = p.goesBackTo()
		} else if was := f.target(linkPrevious); st.Trial != nil && st.Quarantined[was] == "" && f.complete(was, name, st.Installed, true) {
			to = was
		}
		if err := f.point(linkUpdater, to); err != nil {
			return nil, err
		}
	}
	return notes, nil
}

func orNothing(version string) string {
	if version == "" {
		return "nothing"
	}
	return version
}

// clear removes what an interrupted download or swap left.
func (f folder) clear() error {
	entries, err := os.ReadDir(string(f))
	if err != nil {
		return fmt.Errorf("look at the app folder: %w", err)
	}
	for _, e := range entries {
		left := strings.HasPrefix(e.Name(), stagingPrefix) || strings.HasSuffix(e.Name(), ".tmp") && e.Type()&fs.ModeSymlink != 0
		if !left {
			continue
		}
		if err := os.RemoveAll(filepath.Join(string(f), e.Name())); err != nil {
			return fmt.Errorf("clear what an interrupted update left: %w", err)
		}
	}
	return nil
}

// prune removes the versions that nothing names any more.
func (f folder) prune(name string, st *state) error {
	all, err := f.versions(name)
	if err != nil {
		return err
	}
	keep := []string{f.target(linkCurrent), f.target(linkPrevious), f.target(linkUpdater)}
	if st.Pending != nil {
		keep = append(keep, st.Pending.Version, st.Pending.From)
	}
	for _, v := range all {
		if slices.Contains(keep, v) || build.CheckVersion(v) != nil {
			continue
		}
		if err := os.RemoveAll(filepath.Join(string(f), v)); err != nil {
			return fmt.Errorf("remove version %s: %w", v, err)
		}
		delete(st.Installed, v)
	}
	return nil
}

// put makes a staged folder the folder of a version. One that is there already and is not whole makes way.
func (f folder) put(staged, version string) error {
	to := filepath.Join(string(f), version)
	if _, err := os.Lstat(to); err == nil {
		aside, err := os.MkdirTemp(string(f), stagingPrefix)
		if err != nil {
			return fmt.Errorf("set a broken version aside: %w", err)
		}
		if err := os.Rename(to, filepath.Join(aside, version)); err != nil {
			return fmt.Errorf("set a broken version aside: %w", err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("look at %s: %w", to, err)
	}
	if err := os.Rename(staged, to); err != nil {
		return fmt.Errorf("put version %s into place: %w", version, err)
	}
	return atomicfile.SyncDir(string(f))
}
