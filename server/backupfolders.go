package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/internal/atomicfile"
)

// backupFolders are what a control plane is beside its database and its stored files, and what nobody can
// make again: the authority and the key that machines pinned, the account and the certificates of an ACME
// authority, and the signed releases.
var backupFolders = []string{"tls", filepath.Join("releases", "metadata")}

// timestampFile names everything else in a set of release metadata, and is written last.
const timestampFile = "timestamp.json"

// copyFolders copies those folders out of a data folder into a backup, and names the ones that were there.
func copyFolders(data, backup string) (copied []string, err error) {
	for _, name := range backupFolders {
		err := copyTree(filepath.Join(data, name), filepath.Join(backup, name))
		if errors.Is(err, errNoFolder) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("back up %s: %w", name, err)
		}
		copied = append(copied, name)
	}
	return copied, nil
}

// restoreFolders puts the folders of a backup into a data folder that lacks them. One that is there stays:
// its releases may be newer, and its keys may be pinned already.
func restoreFolders(backup, data string) (r RestoreReport, err error) {
	for _, name := range backupFolders {
		from, to := filepath.Join(backup, name), filepath.Join(data, name)
		if _, err := os.Stat(from); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if have, err := os.ReadDir(to); err == nil && len(have) > 0 {
			r.Kept = append(r.Kept, name)
			continue
		}
		if err := restoreTree(from, to); err != nil {
			return r, fmt.Errorf("restore %s: %w", name, err)
		}
		r.Folders = append(r.Folders, name)
	}
	return r, nil
}

// restoreTree copies a folder so that it is there whole or not at all.
func restoreTree(from, to string) error {
	part := to + ".partial"
	if err := errors.Join(os.RemoveAll(part), os.MkdirAll(filepath.Dir(to), 0o700)); err != nil {
		return err
	}
	err := copyTree(from, part)
	if err == nil {
		if err = os.Remove(to); errors.Is(err, fs.ErrNotExist) { // an empty one
			err = nil
		}
	}
	if err == nil {
		err = os.Rename(part, to)
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(part))
	}
	return atomicfile.SyncDir(filepath.Dir(to))
}

var errNoFolder = errors.New("no such folder")

// copyTree copies a folder with the permissions of its files, durably. Of release metadata the timestamp goes
// first: all that it names was written before it, so whatever is published meanwhile, the copy is whole.
func copyTree(from, to string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return errNoFolder
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	if i := slices.IndexFunc(entries, func(e fs.DirEntry) bool { return e.Name() == timestampFile }); i > 0 {
		entries = slices.Concat(entries[i:i+1], entries[:i], entries[i+1:])
	}
	for _, e := range entries {
		if err := ignoreGone(copyEntry(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()))); err != nil {
			return err
		}
	}
	return atomicfile.SyncDir(to)
}

func copyEntry(from, to string) error {
	if strings.Contains(filepath.Base(from), ".tmp-") {
		return nil // of a write that goes on, or was broken off
	}
	st, err := os.Stat(from)
	if err != nil {
		return err
	}
	if st.IsDir() {
		return copyTree(from, to)
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", from)
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return atomicfile.Write(to, text, st.Mode().Perm())
}
