package updater

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"interlock.sh/fleet/build"
	"interlock.sh/internal/atomicfile"
)

// Programs beside the main one, such as Nightshift, are released under versions of their own. They stand in
// the folder of the main program's version and move along with current, so that they have one path for good:
// <app>/current/<name>. A new version of one needs none of another, and nothing of theirs is judged.

// beside are the programs that stand in a version's folder beside the main one.
func (f folder) beside(version, program string) []string {
	if !plain(version) {
		return nil
	}
	var out []string
	for _, name := range build.Programs() {
		if st, err := os.Stat(f.program(version, name)); name != program && err == nil && st.Mode().IsRegular() {
			out = append(out, name)
		}
	}
	return out
}

// companions bring what stands beside current into a new version's folder, each at its own newest version.
func (u *Updater) companions(ctx context.Context, st *state, o *offer, dir string) error {
	for _, name := range u.folder.beside(u.folder.target(linkCurrent), u.Program) {
		now, to := u.folder.program(u.folder.target(linkCurrent), name), filepath.Join(dir, name)
		if t, ok := u.newer(ctx, o, st, name, now); ok {
			_, err := u.download(ctx, o, t, to)
			if err == nil {
				if err = u.tryInstead(ctx, name, now, to); err == nil {
					continue
				}
				err = errors.Join(err, os.Remove(to))
			}
			if err := u.stays(ctx, st, t, err); err != nil {
				return err
			}
		}
		if err := carry(now, to); err != nil {
			return err
		}
	}
	return nil
}

// refreshBeside brings the programs beside the current one to their newest versions. Nothing restarts them;
// Nightshift sees by itself that its file is another one.
func (u *Updater) refreshBeside(ctx context.Context, st *state, o *offer) error {
	current := u.folder.target(linkCurrent)
	for _, name := range u.folder.beside(current, u.Program) {
		now := u.folder.program(current, name)
		t, ok := u.newer(ctx, o, st, name, now)
		if !ok {
			continue
		}
		if err := u.replace(ctx, o, t, now, string(u.folder)); err != nil {
			if err := u.stays(ctx, st, t, err); err != nil {
				return err
			}
			continue
		}
		u.log.InfoContext(ctx, "a program beside is new", "program", name, "version", t.Version)
	}
	return u.refreshBundle(ctx, st, o)
}

// unfitError is what speaks against a program itself, and not against the way to it.
type unfitError struct{ error }

// Unwrap is what speaks against it.
func (e unfitError) Unwrap() error { return e.error }

// stays says why a program beside stays as it is. A version that is unfit is not asked for again, and its
// bytes are not fetched three times an hour.
func (u *Updater) stays(ctx context.Context, st *state, t build.Target, cause error) error {
	u.log.WarnContext(ctx, "a program beside stays as it is", "program", t.Program, "version", t.Version, "error", cause)
	var unfit unfitError
	if !errors.As(cause, &unfit) || ctx.Err() != nil {
		return nil
	}
	if st.Unfit == nil {
		st.Unfit = map[string]string{}
	}
	st.Unfit[t.Program] = t.Version
	return u.folder.save(st)
}

// kept is the version of a program beside that is not taken, as build.Pick wants it.
func (st *state) kept(program string) map[string]string {
	if v := st.Unfit[program]; v != "" {
		return map[string]string{v: "it does not start here"}
	}
	return nil
}

// moveAlong makes what stands beside one version stand beside another one that is to be current: where it is
// missing, since it was installed after that folder was made; with instead also where another one is, since
// going back to an older version is no reason for Nightshift to grow older.
func (f folder) moveAlong(from, to, program string, instead bool) error {
	if from == to || !plain(to) {
		return nil
	}
	for _, name := range f.beside(from, program) {
		old, at := f.program(from, name), f.program(to, name)
		if there, err := os.Stat(at); err == nil {
			if have, err := os.Stat(old); !instead || err == nil && os.SameFile(there, have) {
				continue
			}
		}
		dir, err := os.MkdirTemp(string(f), stagingPrefix)
		if err != nil {
			return fmt.Errorf("carry %s over: %w", name, err)
		}
		err = carry(old, filepath.Join(dir, name))
		if err == nil {
			err = os.Rename(filepath.Join(dir, name), at)
		}
		if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
			return fmt.Errorf("carry %s over: %w", name, err)
		}
		if err := atomicfile.SyncDir(filepath.Dir(at)); err != nil {
			return err
		}
	}
	return nil
}

// newer is the target that a program beside should be. It is on the channel of the main one.
func (u *Updater) newer(ctx context.Context, o *offer, st *state, name, path string) (build.Target, bool) {
	current := u.versionOf(ctx, o, name, path)
	t, _, ok := build.Pick(o.best.targets(), build.Want{
		Program: name, OS: u.OS, Arch: u.Arch, Current: current, Channel: st.Channel, Machine: u.Machine, Quarantined: st.kept(name),
	})
	return t, ok && t.Version != current
}

// versionOf is the version of a program: by its bytes, else by its word, so that one that no release knows is
// not replaced by an older one. "" when neither tells: then any release is better.
func (u *Updater) versionOf(ctx context.Context, o *offer, name, path string) string {
	if v := u.known(o, name, path); v != "" || u.VersionOf == nil {
		return v
	}
	ctx, cancel := context.WithTimeout(ctx, tryWithin)
	defer cancel()
	v := u.VersionOf(ctx, path)
	if build.CheckVersion(v) != nil {
		return ""
	}
	return v
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

// carry makes the same file appear in another folder.
func carry(from, to string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	if err := atomicfile.Copy(from, to, 0o755); err != nil {
		return fmt.Errorf("carry %s over: %w", from, err)
	}
	return nil
}
