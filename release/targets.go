package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

// Offer is how a release is offered when it is signed.
type Offer struct {
	Channels   map[string]int // channel → percentage of machines
	MinVersion string
	Security   bool
}

// Released is a signed target with the bytes that it stands for.
type Released struct {
	build.Target
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// Released lists what is signed, newest version first; with live only what is published.
func (r *Repository) Released(live bool) ([]Released, error) {
	from := r.targets
	if live {
		from = r.live
	}
	if from == nil {
		return nil, nil
	}
	var out []Released
	for name, f := range from.Signed.Targets {
		if f.Custom == nil {
			return nil, damaged(name, errors.New("it has no description"))
		}
		t, err := build.Decode(name, *f.Custom)
		if err != nil {
			return nil, err
		}
		out = append(out, Released{Target: t, SHA256: hex.EncodeToString(f.Hashes["sha256"]), Size: f.Length})
	}
	slices.SortFunc(out, func(a, b Released) int {
		if c := build.Compare(b.Version, a.Version); c != 0 {
			return c
		}
		return strings.Compare(a.Path(), b.Path())
	})
	return out, nil
}

// Sign adds the files of a release. A version must be above every version of its program that was ever
// signed; another platform of the newest version may follow later. The bytes of what is signed never
// change: signing the same again is no change and no error.
func (r *Repository) Sign(ctx context.Context, d Description, dir string, offer Offer, keys *Keyring) (added int, err error) {
	if err := r.usable(); err != nil {
		return 0, err
	}
	next, err := r.nextTargets()
	if err != nil {
		return 0, err
	}
	var fresh []File
	for _, f := range d.Files {
		is, err := r.isSigned(f, d.Version)
		if err != nil {
			return 0, err
		}
		if is {
			continue
		}
		t := f.target(d.Version)
		t.Channels, t.MinVersion, t.Security = offer.Channels, offer.MinVersion, offer.Security
		if err := t.Check(); err != nil {
			return 0, err
		}
		if next.Signed.Targets[t.Path()], err = targetFile(f, t); err != nil {
			return 0, err
		}
		fresh = append(fresh, f)
	}
	if len(fresh) == 0 {
		return 0, nil
	}
	if err := r.signTargets(ctx, keys, next); err != nil {
		return 0, err
	}
	for _, f := range fresh {
		if err := r.take(f, d.Version, dir); err != nil {
			return 0, err
		}
	}
	return len(fresh), r.putTargets(next)
}

// isSigned reports whether the very file is signed already, and refuses what must not be signed any more.
func (r *Repository) isSigned(f File, version string) (bool, error) {
	all, err := r.Released(false)
	if err != nil {
		return false, err
	}
	t := f.target(version)
	for _, have := range all {
		switch {
		case have.Program != f.Program:
		case have.Path() == t.Path():
			if have.SHA256 == f.SHA256 {
				return true, nil
			}
			return false, fault.New(fault.ReleaseConflict, "%s %s for %s is signed with other bytes: a version's bytes never change", f.Program, version, t.Platform()).
				WithHint("release them as the next version").With("signed", have.SHA256).With("offered", f.SHA256)
		case build.Compare(version, have.Version) < 0:
			return false, fault.New(fault.ReleaseConflict, "%s %s is below %s, which is signed: versions only go up", f.Program, version, have.Version).
				WithField("version").WithHint("a fix for an older version gets a new, higher number")
		}
	}
	return false, nil
}

// Change changes how every platform of a released version is offered. It says on how many it did.
func (r *Repository) Change(ctx context.Context, program, version string, change func(*build.Target), keys *Keyring) (int, error) {
	if err := r.usable(); err != nil {
		return 0, err
	}
	all, err := r.Released(false)
	if err != nil {
		return 0, err
	}
	next, err := r.nextTargets()
	if err != nil {
		return 0, err
	}
	changed, found := 0, false
	for _, have := range all {
		if have.Program != program || have.Version != version {
			continue
		}
		found = true
		t := have.Target
		t.Channels = maps.Clone(t.Channels)
		change(&t)
		if err := t.Check(); err != nil {
			return 0, err
		}
		text, err := json.Marshal(t)
		if err != nil {
			return 0, fmt.Errorf("describe target: %w", err)
		}
		before, err := json.Marshal(have.Target)
		if err != nil {
			return 0, fmt.Errorf("describe target: %w", err)
		}
		if string(text) == string(before) {
			continue
		}
		raw := json.RawMessage(text)
		next.Signed.Targets[t.Path()].Custom = &raw
		changed++
	}
	if !found {
		return 0, fault.New(fault.NotFound, "no version %s of %s is signed", version, program).WithHint("interlock release status lists what is")
	}
	if changed == 0 {
		return 0, nil
	}
	if err := r.signTargets(ctx, keys, next); err != nil {
		return 0, err
	}
	return changed, r.putTargets(next)
}

// Yank withdraws a version: no machine installs it any more. What runs it goes on until there is a
// higher version.
func (r *Repository) Yank(ctx context.Context, program, version, reason string, keys *Keyring) (int, error) {
	if reason == "" {
		return 0, fault.New(fault.Invalid, "a withdrawal wants its reason: people will ask").WithField("reason").WithHint("--reason 'loses the queue on restart'")
	}
	return r.Change(ctx, program, version, func(t *build.Target) { t.Yanked = reason }, keys)
}

// SetShare changes which percentage of a channel's machines is offered a version.
func (r *Repository) SetShare(ctx context.Context, program, version, channel string, percent int, keys *Keyring) (int, error) {
	if err := build.CheckShare(channel, percent); err != nil {
		return 0, err
	}
	return r.Change(ctx, program, version, func(t *build.Target) {
		if t.Channels == nil {
			t.Channels = map[string]int{}
		}
		t.Channels[channel] = percent
	}, keys)
}

// nextTargets is a copy of the newest targets under the next unused number, not signed yet.
func (r *Repository) nextTargets() (*metadata.Metadata[metadata.TargetsType], error) {
	next := metadata.Targets()
	if r.targets != nil {
		text, err := r.targets.ToBytes(false)
		if err != nil {
			return nil, fmt.Errorf("copy targets: %w", err)
		}
		if next, err = next.FromBytes(text); err != nil {
			return nil, fmt.Errorf("copy targets: %w", err)
		}
	}
	next.Signed.Version = r.highest[metadata.TARGETS] + 1
	next.Signed.Expires = r.expires(days(r.settings.TargetsDays))
	return next, nil
}

func (r *Repository) signTargets(ctx context.Context, keys *Keyring, next *metadata.Metadata[metadata.TargetsType]) error {
	return signRole(ctx, signers{keys: keys, roots: []*metadata.RootType{&r.root().Signed}}, metadata.TARGETS, next)
}

func (r *Repository) putTargets(next *metadata.Metadata[metadata.TargetsType]) error {
	if err := put(r, versioned(next.Signed.Version, metadata.TARGETS), next); err != nil {
		return err
	}
	r.targets, r.highest[metadata.TARGETS] = next, next.Signed.Version
	return nil
}

func targetFile(f File, t build.Target) (*metadata.TargetFiles, error) {
	custom, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("describe target: %w", err)
	}
	sum, err := hex.DecodeString(f.SHA256)
	if err != nil {
		return nil, fmt.Errorf("describe target: %w", err)
	}
	raw := json.RawMessage(custom)
	return &metadata.TargetFiles{Length: f.Size, Hashes: metadata.Hashes{"sha256": sum}, Custom: &raw, Path: t.Path()}, nil
}

// hashed is a target's path under consistent snapshots: the digest stands before the file's name.
func hashed(target string, digest []byte) string {
	return path.Join(path.Dir(target), hex.EncodeToString(digest)+"."+path.Base(target))
}

// take copies a program into the repository, where its digest names it. What was built and what is
// signed are the same bytes or nothing is written.
func (r *Repository) take(f File, version, dir string) error {
	sum, err := hex.DecodeString(f.SHA256)
	if err != nil {
		return fmt.Errorf("take %s: %w", f.Name, err)
	}
	to := filepath.Join(r.dir, targetsDir, filepath.FromSlash(hashed(f.target(version).Path(), sum)))
	if exists(to, f.Size) {
		return nil
	}
	in, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return fault.Wrap(err, fault.NotFound, "cannot read %s: %v", f.Name, err).WithHint("the files of a release stand beside its description")
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, f.Size+1))
	if err != nil {
		return fmt.Errorf("take %s: %w", f.Name, err)
	}
	if got := sha256.Sum256(text); int64(len(text)) != f.Size || hex.EncodeToString(got[:]) != f.SHA256 {
		return fault.New(fault.HashMismatch, "%s is not what it was when the release was built", f.Name).WithHint("build the release again: interlock release build").
			With("expected", f.SHA256).With("got", hex.EncodeToString(got[:]))
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return fmt.Errorf("take %s: %w", f.Name, err)
	}
	if err := r.write(to, text); err != nil {
		return err
	}
	// The folders of the version and of the program may be new too.
	return errors.Join(atomicfile.SyncDir(filepath.Dir(filepath.Dir(to))), atomicfile.SyncDir(filepath.Join(r.dir, targetsDir)))
}
