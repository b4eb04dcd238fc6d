package release

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
)

// Published says what a command made live; zero versions did not change.
type Published struct {
	Root      int64 `json:"root,omitempty"`
	Targets   int64 `json:"targets,omitempty"`
	Snapshot  int64 `json:"snapshot,omitempty"`
	Timestamp int64 `json:"timestamp,omitempty"`
}

// Pending reports whether something is signed that is not live.
func (r *Repository) Pending() bool {
	return r.targets != nil && (r.live == nil || r.targets.Signed.Version != r.live.Signed.Version)
}

// Publish makes live what is signed. With nothing new it changes nothing, unless what is live was left
// half renewed by a machine that died.
func (r *Repository) Publish(ctx context.Context, keys *Keyring) (Published, error) {
	if !r.Pending() && r.current() {
		return Published{}, nil
	}
	return r.commit(ctx, keys, nil)
}

// Refresh renews the timestamp, and the snapshot and the targets when little of their lives is left.
func (r *Repository) Refresh(ctx context.Context, keys *Keyring) (Published, error) {
	if r.Pending() {
		return Published{}, fault.New(fault.Conflict, "something is signed that is not published: refreshing would make it live").
			WithHint("interlock release publish does both")
	}
	return r.commit(ctx, keys, nil)
}

// current reports whether everything live is signed under the newest root.
func (r *Repository) current() bool {
	return r.timestamp != nil && under(r, metadata.TIMESTAMP, r.timestamp) && under(r, metadata.SNAPSHOT, r.snapshot) && under(r, metadata.TARGETS, r.live)
}

func under[T metadata.Roles](r *Repository, role string, m *metadata.Metadata[T]) bool {
	return m != nil && r.root().VerifyDelegate(role, m) == nil
}

// tired reports whether less than a third of a life is left.
func (r *Repository) tired(end time.Time, life int) bool {
	return end.Sub(r.clock.Now()) < days(life)/3
}

// commit signs what has to be signed and writes it: targets, snapshot, and last the timestamp, which
// makes all of it live. Every key is unlocked before the first write.
//
// With a next root, everything is signed by the keys of both roots where those of the old one are within
// reach. Then the root is written last and no machine meets a set that its root refuses; else it stands
// before the timestamp.
func (r *Repository) commit(ctx context.Context, keys *Keyring, next *metadata.Metadata[metadata.RootType]) (out Published, err error) {
	by := signers{keys: keys, roots: []*metadata.RootType{&r.root().Signed}}
	if next != nil {
		by.roots = []*metadata.RootType{&next.Signed}
		if by.both = keys.reach(&r.root().Signed); by.both {
			by.roots = append(by.roots, &r.root().Signed)
		}
		r.roots = append(r.roots, next)
		defer func() {
			if err != nil {
				r.roots = r.roots[:len(r.roots)-1]
			}
		}()
		out.Root = next.Signed.Version
	}
	if err := r.usable(); err != nil {
		return out, err
	}
	set := set{root: next, targets: r.targets, snapshot: r.snapshot, rootLast: by.both}
	if !under(r, metadata.TARGETS, set.targets) || r.tired(set.targets.Signed.Expires, r.settings.TargetsDays) {
		if set.targets, err = r.nextTargets(); err != nil {
			return out, err
		}
		if err := signRole(ctx, by, metadata.TARGETS, set.targets); err != nil {
			return out, err
		}
	}
	if r.live == nil || r.live.Signed.Version != set.targets.Signed.Version {
		out.Targets = set.targets.Signed.Version
	}
	if out.Targets != 0 || !under(r, metadata.SNAPSHOT, set.snapshot) || r.tired(set.snapshot.Signed.Expires, r.settings.SnapshotDays) {
		if set.snapshot, err = r.nextSnapshot(set.targets); err != nil {
			return out, err
		}
		if err := signRole(ctx, by, metadata.SNAPSHOT, set.snapshot); err != nil {
			return out, err
		}
		out.Snapshot = set.snapshot.Signed.Version
	}
	if set.timestamp, err = r.nextTimestamp(set.snapshot); err != nil {
		return out, err
	}
	if err := signRole(ctx, by, metadata.TIMESTAMP, set.timestamp); err != nil {
		return out, err
	}
	out.Timestamp = set.timestamp.Signed.Version
	if err := keys.save(); err != nil { // before anything names them
		return out, err
	}
	return out, r.writeSet(set)
}

func (r *Repository) nextSnapshot(targets *metadata.Metadata[metadata.TargetsType]) (m *metadata.Metadata[metadata.SnapshotType], err error) {
	m = metadata.Snapshot(r.expires(days(r.settings.SnapshotDays)))
	m.Signed.Version = r.highest[metadata.SNAPSHOT] + 1
	m.Signed.Meta["targets.json"], err = describe(r, metadata.TARGETS, targets, targets.Signed.Version)
	return m, err
}

func (r *Repository) nextTimestamp(snapshot *metadata.Metadata[metadata.SnapshotType]) (m *metadata.Metadata[metadata.TimestampType], err error) {
	m = metadata.Timestamp(r.expires(days(r.settings.TimestampDays)))
	if r.timestamp != nil {
		m.Signed.Version = r.timestamp.Signed.Version + 1
	}
	m.Signed.Meta["snapshot.json"], err = describe(r, metadata.SNAPSHOT, snapshot, snapshot.Signed.Version)
	return m, err
}

// set is what becomes live together. Members that are the live ones already are not written.
type set struct {
	root      *metadata.Metadata[metadata.RootType] // nil: the newest stays
	targets   *metadata.Metadata[metadata.TargetsType]
	snapshot  *metadata.Metadata[metadata.SnapshotType]
	timestamp *metadata.Metadata[metadata.TimestampType]
	rootLast  bool
}

func (r *Repository) writeSet(s set) error {
	if s.targets != r.targets {
		if err := r.putTargets(s.targets); err != nil {
			return err
		}
	}
	if s.snapshot != r.snapshot {
		if err := put(r, versioned(s.snapshot.Signed.Version, metadata.SNAPSHOT), s.snapshot); err != nil {
			return err
		}
		r.highest[metadata.SNAPSHOT] = s.snapshot.Signed.Version
	}
	if s.root != nil && !s.rootLast {
		if err := r.putRoot(s.root); err != nil {
			return err
		}
	}
	if err := put(r, "timestamp.json", s.timestamp); err != nil {
		return err
	}
	r.live, r.snapshot, r.timestamp = s.targets, s.snapshot, s.timestamp
	if s.root != nil && s.rootLast {
		return r.putRoot(s.root)
	}
	return nil
}

func (r *Repository) putRoot(root *metadata.Metadata[metadata.RootType]) error {
	if err := put(r, versioned(root.Signed.Version, metadata.ROOT), root); err != nil {
		return err
	}
	r.highest[metadata.ROOT] = root.Signed.Version
	return nil
}

// describe is how one metadata file names another: version, length and digest of its bytes. Those of a
// file that is on disk are taken from there, whatever wrote it.
func describe[T metadata.Roles](r *Repository, role string, m *metadata.Metadata[T], version int64) (*metadata.MetaFiles, error) {
	text, err := readBounded(r.metadataPath(versioned(version, role)), maxMetadata)
	if errors.Is(err, fs.ErrNotExist) {
		text, err = encode(m)
	}
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", versioned(version, role), err)
	}
	sum := sha256.Sum256(text)
	return &metadata.MetaFiles{Version: version, Length: int64(len(text)), Hashes: metadata.Hashes{"sha256": sum[:]}}, nil
}

// signers are the roots whose keys sign, and the ring that has the keys.
type signers struct {
	keys  *Keyring
	roots []*metadata.RootType
	both  bool
}

// signRole signs by the threshold of a role in each of the roots.
func signRole[T metadata.Roles](ctx context.Context, by signers, role string, m *metadata.Metadata[T]) error {
	var with [][]Key
	for _, root := range by.roots {
		some, err := by.keys.unlockFor(ctx, root, role)
		if err != nil {
			return err
		}
		with = append(with, some)
	}
	return sign(m, with...)
}

// Files lists what a mirror needs, in the order in which it should get it: programs, targets, snapshot,
// roots, timestamp. Programs are paths below targets/, the rest below metadata/.
func (r *Repository) Files() (programs, metadataFiles []string, err error) {
	if r.timestamp == nil || !r.current() {
		return nil, nil, fault.New(fault.Conflict, "nothing is live in %s that a machine would accept", r.dir).WithHint("interlock release publish")
	}
	for path, t := range r.live.Signed.Targets {
		programs = append(programs, hashed(path, t.Hashes["sha256"]))
	}
	slices.Sort(programs)
	metadataFiles = append(metadataFiles,
		versioned(r.live.Signed.Version, metadata.TARGETS), versioned(r.snapshot.Signed.Version, metadata.SNAPSHOT))
	for n := range r.roots {
		metadataFiles = append(metadataFiles, versioned(int64(n)+1, metadata.ROOT))
	}
	return programs, append(metadataFiles, "timestamp.json"), nil
}

// exists reports whether a program's file is in the repository with the length that it should have.
func exists(path string, length int64) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().IsRegular() && st.Size() == length
}
