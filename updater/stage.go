package updater

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

// stage brings a version's folder into place: complete, verified and durable, and named by no link yet.
func (u *Updater) stage(ctx context.Context, st *state, o *offer, t build.Target) error {
	file, err := o.best.file(t.Path())
	if err != nil {
		return err
	}
	want := installed{SHA256: file.Hashes["sha256"].String(), Length: file.Length}
	if have, err := digest(u.folder.program(t.Version, u.Program)); err == nil && have == want {
		return u.verified(st, t.Version, have)
	}
	if slices.Contains([]string{u.folder.target(linkCurrent), u.folder.target(linkPrevious), u.folder.target(linkUpdater)}, t.Version) {
		// Its folder may not be gone for an instant.
		if err := u.replace(ctx, o, t, u.folder.program(t.Version, u.Program), string(u.folder)); err != nil {
			return err
		}
		return u.verified(st, t.Version, want)
	}
	dir, err := os.MkdirTemp(string(u.folder), stagingPrefix)
	if err != nil {
		return fmt.Errorf("make the staging folder: %w", err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return fmt.Errorf("make the staging folder: %w", err)
	}
	defer u.folder.clear() //nolint:errcheck // the next pass clears what stays
	sum, err := u.download(ctx, o, t, filepath.Join(dir, u.Program))
	if err != nil {
		return err
	}
	u.reached("downloaded")
	if err := u.companions(ctx, st, o, dir); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return err
	}
	u.reached("synced")
	if err := u.folder.put(dir, t.Version); err != nil {
		return err
	}
	u.reached("placed")
	return u.verified(st, t.Version, sum)
}

func (u *Updater) verified(st *state, version string, sum installed) error {
	if st.Installed == nil {
		st.Installed = map[string]installed{}
	}
	st.Installed[version] = sum
	return u.folder.save(st)
}

// replace puts a verified target in the place of one file, by one rename out of a staging folder on the
// same disk.
func (u *Updater) replace(ctx context.Context, o *offer, t build.Target, path, staging string) error {
	dir, err := os.MkdirTemp(staging, stagingPrefix)
	if err != nil {
		return cannotWrite(path, err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover of one file
	fresh := filepath.Join(dir, filepath.Base(path))
	if _, err := u.download(ctx, o, t, fresh); err != nil {
		return err
	}
	if err := u.tryInstead(ctx, t.Program, path, fresh); err != nil {
		return err
	}
	u.reached("downloaded")
	if err := os.Rename(fresh, path); err != nil {
		return cannotWrite(path, err)
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}

func cannotWrite(path string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fault.Wrap(err, fault.ScopeDenied, "%s cannot be replaced by this user", path).
			WithHint("where a package installed it, update the package; else run this as the owner of %s", filepath.Dir(path))
	}
	return fmt.Errorf("replace %s: %w", path, err)
}

// try starts a new program once.
func (u *Updater) try(ctx context.Context, program string) error {
	if u.Try == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	if err := u.Try(ctx, program); err != nil {
		return fmt.Errorf("it does not start: %w", err)
	}
	return nil
}

// faulty is true for an error of Try that speaks against the program: it ran and failed, or is none for this
// machine. That it was too slow, or could not be started at all, may be a machine that is short of memory.
func faulty(err error) bool {
	var ended *exec.ExitError
	return errors.As(err, &ended) || errors.Is(err, syscall.ENOEXEC)
}

// tryInstead starts a program that is to take the place of another. Nightshift wants libraries of a desktop:
// where the one that is there does not start either, that says nothing against the new one.
func (u *Updater) tryInstead(ctx context.Context, name, old, fresh string) error {
	if name == build.Nightshift && faulty(u.try(ctx, old)) && ctx.Err() == nil {
		return nil
	}
	err := u.try(ctx, fresh)
	if faulty(err) {
		return unfitError{err}
	}
	return err
}
