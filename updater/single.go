package updater

import (
	"context"
	"fmt"
	"path/filepath"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// Single is a program that is installed as one file, outside of any app folder: the command line on a
// developer's machine, the dashboard, Nightshift on Linux.
type Single struct {
	Path    string // of the file; a link is followed
	Version string // that it is; "" when only its bytes tell
	Channel string // "" goes by lot
	To      string // this version; "" is the newest
}

// SelfUpdate brings one file to the newest signed release. The options name the trust folder by App, the
// mirrors and the program. It says which version is there now, and whether that is new.
//
// The file is replaced by one rename of a verified, synced file beside it, so that a kill leaves the old
// program or the new one. (minio/selfupdate renames twice: between the two there is no program.)
func SelfUpdate(ctx context.Context, o Options, s Single) (version string, fresh bool, err error) {
	u, err := New(o)
	if err != nil {
		return s.Version, false, err
	}
	path, err := filepath.EvalSymlinks(s.Path)
	if err != nil {
		return s.Version, false, fmt.Errorf("find the program: %w", err)
	}
	if app := filepath.Dir(filepath.Dir(path)); folder(app).target(linkCurrent) == filepath.Base(filepath.Dir(path)) {
		return s.Version, false, fault.New(fault.Conflict, "%s belongs to this machine's agent", path).WithHint("use: interlock agent update --now")
	}
	unlock, err := u.lock("another update of the programs of this user is under way", "wait for it")
	if err != nil {
		return s.Version, false, err
	}
	defer unlock()
	st, _, err := u.folder.load()
	if err != nil {
		return s.Version, false, err
	}
	offer, err := u.fetch(ctx, &st)
	if err != nil {
		return s.Version, false, err
	}
	if s.Version == "" {
		s.Version = u.versionOf(ctx, offer, u.Program, path)
	}
	t, why, ok := build.Pick(offer.best.targets(), build.Want{
		Program: u.Program, OS: u.OS, Arch: u.Arch, Current: s.Version, Channel: s.Channel, Machine: u.Machine, Version: s.To,
	})
	if !ok && s.To != "" {
		return s.Version, false, fault.New(fault.NotFound, "version %s is not for this machine: %s", s.To, why)
	}
	if !ok || t.Version == s.Version {
		return s.Version, false, nil
	}
	if err := u.replace(ctx, offer, t, path, filepath.Dir(path)); err != nil {
		return s.Version, false, err
	}
	return t.Version, true, nil
}
