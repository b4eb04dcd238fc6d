package store

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"interlock.sh/fault"
)

// resultCode is SQLite's extended result code in err, or 0.
func resultCode(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// classify codes the errors of SQLite that an operator can do something about. An error that has a
// code already, and one that is no error of SQLite, stays what it is.
func classify(err error, path string) error {
	var coded *fault.Error
	if err == nil || errors.As(err, &coded) {
		return err
	}
	switch resultCode(err) & 0xff {
	case sqlite3.SQLITE_FULL:
		return fullFault(filepath.Dir(path), err)
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return corruptFault(path, err)
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN:
		return fault.Wrap(err, fault.Unavailable, "the database %s cannot be written: %v", path, err).
			WithHint("the server needs to write the file and its folder: check owner, mode and mount")
	case sqlite3.SQLITE_IOERR:
		// The index of the log is mapped memory: there a full disk is an I/O error to SQLite.
		if has, ok := freeBytes(filepath.Dir(path)); ok && has < 64<<10 {
			return fullFault(filepath.Dir(path), err)
		}
		return fault.Wrap(err, fault.Unavailable, "the disk under the database %s failed: %v", path, err).
			WithHint("nothing was changed; check the disk and its free space, then try again")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return fault.Wrap(err, fault.Unavailable, "another program holds the database %s", path).
			WithHint("nothing was changed; close that program and try again")
	}
	return err
}

// unknownFault is the answer to everybody whose commit failed.
func unknownFault(path string, cause error) error {
	f := fault.Wrap(cause, fault.Unknown, "the commit to %s failed: %v; the change may or may not have been made", path, cause).
		WithHint("read the state again before repeating the request")
	if full := (*fault.Error)(nil); errors.As(classify(cause, path), &full) && full.Code == fault.DiskFull {
		f = f.WithHint("free space on the server's disk; read the state again before repeating the request")
		f.Details = full.Details
	}
	return f
}

func fullFault(dir string, cause error) *fault.Error {
	f := fault.Wrap(cause, fault.DiskFull, "no space left for the database in %s; nothing was changed", dir).
		WithHint("free space on that disk, then try again")
	if has, ok := freeBytes(dir); ok {
		f = f.With("has", has)
	}
	return f
}

func freeBytes(dir string) (uint64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return st.Bavail * uint64(st.Bsize), true
}

// corruptFault names the newest snapshot, since that is the way out.
func corruptFault(path string, cause error) *fault.Error {
	dir := filepath.Dir(path)
	rescue := "restore your own backup (there is no snapshot in " + filepath.Join(dir, snapshotFolder) + ")"
	if list, err := snapshots(dir); err == nil && len(list) > 0 {
		rescue = "copy the newest snapshot, " + slices.MaxFunc(list, byTime) + ", to " + fileName + " or restore your own backup"
	}
	return fault.Wrap(cause, fault.Internal, "the database %s is damaged: %v; nothing was changed", path, cause).
		WithHint("move %s and its -wal file aside, then %s; \"sqlite3 %s .recover\" saves what can still be read",
			fileName, rescue, fileName)
}

// folderFault words an error of the file system met in the data folder.
func folderFault(dir string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fullFault(dir, err)
	case errors.Is(err, syscall.EROFS), errors.Is(err, os.ErrPermission):
		return fault.Wrap(err, fault.Invalid, "the data folder %s cannot be written: %v", dir, err).
			WithHint("make it writable for this user, or name another folder with --data")
	case errors.Is(err, syscall.ENOTDIR):
		return fault.Wrap(err, fault.Invalid, "the data folder %s is no folder, or lies under a file: %v", dir, err).
			WithHint("name a folder with --data")
	}
	return fault.Wrap(err, fault.Internal, "the data folder %s cannot be used: %v", dir, err).
		WithHint("check the folder, or name another one with --data")
}
