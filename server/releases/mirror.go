// Package releases is the control plane's mirror of a signed release repository: it takes metadata from
// the owner, checks the whole chain before it shows any of it, and serves it with the programs that it
// names, read only.
//
// It holds no key and can sign nothing: what it checks, every machine checks again. The programs are
// blobs of server/files; it keeps the metadata alone. Beside the repository itself it offers what the
// install script reads, a manifest and files by plain names, derived from the signed targets.
//
// A set of metadata waits in incoming/ until its timestamp is there. Then all of it is verified, moved
// to metadata/ and at last the timestamp is replaced, so a machine that asks in between, or a control
// plane that dies in between, has the set before or the set after.
package releases

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/server/files"
)

// MaxMetadata is the most that any metadata file may have; single roles have less.
const MaxMetadata = 5_000_000

const (
	timestampName = "timestamp.json"
	maxIncoming   = 300 // files that wait: every root that a client follows, and one set
)

// limits are what TUF clients read of each role at most.
var limits = map[string]int64{"root": 512_000, "timestamp": 16_384, "snapshot": 2_000_000, "targets": MaxMetadata}

var fileName = regexp.MustCompile(`^(?:([1-9][0-9]{0,8})\.(root|targets|snapshot)|(timestamp))\.json$`)

// Blobs is what the mirror needs of the stored files.
type Blobs interface {
	Stat(digest string) (files.Info, error)
	Open(digest string) (io.ReadSeekCloser, int64, error)
}

// Options of a mirror; all are required.
type Options struct {
	Dir    string // created when the first release comes in
	Blobs  Blobs
	Clock  clock.Clock
	Logger *slog.Logger
}

// Mirror is the repository of one control plane. It is safe for concurrent use.
type Mirror struct {
	o Options
	// write replaces a file durably; a test dies in it.
	write func(path string, text []byte) error

	mu   sync.Mutex // orders what changes the folder
	live atomic.Pointer[catalog]
}

// Open opens the mirror in o.Dir and finishes what a killed control plane had begun. A folder that
// cannot be trusted any more is said in the log and offers nothing; it is no reason not to serve.
func Open(o Options) *Mirror {
	m := &Mirror{o: o, write: func(path string, text []byte) error { return atomicfile.Write(path, text, 0o600) }}
	if text, err := os.ReadFile(m.incoming(timestampName)); err == nil {
		if err := m.goLive(text); err != nil {
			m.o.Logger.Warn("a release that was being published is not complete: publish it again", slog.Any("cause", err))
		}
	}
	if m.live.Load() == nil {
		if err := m.reload(); err != nil {
			m.o.Logger.Error("the mirrored releases cannot be trusted: publish them again", slog.String("folder", o.Dir), slog.Any("cause", err))
		}
	}
	return m
}

func (m *Mirror) incoming(name string) string { return filepath.Join(m.o.Dir, "incoming", name) }
func (m *Mirror) metadata(name string) string { return filepath.Join(m.o.Dir, "metadata", name) }

// role checks a metadata file's name and gives its role and version; a timestamp's is 0.
func role(file string) (name string, version int64, err error) {
	p := fileName.FindStringSubmatch(file)
	switch {
	case p == nil:
		return "", 0, fault.New(fault.NotFound, "%.80q is no metadata file", file).WithHint("<version>.root.json, <version>.targets.json, <version>.snapshot.json or timestamp.json")
	case p[3] != "":
		return p[3], 0, nil
	}
	version, err = strconv.ParseInt(p[1], 10, 64)
	return p[2], version, err
}

// Metadata opens a metadata file that is live.
func (m *Mirror) Metadata(file string) (*os.File, error) {
	if _, _, err := role(file); err != nil {
		return nil, err
	}
	f, err := os.Open(m.metadata(file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Wrap(err, fault.NotFound, "there is no %s here", file)
	}
	if err != nil {
		return nil, fmt.Errorf("open release metadata: %w", err)
	}
	return f, nil
}

// Target opens a released program by its path with the digest in it.
func (m *Mirror) Target(path string) (f io.ReadSeekCloser, digest string, err error) {
	digest, ok := m.live.Load().target(path)
	if !ok {
		return nil, "", fault.New(fault.NotFound, "there is no released program %.160q here", path)
	}
	f, _, err = m.o.Blobs.Open(digest)
	return f, digest, err
}

// Put takes one metadata file. It becomes visible with the timestamp that names it; a timestamp is
// refused unless the whole chain stands, from the roots known here to the bytes of every program.
func (m *Mirror) Put(file string, r io.Reader) error {
	name, version, err := role(file)
	if err != nil {
		return err
	}
	limit := limits[name]
	text, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return err
	}
	if int64(len(text)) > limit {
		return fault.New(fault.TooLarge, "%s is larger than the %d bytes that machines read of a %s", file, limit, name).With("limit", limit)
	}
	if err := isFile(name, version, text); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if name == "timestamp" {
		if have, err := os.ReadFile(m.metadata(file)); err == nil && bytes.Equal(have, text) && m.live.Load() != nil {
			return nil
		}
		return m.goLive(text)
	}
	have, err := os.ReadFile(m.metadata(file))
	switch {
	case err == nil && bytes.Equal(have, text):
		return nil
	case err == nil && (m.live.Load() != nil || name == "root"):
		return taken(file, name, version)
	}
	return m.stage(file, text)
}

// taken refuses other bytes under a name that machines may have read.
func taken(file, name string, version int64) error {
	e := fault.New(fault.ReleaseConflict, "%s is here with other bytes, and what machines may have read never changes", file)
	if name == "root" && version == 1 {
		return e.WithHint("this control plane mirrors another repository; to change that, move the folder releases out of its data and restart it")
	}
	return e.WithHint("publish from the newest copy of the repository")
}

func (m *Mirror) stage(file string, text []byte) error {
	dir := filepath.Dir(m.incoming(file))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("take release metadata: %w", err)
	}
	waiting, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("take release metadata: %w", err)
	}
	if len(waiting) >= maxIncoming && file != timestampName { // which clears them
		return fault.New(fault.QueueFull, "%d metadata files wait for a timestamp; that is the limit", maxIncoming).With("limit", maxIncoming).
			WithHint("a timestamp that holds clears them")
	}
	return m.write(m.incoming(file), text)
}

// goLive verifies the set that a timestamp names and shows it.
func (m *Mirror) goLive(timestamp []byte) error {
	set, err := m.verify(timestamp)
	if err != nil {
		// Nothing of a set that does not hold stays to spoil the next one, which is sent whole again.
		m.clear()
		return err
	}
	if err := os.MkdirAll(filepath.Dir(m.metadata(timestampName)), 0o700); err != nil {
		return fmt.Errorf("publish release metadata: %w", err)
	}
	// From here on it is only moved: a control plane that dies goes on when it starts again.
	if err := m.stage(timestampName, timestamp); err != nil {
		return err
	}
	for _, f := range append(set.fresh, file{timestampName, timestamp}) {
		if err := m.write(m.metadata(f.name), f.text); err != nil {
			return err
		}
	}
	m.live.Store(set.catalog)
	m.clear()
	m.o.Logger.Info("releases are live", slog.Int("programs", len(set.catalog.targets)), slog.Int64("root", set.root), slog.Int64("timestamp", set.timestamp))
	return nil
}

// clear empties incoming/.
func (m *Mirror) clear() {
	if err := os.RemoveAll(filepath.Dir(m.incoming(timestampName))); err != nil {
		m.o.Logger.Warn("release metadata that waited was not cleared away", slog.Any("cause", err))
	}
}

// reload reads what is live when the mirror opens.
func (m *Mirror) reload() error {
	text, err := os.ReadFile(m.metadata(timestampName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	live, err := m.readLive(text)
	if err == nil {
		m.live.Store(live)
	}
	return err
}
