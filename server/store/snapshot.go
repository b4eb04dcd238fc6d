package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"interlock.sh/internal/atomicfile"
)

const (
	snapshotFolder = "snapshots"
	snapshotsKept  = 3
	snapshotTime   = "20060102T150405.000Z"
)

// takeSnapshot writes a whole copy of the database to snapshots/<version>-<time>.db. An older one of
// the same version is replaced, so that a server which restarts over and over before a migration that
// fails does not push out those of other versions.
func takeSnapshot(ctx context.Context, o Options, path string, version int64) (string, error) {
	dir := filepath.Join(o.Dir, snapshotFolder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", folderFault(o.Dir, err)
	}
	older, err := snapshots(o.Dir)
	if err != nil {
		return "", folderFault(o.Dir, err)
	}
	name := filepath.Join(dir, fmt.Sprintf("%d-%s.db", version, o.Clock.Now().UTC().Format(snapshotTime)))
	partial := filepath.Join(dir, "partial")
	if err := vacuumInto(ctx, path, partial); err != nil {
		_ = os.Remove(partial)
		_ = os.Remove(partial + "-journal")
		return "", classify(fmt.Errorf("snapshot %s: %w", path, err), partial)
	}
	if err := os.Rename(partial, name); err != nil {
		return "", folderFault(o.Dir, err)
	}
	for _, old := range older {
		if old != name && strings.HasPrefix(filepath.Base(old), fmt.Sprintf("%d-", version)) {
			if err := os.Remove(old); err != nil {
				return "", folderFault(o.Dir, err)
			}
		}
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return "", folderFault(o.Dir, err)
	}
	return name, nil
}

func vacuumInto(ctx context.Context, path, target string) error {
	// VACUUM INTO takes an empty file, and would make one that everybody may read.
	f, err := os.OpenFile(target, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", dsn(path, "rw"))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, "VACUUM INTO $1", target)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return syncFile(target)
}

// snapshots lists the snapshots of a data folder.
func snapshots(dir string) ([]string, error) {
	return filepath.Glob(filepath.Join(escapeGlob(dir), snapshotFolder, "*-*.db"))
}

// pruneSnapshots keeps the newest ones.
func pruneSnapshots(dir string) error {
	list, err := snapshots(dir)
	if err != nil {
		return folderFault(dir, err)
	}
	slices.SortFunc(list, byTime)
	for len(list) > snapshotsKept {
		if err := os.Remove(list[0]); err != nil {
			return folderFault(dir, err)
		}
		list = list[1:]
	}
	return nil
}

// byTime orders names of snapshots by the time in them.
func byTime(a, b string) int {
	at := func(path string) string {
		_, t, _ := strings.Cut(filepath.Base(path), "-")
		return t
	}
	return strings.Compare(at(a), at(b))
}

// escapeGlob takes the meaning from characters of a folder's name that a pattern would read.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(s)
}
