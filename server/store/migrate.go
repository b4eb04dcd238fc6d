package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pressly/goose/v3"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

//go:embed migrations/*.sql
var embedded embed.FS

func builtinMigrations() fs.FS {
	sub, err := fs.Sub(embedded, "migrations")
	if err != nil {
		panic(err) // the name is a constant and valid
	}
	return sub
}

// prepare leaves a whole database of the current schema at path. Migrations run on a copy that takes
// the database's name when it is complete: whatever fails or dies before that, the old one stands.
func prepare(ctx context.Context, o Options, path string) error {
	target, err := newest(o.Migrations)
	if err != nil {
		return err
	}
	version, err := inspect(ctx, path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return create(ctx, o, path)
	case err != nil:
		return err
	case version > target:
		return fault.New(fault.Conflict, "%s has schema version %d; this program knows versions up to %d",
			path, version, target).
			WithHint("run the newer program that made it, or restore a snapshot of this version from %s",
				filepath.Join(o.Dir, snapshotFolder))
	case version == target:
		return nil
	}
	return upgrade(ctx, o, path, version, target)
}

func create(ctx context.Context, o Options, path string) error {
	if st, err := os.Stat(path + "-wal"); err == nil && st.Size() > 0 {
		return corruptFault(path, errors.New("the file is missing, but its write-ahead log is there"))
	}
	draft, err := newDraft(path)
	if err != nil {
		return folderFault(o.Dir, err)
	}
	defer draft.discard()
	if err := draft.migrate(ctx, o.Migrations); err != nil {
		return classify(fmt.Errorf("create %s: %w", path, err), path)
	}
	return draft.publish(o.Dir)
}

func upgrade(ctx context.Context, o Options, path string, from, to int64) error {
	snapshot, err := takeSnapshot(ctx, o, path, from)
	if err != nil {
		return err
	}
	err = replace(ctx, o, path)
	switch code := fault.CodeOf(err); {
	case code == fault.DiskFull:
		return errors.Join(err, os.Remove(snapshot)) // the database stands, and space is what is missing
	case err != nil:
		return fault.Wrap(err, fault.Internal, "%s could not be migrated from schema version %d to %d: %v; it is unchanged",
			path, from, to, err).
			WithHint("run the program of before, and report this; a snapshot is at %s", snapshot)
	}
	o.Logger.Info("the database was migrated", "from", from, "to", to, "snapshot", snapshot)
	return pruneSnapshots(o.Dir)
}

// replace puts a migrated copy in the place of the database.
func replace(ctx context.Context, o Options, path string) error {
	if err := emptyLog(ctx, path); err != nil {
		return classify(err, path)
	}
	draft, err := newDraft(path)
	if err != nil {
		return folderFault(o.Dir, err)
	}
	defer draft.discard()
	if err := draft.copyFrom(path); err != nil {
		return folderFault(o.Dir, err)
	}
	if err := draft.migrate(ctx, o.Migrations); err != nil {
		return classify(err, path)
	}
	return draft.publish(o.Dir)
}

func newest(migrations fs.FS) (int64, error) {
	p, err := provider(nil, migrations)
	if err != nil {
		return 0, err
	}
	sources := p.ListSources()
	return sources[len(sources)-1].Version, nil
}

func provider(db *sql.DB, migrations fs.FS) (*goose.Provider, error) {
	if db == nil { // goose insists on one even to list its sources
		db = new(sql.DB)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, migrations, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read the migrations: %w", err)
	}
	return p, nil
}

// emptyLog moves what the write-ahead log holds into the database file, so that the file alone is
// all of it.
func emptyLog(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", dsn(path, "rw", "journal_mode(WAL)", "synchronous(FULL)"))
	if err != nil {
		return err
	}
	var busy, log, moved int
	err = db.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &log, &moved)
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("empty the write-ahead log: %w", err)
	}
	if st, serr := os.Stat(path + "-wal"); busy != 0 || serr == nil && st.Size() > 0 {
		return fault.New(fault.Conflict, "another program holds the database %s", path).
			WithHint("close it and try again; nothing was changed")
	}
	return nil
}

// draft is a database under a temporary name.
type draft struct{ path, final string }

func newDraft(final string) (*draft, error) {
	d := &draft{path: final + ".migrating", final: final}
	d.discard() // what a run that died has left
	f, err := os.OpenFile(d.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return d, f.Close()
}

func (d *draft) discard() {
	for _, suffix := range []string{"", "-journal", "-wal", "-shm"} {
		_ = os.Remove(d.path + suffix)
	}
}

func (d *draft) copyFrom(path string) error {
	src, err := os.Open(path)
	if err != nil {
		return err
	}
	defer src.Close() //nolint:errcheck // only read
	dst, err := os.OpenFile(d.path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	return errors.Join(err, dst.Close())
}

func (d *draft) migrate(ctx context.Context, migrations fs.FS) error {
	// Foreign keys are off, since rebuilding a table would cascade, and are checked as a whole below.
	// Nothing is synced before publish: a draft is worth nothing until it is complete.
	db, err := sql.Open("sqlite", dsn(d.path, "rw", "journal_mode(DELETE)", "synchronous(OFF)", "foreign_keys(0)",
		fmt.Sprintf("application_id(%d)", applicationID)))
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	err = up(ctx, db, migrations)
	return errors.Join(err, db.Close())
}

func up(ctx context.Context, db *sql.DB, migrations fs.FS) error {
	p, err := provider(db, migrations)
	if err != nil {
		return err
	}
	if _, err := p.Up(ctx); err != nil {
		return err
	}
	var table string
	err = db.QueryRowContext(ctx, `SELECT "table" FROM pragma_foreign_key_check LIMIT 1`).Scan(&table)
	if err == nil {
		return fmt.Errorf("after the migrations a foreign key of table %s points nowhere", table)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	return quickCheck(ctx, db)
}

// publish gives the draft the database's name, durably.
func (d *draft) publish(dir string) error {
	if err := syncFile(d.path); err != nil {
		return folderFault(dir, err)
	}
	for _, suffix := range []string{"-wal", "-shm"} { // of the old database, and empty: see emptyLog
		if err := os.Remove(d.final + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			return folderFault(dir, err)
		}
	}
	if err := os.Rename(d.path, d.final); err != nil {
		return folderFault(dir, err)
	}
	if err := atomicfile.SyncDir(dir); err != nil {
		return folderFault(dir, err)
	}
	return nil
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	return errors.Join(err, f.Close())
}
