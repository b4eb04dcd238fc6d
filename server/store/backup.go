package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"interlock.sh/fault"
)

// Backup writes a whole, consistent copy of the database of a data folder to target, which must not be
// there, whether or not a server runs on it: readers hold up nobody. The copy needs no log beside it.
func Backup(ctx context.Context, dir, target string) error {
	path := filepath.Join(dir, fileName)
	if _, err := os.Stat(path); err != nil {
		return fault.Wrap(err, fault.NotFound, "%s holds no control plane", dir).WithField("data").
			WithHint("name the folder that `interlock serve --data` uses")
	}
	if _, err := os.Lstat(target); err == nil {
		return fault.New(fault.Conflict, "%s is there already", target).WithHint("name another file")
	}
	if err := vacuumInto(ctx, path, target); err != nil {
		_ = os.Remove(target)
		_ = os.Remove(target + "-journal")
		return classify(fmt.Errorf("back up %s: %w", path, err), target)
	}
	return nil
}

// Restore puts a copy that Backup made in the place of the database of a data folder. It refuses while a
// server runs there. What was written after the copy is lost.
func Restore(dir, backup string) error {
	lock, err := lockFolder(dir)
	if err != nil {
		return err
	}
	defer lock.Unlock() //nolint:errcheck // ends with this process as well
	path := filepath.Join(dir, fileName)
	draft, err := newDraft(path)
	if err != nil {
		return folderFault(dir, err)
	}
	defer draft.discard()
	if err := draft.copyFrom(backup); err != nil {
		return folderFault(dir, err)
	}
	return draft.publish(dir) // which also removes the log of the database that goes
}
