package updater

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/config"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"
	tuf "github.com/theupdateframework/go-tuf/v2/metadata/updater"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

// view is one mirror's set of metadata, verified whole.
type view struct {
	origin  Origin
	dir     string // the mirror's own copy
	set     trustedmetadata.TrustedMetadata
	updater *tuf.Updater
}

// guarded runs what parses bytes of strangers: a panic of the library is an error like any other.
func guarded[T any](fn func() (T, error)) (out T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the metadata cannot be read: %v", p)
		}
	}()
	return fn()
}

// refresh asks one mirror for its newest set. What it says is kept apart from what other mirrors say, so
// that a mirror in the middle of an upload, or one that lags, cannot spoil the set of another.
func (f folder) refresh(ctx context.Context, o Origin, root []byte, now time.Time, p patience) (*view, error) {
	dir := f.mirror(o)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the mirror's folder: %w", err)
	}
	if err := setAside(dir); err != nil {
		return nil, err
	}
	cfg, err := config.New(o.path("metadata", ""), root)
	if err != nil {
		return nil, fmt.Errorf("set the updater up: %w", err)
	}
	cfg.RemoteMetadataURL = strings.TrimSuffix(o.path("metadata", ""), "/")
	cfg.LocalMetadataDir, cfg.LocalTargetsDir = dir, dir
	cfg.RootMaxLength, cfg.TimestampMaxLength, cfg.SnapshotMaxLength, cfg.TargetsMaxLength = maxRoot, maxTimestamp, maxSnapshot, maxTargets
	cfg.MaxRootRotations = maxRotations
	cfg.Fetcher = fetcher{ctx, o, p.metadata}
	up, err := guarded(func() (*tuf.Updater, error) { return tuf.New(cfg) })
	if err != nil {
		return nil, fmt.Errorf("read the root of trust: %w", err)
	}
	up.UnsafeSetRefTime(now)
	_, err = guarded(func() (struct{}, error) { return struct{}{}, up.Refresh() })
	v := &view{origin: o, dir: dir, set: up.GetTrustedMetadataSet(), updater: up}
	if err != nil {
		return v, explain(o, err)
	}
	return v, nil
}

// setAside removes what a crash damaged in a mirror's copy, so that it is asked for again: go-tuf would
// stumble over it at every pass. The highest versions seen are in the state, and in the accepted set.
func setAside(dir string) error {
	for _, role := range []string{metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
		path := filepath.Join(dir, role+".json")
		b, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read the mirror's copy: %w", err)
		}
		if _, err := guarded(func() (any, error) { return parse(role, b) }); err == nil {
			continue
		}
		if err := os.Rename(path, path+".damaged"); err != nil {
			return fmt.Errorf("set a damaged copy aside: %w", err)
		}
	}
	return nil
}

func parse(role string, b []byte) (any, error) {
	switch role {
	case metadata.TIMESTAMP:
		return metadata.Timestamp().FromBytes(b)
	case metadata.SNAPSHOT:
		return metadata.Snapshot().FromBytes(b)
	}
	return metadata.Targets().FromBytes(b)
}

// roles are those whose versions have a floor, with the role whose keys make the floor void: the numbers
// of targets are vouched for by the snapshot.
var roles = []struct{ name, keys string }{
	{metadata.TIMESTAMP, metadata.TIMESTAMP},
	{metadata.SNAPSHOT, metadata.SNAPSHOT},
	{metadata.TARGETS, metadata.SNAPSHOT},
}

func (v *view) version(role string) int64 {
	switch role {
	case metadata.ROOT:
		return v.set.Root.Signed.Version
	case metadata.TIMESTAMP:
		return v.set.Timestamp.Signed.Version
	case metadata.SNAPSHOT:
		return v.set.Snapshot.Signed.Version
	}
	return v.set.Targets[metadata.TARGETS].Signed.Version
}

// keysOf names the keys that sign a role, so that a change of them shows.
func keysOf(root *metadata.Metadata[metadata.RootType], role string) string {
	r := root.Signed.Roles[role]
	if r == nil {
		return ""
	}
	ids := slices.Clone(r.KeyIDs)
	slices.Sort(ids)
	return fmt.Sprintf("%d of %s", r.Threshold, strings.Join(ids, ","))
}

// floors are the versions of a set.
func (v *view) floors() map[string]floor {
	out := map[string]floor{metadata.ROOT: {Version: v.version(metadata.ROOT)}}
	for _, r := range roles {
		out[r.name] = floor{v.version(r.name), keysOf(v.set.Root, r.keys)}
	}
	return out
}

// below says which role of the set is older than the highest seen; nil when none is.
func (v *view) below(floors map[string]floor) error {
	have := v.floors()
	for _, role := range []string{metadata.ROOT, metadata.TIMESTAMP, metadata.SNAPSHOT, metadata.TARGETS} {
		if was, ok := floors[role]; ok && was.Keys == have[role].Keys && have[role].Version < was.Version {
			return fault.New(fault.Conflict, "%s offers %s %d; this machine has seen %d", v.origin.Name, role, have[role].Version, was.Version).
				WithHint("it lags behind, or somebody plays back an old copy; nothing of it is used")
		}
	}
	return nil
}

// compare orders two sets by age.
func (v *view) compare(w *view) int {
	return cmp.Or(
		cmp.Compare(v.version(metadata.ROOT), w.version(metadata.ROOT)),
		cmp.Compare(v.version(metadata.TIMESTAMP), w.version(metadata.TIMESTAMP)),
		cmp.Compare(v.version(metadata.SNAPSHOT), w.version(metadata.SNAPSHOT)),
	)
}

// targets are the released files that the set describes. A description that this version cannot use is
// passed over: a newer release tool may know more platforms than this program.
func (v *view) targets() []build.Target {
	var out []build.Target
	for path, file := range v.set.Targets[metadata.TARGETS].Signed.Targets {
		if file == nil || file.Custom == nil {
			continue
		}
		if t, err := build.Decode(path, *file.Custom); err == nil {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, func(a, b build.Target) int { return strings.Compare(a.Path(), b.Path()) })
	return out
}

// accept makes a set the one that this folder knows: first its files, then, by the caller, its floors.
func (f folder) accept(v *view) error {
	if err := os.MkdirAll(f.accepted(), 0o700); err != nil {
		return fmt.Errorf("make the metadata folder: %w", err)
	}
	for _, role := range []string{metadata.ROOT, metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		b, err := os.ReadFile(filepath.Join(v.dir, role+".json"))
		if err != nil {
			return fmt.Errorf("read the mirror's copy: %w", err)
		}
		path := filepath.Join(f.accepted(), role+".json")
		if old, err := os.ReadFile(path); err == nil && string(old) == string(b) {
			continue
		}
		if err := atomicfile.Write(path, b, 0o600); err != nil {
			return fmt.Errorf("keep the metadata: %w", err)
		}
	}
	return nil
}
