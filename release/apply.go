package release

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// Apply makes a proposal that enough holders signed the newest root of the repository in dir, which may be
// its first. The ring needs the keys of releases only where the new root replaces them.
func Apply(ctx context.Context, dir string, p Proposal, keys *Keyring, c clock.Clock) (Published, error) {
	if err := errors.Join(p.alive(c.Now()), p.complete()); err != nil {
		return Published{}, err
	}
	if p.old == nil {
		return applyFirst(ctx, dir, p, keys, c)
	}
	r, err := Open(dir, c)
	if err != nil {
		return Published{}, err
	}
	defer r.Close()
	if err := r.follows(p); err != nil {
		return Published{}, err
	}
	if err := r.nothingPending(); err != nil {
		return Published{}, err
	}
	return r.install(ctx, p.next, keys)
}

// follows refuses a proposal that was made for another root than the newest one here.
func (r *Repository) follows(p Proposal) error {
	switch now, then := r.root().Signed.Version, p.old.Signed.Version; {
	case then < now:
		return fault.New(fault.Conflict, "the file is stale: it follows root %d, and the newest here is root %d", then, now).
			WithHint("make a new one: interlock release keys rotate --out <file>")
	case then > now:
		return fault.New(fault.Conflict, "the file follows root %d, and the newest in %s is root %d", then, r.dir, now).
			WithHint("use the newest copy of the repository")
	case !sameRoot(p.old, r.root()):
		return fault.New(fault.Conflict, "the file follows root %d of another repository than %s", then, r.dir).
			WithHint("name the repository that it was made for with --repository")
	}
	return nil
}

// applyFirst begins a repository whose root keys were never here.
func applyFirst(ctx context.Context, dir string, p Proposal, keys *Keyring, c clock.Clock) (out Published, err error) {
	if _, err := os.Stat(filepath.Join(dir, metadataDir)); err != nil {
		return out, fault.Wrap(err, fault.NotFound, "%s is not where that root was proposed", dir).
			WithHint("name the folder that `interlock release keys init` made with --repository")
	}
	if _, err := os.Stat(filepath.Join(dir, metadataDir, "1.root.json")); !errors.Is(err, fs.ErrNotExist) {
		return out, isBegun(dir)
	}
	r, err := lockDir(dir, c)
	if err != nil {
		return out, err
	}
	defer r.Close()
	if r.settings, err = readSettings(dir); err != nil {
		return out, fmt.Errorf("open repository %s: %w", dir, err)
	}
	if !keys.reach(&p.next.Signed) {
		return out, fault.New(fault.Invalid, "the keys of targets, snapshot and timestamp that this root names are not within reach").WithField("keys").
			WithHint("name the folder into which `interlock release keys init` put them: --keys <folder>")
	}
	if err := r.putRoot(p.next); err != nil {
		return out, err
	}
	r.roots = append(r.roots, p.next)
	out, err = r.Publish(ctx, keys)
	out.Root = p.next.Signed.Version
	return out, err
}
