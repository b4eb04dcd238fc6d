package updater

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

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
	if err := u.companions(ctx, o, dir); err != nil {
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

// companions are the other programs that stand in the current folder, such as Nightshift: they move to the
// new folder, each at its own newest version.
func (u *Updater) companions(ctx context.Context, o *offer, dir string) error {
	for _, name := range build.Programs() {
		now := u.folder.program(u.folder.target(linkCurrent), name)
		if st, err := os.Stat(now); name == u.Program || err != nil || !st.Mode().IsRegular() {
			continue
		}
		to := filepath.Join(dir, name)
		if t, ok := u.newer(o, name, now); ok {
			_, err := u.download(ctx, o, t, to)
			if err == nil {
				continue
			}
			u.log.WarnContext(ctx, "a program beside stays as it is", "program", name, "error", err)
		}
		if err := carry(now, to); err != nil {
			return err
		}
	}
	return nil
}

// refreshBeside brings the programs beside the current one to their newest versions; nothing restarts them.
func (u *Updater) refreshBeside(ctx context.Context, o *offer) {
	for _, name := range build.Programs() {
		now := u.folder.program(u.folder.target(linkCurrent), name)
		if st, err := os.Stat(now); name == u.Program || err != nil || !st.Mode().IsRegular() {
			continue
		}
		t, ok := u.newer(o, name, now)
		if !ok {
			continue
		}
		if err := u.replace(ctx, o, t, now, string(u.folder)); err != nil {
			u.log.WarnContext(ctx, "a program beside stays as it is", "program", name, "error", err)
			continue
		}
		u.log.InfoContext(ctx, "a program beside is new", "program", name, "version", t.Version)
	}
}

// newer is the target that a program beside should be.
func (u *Updater) newer(o *offer, name, path string) (build.Target, bool) {
	current := u.known(o, name, path)
	t, _, ok := build.Pick(o.best.targets(), build.Want{Program: name, OS: u.OS, Arch: u.Arch, Current: current, Machine: u.Machine})
	return t, ok && t.Version != current
}

// known is the version of a program by its bytes; "" when no release has them.
func (u *Updater) known(o *offer, name, path string) string {
	have, err := digest(path)
	if err != nil {
		return ""
	}
	for _, t := range o.best.targets() {
		if f, err := o.best.file(t.Path()); err == nil && t.Program == name && f.Hashes["sha256"].String() == have.SHA256 {
			return t.Version
		}
	}
	return ""
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
	if err := u.try(ctx, t.Program, fresh); err != nil {
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

// carry makes the same file appear in another folder.
func carry(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("carry %s over: %w", from, err)
	}
	defer in.Close() //nolint:errcheck // read only
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return fmt.Errorf("carry %s over: %w", from, err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return fmt.Errorf("carry %s over: %w", from, err)
	}
	return nil
}

// tried are the programs that can be started to say their version. A desktop program needs a desktop.
var tried = []string{build.Interlock, build.TUI}

func (u *Updater) try(ctx context.Context, name, program string) error {
	if u.Try == nil || !slices.Contains(tried, name) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	if err := u.Try(ctx, program); err != nil {
		return fmt.Errorf("it does not start: %w", err)
	}
	return nil
}
