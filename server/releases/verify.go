package releases

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// file is one metadata file.
type file struct {
	name string
	text []byte
}

// verified is a set that holds.
type verified struct {
	fresh           []file // what is not in metadata/ yet, in the order of writing; without the timestamp
	catalog         *catalog
	root, timestamp int64
}

// isFile refuses a file that is not what its name says.
func isFile(role string, version int64, text []byte) error {
	var head struct {
		Signed struct {
			Type    string `json:"_type"`
			Version int64  `json:"version"`
		} `json:"signed"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return fault.Wrap(err, fault.Malformed, "the body is no metadata: %v", err).WithField("body")
	}
	if head.Signed.Type != role || version != 0 && head.Signed.Version != version {
		return fault.New(fault.Invalid, "the body is version %d of %.20q, and its name says another", head.Signed.Version, head.Signed.Type).WithField("body")
	}
	return nil
}

// find reads a file that waits, unless only what is live counts, or else one that is live.
func (m *Mirror) find(name string, waiting bool) (text []byte, waits bool, err error) {
	if waiting {
		text, err = os.ReadFile(m.incoming(name))
		if err == nil {
			return text, true, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
	}
	text, err = os.ReadFile(m.metadata(name))
	return text, false, err
}

// roots trusts the roots from the first on; with waiting, also those that wait for their timestamp.
func (m *Mirror) roots(now time.Time, waiting bool) (*trustedmetadata.TrustedMetadata, []file, error) {
	var trusted *trustedmetadata.TrustedMetadata
	var fresh []file
	for n := 1; ; n++ {
		name := strconv.Itoa(n) + ".root.json"
		text, waits, err := m.find(name, waiting)
		if errors.Is(err, fs.ErrNotExist) {
			if trusted == nil {
				return nil, nil, fault.New(fault.Conflict, "there is no 1.root.json yet, so nothing can be checked").WithHint("send the roots before the timestamp")
			}
			return trusted, fresh, nil
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read roots: %w", err)
		}
		if n == 1 {
			trusted, err = trustedmetadata.New(text)
			if err == nil {
				trusted.RefTime = now
			}
		} else {
			_, err = trusted.UpdateRoot(text)
		}
		if err != nil {
			return nil, nil, refused(name, err)
		}
		if waits {
			fresh = append(fresh, file{name, text})
		}
	}
}

// verify walks the chain as a machine that knew what is live would: root, timestamp, snapshot, targets,
// and then that the bytes of every target are here.
func (m *Mirror) verify(timestamp []byte) (verified, error) {
	trusted, roots, err := m.roots(m.o.Clock.Now().UTC(), true)
	if err != nil {
		return verified{}, err
	}
	if !trusted.Root.Signed.ConsistentSnapshot {
		return verified{}, fault.New(fault.Invalid, "the root has no consistent snapshots: machines would read mixtures while a release is published").WithField("consistent_snapshot")
	}
	// What is live refuses whatever is older. It may be expired, or under keys that the newest root
	// revoked: then it says nothing, as for a machine. The very same one mends what it leads to.
	if live, err := os.ReadFile(m.metadata(timestampName)); err == nil && !bytes.Equal(live, timestamp) {
		_, _ = trusted.UpdateTimestamp(live)
	}
	var liveSnapshot []byte
	if trusted.Timestamp != nil {
		liveSnapshot, _ = os.ReadFile(m.metadata(named(trusted.Timestamp.Signed.Meta, "snapshot")))
	}
	if _, err := trusted.UpdateTimestamp(timestamp); err != nil {
		return verified{}, refused(timestampName, err)
	}
	if liveSnapshot != nil {
		_, _ = trusted.UpdateSnapshot(liveSnapshot, true)
	}
	out := verified{fresh: roots, root: trusted.Root.Signed.Version, timestamp: trusted.Timestamp.Signed.Version}
	snapshot, err := m.member(named(trusted.Timestamp.Signed.Meta, "snapshot"), &out)
	if err != nil {
		return verified{}, err
	}
	if _, err := trusted.UpdateSnapshot(snapshot.text, false); err != nil {
		return verified{}, refused(snapshot.name, err)
	}
	targets, err := m.member(named(trusted.Snapshot.Signed.Meta, "targets"), &out)
	if err != nil {
		return verified{}, err
	}
	listed, err := trusted.UpdateTargets(targets.text)
	if err != nil {
		return verified{}, refused(targets.name, err)
	}
	// Roots stand last before the timestamp: until it is replaced too, one under revoked keys is refused.
	slices.Reverse(out.fresh)
	slices.SortStableFunc(out.fresh, func(a, b file) int { return rank(a.name) - rank(b.name) })
	out.catalog, err = m.catalogOf(listed.Signed.Targets, true)
	return out, err
}

// rank orders a set for writing: what names a file comes after it.
func rank(name string) int {
	role, version, err := role(name)
	if err != nil || role != metadata.ROOT {
		return 0
	}
	return int(version)
}

func (m *Mirror) member(name string, out *verified) (file, error) {
	text, waits, err := m.find(name, true)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, fault.New(fault.Conflict, "%s is not here, and the timestamp leads to it", name).WithHint("send it before the timestamp")
	}
	if err != nil {
		return file{}, fmt.Errorf("read release metadata: %w", err)
	}
	f := file{name, text}
	if waits {
		out.fresh = append(out.fresh, f)
	}
	return f, nil
}

// named is the file that metadata names for a role.
func named(meta map[string]*metadata.MetaFiles, role string) string {
	if f := meta[role+".json"]; f != nil {
		return strconv.FormatInt(f.Version, 10) + "." + role + ".json"
	}
	return "0." + role + ".json" // no file has that name
}

// readLive trusts what is live, also when its time is over: machines refuse it then, and a new one can
// still be installed.
func (m *Mirror) readLive(timestamp []byte) (*catalog, error) {
	trusted, _, err := m.roots(time.Time{}, false)
	if err != nil {
		return nil, err
	}
	if _, err := trusted.UpdateTimestamp(timestamp); err != nil {
		return nil, refused(timestampName, err)
	}
	name := named(trusted.Timestamp.Signed.Meta, "snapshot")
	text, err := os.ReadFile(m.metadata(name))
	if err == nil {
		_, err = trusted.UpdateSnapshot(text, false)
	}
	if err != nil {
		return nil, refused(name, err)
	}
	name = named(trusted.Snapshot.Signed.Meta, "targets")
	if text, err = os.ReadFile(m.metadata(name)); err != nil {
		return nil, refused(name, err)
	}
	listed, err := trusted.UpdateTargets(text)
	if err != nil {
		return nil, refused(name, err)
	}
	return m.catalogOf(listed.Signed.Targets, false)
}

// catalogOf holds every target to the bytes that are here. One whose description this version cannot use is
// served like the others, since it is signed, and is in no manifest: a newer release tool may know more platforms
// than this control plane.
func (m *Mirror) catalogOf(targets map[string]*metadata.TargetFiles, complete bool) (*catalog, error) {
	c := &catalog{targets: map[string]string{}}
	var missing, unknown []string
	for name, f := range targets {
		if f == nil || len(f.Hashes["sha256"]) != sha256.Size {
			if complete {
				return nil, fault.New(fault.Invalid, "target %.120q has no SHA-256", name).WithField("targets")
			}
			continue
		}
		p := program{digest: hex.EncodeToString(f.Hashes["sha256"]), size: f.Length}
		c.targets[path.Dir(name)+"/"+p.digest+"."+path.Base(name)] = p.digest
		var err error
		if p.Target, err = describe(name, f); err == nil {
			c.programs = append(c.programs, p)
		} else {
			unknown = append(unknown, err.Error())
		}
		if have, err := m.o.Blobs.Stat(p.digest); err != nil || have.Size != f.Length {
			missing = append(missing, name)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		m.o.Logger.Warn("released files that this version does not know are served, and are in no manifest", slog.Int("files", len(unknown)), slog.String("first", unknown[0]))
	}
	if complete && len(missing) > 0 {
		slices.Sort(missing)
		return nil, fault.New(fault.Conflict, "%d of the programs are not here with the length that was signed: %s", len(missing), strings.Join(missing[:min(3, len(missing))], ", ")).
			With("missing", missing).WithHint("send them before the timestamp; interlock release publish does")
	}
	return c, nil
}

func describe(name string, f *metadata.TargetFiles) (build.Target, error) {
	if f.Custom == nil {
		return build.Target{}, fault.New(fault.Invalid, "target %.120q has no description", name)
	}
	return build.Decode(name, *f.Custom)
}

// refused words what the chain was refused for.
func refused(name string, err error) error {
	code, hint := fault.Invalid, ""
	switch {
	case errors.Is(err, &metadata.ErrExpiredMetadata{}):
		hint = "renew it on the release machine: interlock release refresh, or keys rotate for the root"
	case errors.Is(err, &metadata.ErrEqualVersionNumber{}):
		code, hint = fault.ReleaseConflict, "that version is live with other bytes: publish from the newest copy of the repository"
	case errors.Is(err, &metadata.ErrBadVersionNumber{}):
		code, hint = fault.ReleaseConflict, "versions only go up: publish from the newest copy of the repository"
	case errors.Is(err, &metadata.ErrUnsignedMetadata{}):
		hint = "it wants the signatures of a threshold of the keys that the newest root names"
	case errors.Is(err, &metadata.ErrLengthOrHashMismatch{}):
		code, hint = fault.HashMismatch, "what names it was made for other bytes: publish the set again"
	}
	e := fault.Wrap(err, code, "%s is refused: %v", name, err)
	if hint != "" {
		return e.WithHint("%s", hint)
	}
	return e
}
