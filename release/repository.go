package release

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/gofrs/flock"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
)

const (
	metadataDir = "metadata"
	targetsDir  = "targets"
	lockName    = ".lock"

	// maxMetadata bounds a metadata file; it is what TUF clients read of one at most.
	maxMetadata = 5_000_000
)

var metadataName = regexp.MustCompile(`^([1-9][0-9]{0,8})\.(root|targets|snapshot)\.json$`)

// Repository is an opened repository folder, locked against other writers until Close.
type Repository struct {
	dir      string
	clock    clock.Clock
	settings Settings
	lock     *flock.Flock
	// write replaces a file durably; a test dies in it.
	write func(path string, data []byte) error

	roots     []*metadata.Metadata[metadata.RootType] // version n at n-1
	targets   *metadata.Metadata[metadata.TargetsType]
	snapshot  *metadata.Metadata[metadata.SnapshotType]  // nil before the first publish
	timestamp *metadata.Metadata[metadata.TimestampType] // nil before the first publish
	live      *metadata.Metadata[metadata.TargetsType]   // nil before the first publish
	highest   map[string]int64                           // version numbers used, by role
}

// Open opens a repository folder and verifies everything that it holds.
func Open(dir string, c clock.Clock) (*Repository, error) {
	if _, err := os.Stat(filepath.Join(dir, metadataDir, "1.root.json")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.Wrap(err, fault.NotFound, "%s is no repository of releases", dir).
				WithHint("make one: interlock release keys init --repository %s", dir)
		}
		return nil, fmt.Errorf("open repository: %w", err)
	}
	r, err := lockDir(dir, c)
	if err != nil {
		return nil, err
	}
	if err := r.load(); err != nil {
		r.Close()
		return nil, fmt.Errorf("open repository %s: %w", dir, err)
	}
	return r, nil
}

func lockDir(dir string, c clock.Clock) (*Repository, error) {
	r := &Repository{dir: dir, clock: c, lock: flock.New(filepath.Join(dir, lockName)), highest: map[string]int64{}}
	r.write = func(path string, data []byte) error { return atomicfile.Write(path, data, 0o644) }
	ok, err := r.lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock repository: %w", err)
	}
	if !ok {
		return nil, fault.New(fault.Conflict, "another release command works in %s", dir).WithHint("wait until it has ended")
	}
	return r, nil
}

// Close lets others write.
func (r *Repository) Close() {
	_ = r.lock.Unlock() // it ends with the process at the latest
}

func (r *Repository) metadataPath(name string) string {
	return filepath.Join(r.dir, metadataDir, name)
}

func versioned(version int64, role string) string {
	return strconv.FormatInt(version, 10) + "." + role + ".json"
}

// root is the newest root.
func (r *Repository) root() *metadata.Metadata[metadata.RootType] { return r.roots[len(r.roots)-1] }

func (r *Repository) load() (err error) {
	if r.settings, err = readSettings(r.dir); err != nil {
		return err
	}
	files, err := os.ReadDir(filepath.Join(r.dir, metadataDir))
	if err != nil {
		return err
	}
	for _, f := range files {
		if m := metadataName.FindStringSubmatch(f.Name()); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			if err != nil {
				return err
			}
			r.highest[m[2]] = max(r.highest[m[2]], n)
		}
	}
	if err := r.loadRoots(); err != nil {
		return err
	}
	if err := r.loadLive(); err != nil {
		return err
	}
	if n := r.highest[metadata.TARGETS]; n > 0 {
		r.targets, err = read[metadata.TargetsType](r, versioned(n, metadata.TARGETS), metadata.TARGETS)
	}
	return err
}

func (r *Repository) loadRoots() error {
	for n := int64(1); n <= r.highest[metadata.ROOT]; n++ {
		name := versioned(n, metadata.ROOT)
		text, err := readBounded(r.metadataPath(name), maxMetadata)
		if err != nil {
			return err
		}
		next, err := metadata.Root().FromBytes(text)
		if err != nil {
			return damaged(name, err)
		}
		if next.Signed.Version != n {
			return damaged(name, fmt.Errorf("it says that it is version %d", next.Signed.Version))
		}
		if n > 1 {
			if err := r.root().VerifyDelegate(metadata.ROOT, next); err != nil {
				return damaged(name, err)
			}
		}
		if err := next.VerifyDelegate(metadata.ROOT, next); err != nil {
			return damaged(name, err)
		}
		r.roots = append(r.roots, next)
	}
	return nil
}

// loadLive reads what the timestamp names.
func (r *Repository) loadLive() (err error) {
	if _, err := os.Stat(r.metadataPath("timestamp.json")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if r.timestamp, err = read[metadata.TimestampType](r, "timestamp.json", metadata.TIMESTAMP); err != nil {
		return err
	}
	named, ok := r.timestamp.Signed.Meta["snapshot.json"]
	if !ok {
		return damaged("timestamp.json", errors.New("it names no snapshot"))
	}
	if r.snapshot, err = read[metadata.SnapshotType](r, versioned(named.Version, metadata.SNAPSHOT), metadata.SNAPSHOT); err != nil {
		return err
	}
	if named, ok = r.snapshot.Signed.Meta["targets.json"]; !ok {
		return damaged("snapshot.json", errors.New("it names no targets"))
	}
	r.live, err = read[metadata.TargetsType](r, versioned(named.Version, metadata.TARGETS), metadata.TARGETS)
	return err
}

// read reads a metadata file and verifies it by the newest root that does. An older root's word is good
// here: after keys were replaced, and before what they sign was renewed, the folder is still ours.
func read[T metadata.Roles](r *Repository, name, role string) (*metadata.Metadata[T], error) {
	text, err := readBounded(r.metadataPath(name), maxMetadata)
	if err != nil {
		return nil, err
	}
	m, err := new(metadata.Metadata[T]).FromBytes(text)
	if err != nil {
		return nil, damaged(name, err)
	}
	var refused error
	for i := len(r.roots) - 1; i >= 0; i-- {
		if refused = r.roots[i].VerifyDelegate(role, m); refused == nil {
			return m, nil
		}
	}
	return nil, damaged(name, refused)
}

func damaged(name string, cause error) error {
	return fault.Wrap(cause, fault.Invalid, "%s cannot be trusted: %v", name, cause).
		WithHint("take the repository folder from its backup, or from the control plane that mirrors it")
}

// encode is a metadata file's bytes.
func encode[T metadata.Roles](m *metadata.Metadata[T]) ([]byte, error) {
	text, err := m.ToBytes(true)
	return append(text, '\n'), err
}

// put writes a metadata file.
func put[T metadata.Roles](r *Repository, name string, m *metadata.Metadata[T]) error {
	text, err := encode(m)
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if len(text) > maxMetadata {
		return fault.New(fault.TooLarge, "%s would have %d bytes; clients read at most %d", name, len(text), maxMetadata).With("limit", maxMetadata)
	}
	return r.write(r.metadataPath(name), text)
}

// expires is a lifetime from now on, in the precision that metadata has.
func (r *Repository) expires(life time.Duration) time.Time {
	return r.clock.Now().UTC().Add(life).Truncate(time.Second)
}

// usable refuses to sign under a root that no client accepts any more.
func (r *Repository) usable() error {
	if end := r.root().Signed.Expires; !r.clock.Now().Before(end) {
		return fault.New(fault.Invalid, "the root expired on %s: no machine accepts anything under it", end.Format(time.DateOnly)).
			WithHint("renew it with the root keys: interlock release keys rotate")
	}
	return nil
}
