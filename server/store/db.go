package store

import (
	"context"
	"io/fs"
	"log/slog"
	"time"

	"interlock.sh/internal/clock"
)

// Dialect is the SQL dialect of the open database.
type Dialect string

// The dialects.
const (
	SQLite   Dialect = "sqlite"
	Postgres Dialect = "postgres"
)

// Options say what to open.
type Options struct {
	Dir        string       // the data folder; made with mode 0700 when it is missing
	Clock      clock.Clock  // nil is the machine's clock
	Migrations fs.FS        // goose's *.sql files at its root, 00001_meta.sql among them; nil is the built-in schema
	Logger     *slog.Logger // nil logs nothing
}

// DB is an open database. It is safe for concurrent use.
type DB struct {
	dialect Dialect
	read    *statements
	writer  writer
	clock   interface {
		read() (now time.Time, epoch uint64)
	}
	release func() error // gives back what the engine holds beside its connections
}

// writer runs operations durably; see DB.Write for what it promises.
type writer interface {
	write(ctx context.Context, lane Lane, fn func(*Tx) error) error
	// close ends after the last queued operation, or refuses what is still queued when ctx ends.
	close(ctx context.Context) error
}

// Dialect tells which SQL dialect the database speaks.
func (db *DB) Dialect() Dialect { return db.dialect }

// Query reads rows. Two calls may see different states; use one statement, or Write, where that matters.
func (db *DB) Query(ctx context.Context, query string, args ...any) (*Rows, error) {
	rows, err := db.read.query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return &Rows{Rows: rows}, nil
}

// QueryRow reads the first row; Scan answers sql.ErrNoRows when there is none. It is not given up in the
// middle: to watch the context takes as long as to read the row.
func (db *DB) QueryRow(ctx context.Context, query string, args ...any) *Row {
	if ctx.Err() != nil {
		return &Row{err: context.Cause(ctx)}
	}
	rows, err := db.Query(context.WithoutCancel(ctx), query, args...)
	return &Row{rows: rows, err: err}
}

// Reader is the reading half of DB bound to a context, so that one function of a domain package can
// read both in a Tx and outside of one.
func (db *DB) Reader(ctx context.Context) Querier { return reader{db, ctx} }

type reader struct {
	db  *DB
	ctx context.Context
}

// Query reads under the context of the reader.
func (r reader) Query(query string, args ...any) (*Rows, error) {
	return r.db.Query(r.ctx, query, args...)
}

// QueryRow reads one row under the context of the reader.
func (r reader) QueryRow(query string, args ...any) *Row {
	return r.db.QueryRow(r.ctx, query, args...)
}

// Write runs fn in the writer and returns after COMMIT: nil, or the error that fn returned, whose
// changes are undone. It returns context.Cause(ctx) only when fn's operation never ran; after that it
// waits for the true outcome, whatever becomes of ctx. fault.Unknown means that the commit failed and
// may or may not have happened; fault.DiskFull and fault.Unavailable mean that it did not.
//
// fn may run more than once: it must only touch tx and overwrite its own results. It must not call
// Write, and should not wait for anything else either: every other writer waits for it.
func (db *DB) Write(ctx context.Context, lane Lane, fn func(tx *Tx) error) error {
	return db.writer.write(ctx, lane, fn)
}

// Now is the store's time, in whole milliseconds, UTC. It never goes back, across a restart neither.
func (db *DB) Now() time.Time {
	now, _ := db.clock.read()
	return now
}

// Epoch counts the start of this process and each jump of the machine's clock (wall against
// monotonic, more than 5 s in either direction) since. Whoever ends leases by time keeps the last
// value it saw; when it changed, live leases first get one full lease more. Inside an operation use
// Tx.Epoch, which belongs to Tx.Now.
func (db *DB) Epoch() uint64 {
	_, epoch := db.clock.read()
	return epoch
}

// Close refuses new writes, finishes the queued ones and closes the database. When ctx ends first,
// what is still queued is refused with fault.Unavailable and the context's cause is returned.
func (db *DB) Close(ctx context.Context) error {
	if err := db.writer.close(ctx); err != nil {
		return err
	}
	err := db.read.close()
	if rerr := db.release(); err == nil {
		err = rerr
	}
	return err
}
