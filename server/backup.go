package server

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/server/store"
)

const (
	backupFolder   = "backups"
	backupTime     = "20060102T150405.000Z"
	backupDatabase = "interlock.db"
	backupBlobs    = "blobs.txt"
	partialBackup  = ".partial-"
)

// BackupReport is what a backup holds.
type BackupReport struct {
	Dir           string   `json:"dir"`
	DatabaseBytes int64    `json:"databaseBytes"`
	Blobs         int      `json:"blobs"` // named in blobs.txt, to be copied by whatever copies files
	BlobBytes     int64    `json:"blobBytes"`
	Folders       []string `json:"folders,omitempty"` // copied whole: keys of TLS, signed releases
	Removed       []string `json:"removed,omitempty"` // older backups
}

// Backup writes backups/<time>/ into a data folder: a whole copy of the database, copies of the keys of TLS
// and of the metadata of releases, and the list of stored files that they name. It may run beside the server.
// Stored files never change, so a list is enough for them: copy what it names, and the folder, to another
// place. The newest keep backups stay.
func Backup(ctx context.Context, data string, keep int, c clock.Clock) (r BackupReport, err error) {
	if keep < 1 {
		return r, fault.New(fault.Invalid, "%d backups are to be kept; the least is 1", keep).WithField("keep")
	}
	all := filepath.Join(data, backupFolder)
	name := c.Now().UTC().Format(backupTime)
	r.Dir = filepath.Join(all, name)
	if _, err := os.Lstat(r.Dir); err == nil {
		return r, fault.New(fault.Conflict, "%s is there already", r.Dir).WithHint("do it again")
	}
	if _, err := os.Stat(data); err != nil {
		return r, fault.Wrap(err, fault.NotFound, "%s holds no control plane", data).WithField("data")
	}
	part := filepath.Join(all, partialBackup+name)
	if err := os.MkdirAll(part, 0o700); err != nil {
		return r, fmt.Errorf("make the backup's folder: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	database := filepath.Join(part, backupDatabase)
	if err := store.Backup(ctx, data, database); err != nil {
		return r, err
	}
	st, err := os.Stat(database)
	if err != nil {
		return r, fmt.Errorf("look at the backup: %w", err)
	}
	r.DatabaseBytes = st.Size()
	if r.Folders, err = copyFolders(data, part); err != nil {
		return r, err
	}
	// After what names them: all of it is on the disk by now.
	if err := r.listBlobs(filepath.Join(data, "files", "blobs"), filepath.Join(part, backupBlobs)); err != nil {
		return r, err
	}
	if err := errors.Join(atomicfile.SyncDir(part), os.Rename(part, r.Dir), atomicfile.SyncDir(all)); err != nil {
		return r, fmt.Errorf("finish the backup: %w", err)
	}
	r.Removed, err = pruneBackups(all, keep)
	return r, err
}

// listBlobs writes a line for each stored file: size in bytes, path below blobs.
func (r *BackupReport) listBlobs(dir, to string) error {
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("list the stored files: %w", err)
	}
	w := bufio.NewWriter(f)
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return ignoreGone(err)
		}
		info, err := d.Info()
		if err != nil {
			return ignoreGone(err)
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		r.Blobs++
		r.BlobBytes += info.Size()
		_, err = fmt.Fprintf(w, "%d %s\n", info.Size(), rel)
		return err
	})
	if err = errors.Join(err, w.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("list the stored files: %w", err)
	}
	return nil
}

// ignoreGone is nil for what a chore removed meanwhile.
func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// pruneBackups removes the oldest backups, and what interrupted ones left.
func pruneBackups(all string, keep int) (removed []string, err error) {
	entries, err := os.ReadDir(all)
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	var whole []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), partialBackup) {
			removed = append(removed, filepath.Join(all, e.Name()))
		} else if _, err := os.Stat(filepath.Join(all, e.Name(), backupDatabase)); err == nil {
			whole = append(whole, filepath.Join(all, e.Name()))
		}
	}
	slices.SortFunc(whole, func(a, b string) int { return cmp.Compare(b, a) })
	removed = append(removed, whole[min(keep, len(whole)):]...)
	for _, dir := range removed {
		if err := os.RemoveAll(dir); err != nil {
			return removed, fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return removed, nil
}

// RestoreReport is what a restore did beside the database.
type RestoreReport struct {
	Folders []string `json:"folders,omitempty"` // put back
	Kept    []string `json:"kept,omitempty"`    // of the data folder, which had them
}

// Restore puts the database of a backup in the place of that of a data folder, on which no server runs, and
// what else it holds where the data folder lacks it. The data folder may be empty, or not be there.
func Restore(data, backup string) (RestoreReport, error) {
	for _, name := range []string{backupDatabase, backupBlobs} { // a data folder has the first as well
		if _, err := os.Stat(filepath.Join(backup, name)); err != nil {
			return RestoreReport{}, fault.Wrap(err, fault.NotFound, "%s is no backup", backup).WithField("from").
				WithHint("name one of the folders in %s", filepath.Join(data, backupFolder))
		}
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return RestoreReport{}, fmt.Errorf("make the data folder: %w", err)
	}
	if err := store.Restore(data, filepath.Join(backup, backupDatabase)); err != nil {
		return RestoreReport{}, err
	}
	return restoreFolders(backup, data)
}
