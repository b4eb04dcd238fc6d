package updater

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"interlock.sh/fault"
	"interlock.sh/fleet/build"
)

// SelfTest does what a pass does, short of bringing anything in: it reads what the folder knows, asks the
// mirrors, verifies what they say, chooses, and finds the services. It works on a copy of the trust state, so
// that a program can be asked for it while another one holds the folder, and so that one that does it wrong
// spoils nothing.
func (u *Updater) SelfTest(ctx context.Context) (News, error) {
	copied, err := u.folder.copyTrust()
	if err != nil {
		return News{}, err
	}
	defer os.RemoveAll(filepath.Dir(string(copied))) //nolint:errcheck // the next pass clears what stays
	var st state
	b, err := os.ReadFile(copied.stateFile())
	if err != nil {
		return News{}, fmt.Errorf("read the updater's state: %w", err)
	}
	if err := json.Unmarshal(b, &st); err != nil || st.Schema != stateSchema {
		return News{}, fault.New(fault.Invalid, "the state has schema %d (%v); this version reads %d", st.Schema, err, stateSchema)
	}
	c := *u
	c.folder, c.Progress = copied, nil
	o, err := c.fetch(ctx, &st)
	if err != nil {
		return News{}, err
	}
	n := c.news(&st)
	n.Current, n.Previous = u.folder.target(linkCurrent), u.folder.target(linkPrevious)
	want := c.wants(&st)
	want.Current = n.Current
	if t, _, ok := build.Pick(o.best.targets(), want); ok {
		n.Newest = t.Version
	}
	if _, err := u.Services.Subjects(ctx); err != nil {
		return n, fmt.Errorf("list the services: %w", err)
	}
	return n, nil
}

// copyTrust copies the trust state into a folder of the same name, out of sight of whoever lists versions.
func (f folder) copyTrust() (folder, error) {
	dir, err := os.MkdirTemp(string(f), stagingPrefix)
	if err != nil {
		return "", fmt.Errorf("make the self-test's folder: %w", err)
	}
	to := folder(filepath.Join(dir, filepath.Base(string(f))))
	err = os.Mkdir(string(to), 0o700)
	if err == nil {
		err = os.CopyFS(to.trust(), os.DirFS(f.trust()))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("copy the trust state: %w", err), os.RemoveAll(dir))
	}
	return to, nil
}
