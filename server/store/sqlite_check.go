package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"

	sqlite3 "modernc.org/sqlite/lib"

	"interlock.sh/fault"
)

// applicationID marks the file as ours: "ILCK".
const applicationID = 0x494c434b

// inspect reads the schema version of an existing database and looks whether it is whole. It opens
// the file read-only, so nothing is changed, not even the write-ahead log.
func inspect(ctx context.Context, path string) (version int64, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fault.New(fault.Invalid, "%s is not a regular file", path).WithHint("name another folder with --data")
	}
	if st.Size() == 0 { // SQLite would take it for a new database; ours get their name when they are complete
		return 0, corruptFault(path, errors.New("the file is empty"))
	}
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return 0, fault.Wrap(err, fault.Invalid, "the database %s cannot be written: %v", path, err).
			WithHint("make it writable for this user, or name another folder with --data")
	} else if err := f.Close(); err != nil {
		return 0, err
	}
	db, err := sql.Open("sqlite", dsn(path, "ro"))
	if err != nil {
		return 0, err
	}
	defer db.Close() //nolint:errcheck // only read
	db.SetMaxOpenConns(1)

	if err := quickCheck(ctx, db); err != nil {
		if code := resultCode(err); code != 0 || ctx.Err() != nil {
			return 0, classify(err, path)
		}
		return 0, corruptFault(path, err)
	}
	var id int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return 0, classify(err, path)
	}
	if id != applicationID {
		return 0, fault.New(fault.Conflict, "%s is a database of another program (application id %#x)", path, id).
			WithHint("name another folder with --data; nothing was changed")
	}
	err = db.QueryRowContext(ctx, "SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied").Scan(&version)
	if resultCode(err)&0xff == sqlite3.SQLITE_ERROR { // no such table
		return 0, corruptFault(path, err)
	}
	return version, classify(err, path)
}

// quickCheck reads every page once. It finds damaged structure, not damaged values.
func quickCheck(ctx context.Context, db *sql.DB) error {
	var word string
	if err := db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&word); err != nil {
		return fmt.Errorf("quick_check: %w", err)
	}
	if word != "ok" {
		return errors.New(word)
	}
	return nil
}
