package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"interlock.sh/internal/clock"
)

const (
	fileName    = "interlock.db"
	readerConns = 8
)

// Open opens, and when needed creates or migrates, the SQLite database of a data folder. Every
// refusal is a fault that names the file, the rule and the way out, and leaves the folder as it was.
func Open(ctx context.Context, o Options) (_ *DB, err error) {
	if o.Clock == nil {
		o.Clock = clock.System
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Migrations == nil {
		o.Migrations = builtinMigrations()
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, folderFault(o.Dir, err)
	}
	lock, err := lockFolder(o.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = lock.Unlock()
		}
	}()

	path := filepath.Join(o.Dir, fileName)
	if err := prepare(ctx, o, path); err != nil {
		return nil, err
	}
	conn, err := openWriteConn(ctx, path)
	if err != nil {
		return nil, err
	}
	mark, err := readMark(conn)
	if err != nil {
		_ = conn.close()
		return nil, classify(err, path)
	}
	read, err := sql.Open("sqlite", dsn(path, "rw", "query_only(1)"))
	if err != nil {
		_ = conn.close()
		return nil, fmt.Errorf("open store: %w", err)
	}
	read.SetMaxOpenConns(readerConns)
	read.SetMaxIdleConns(readerConns)

	sc := newStoreClock(o.Clock, mark, func(by time.Duration) {
		o.Logger.Warn("the machine's clock jumped; live leases get one full lease more", "by", by)
	})
	w := newGroupWriter(conn, path, o.Clock, sc, mark)
	go w.loop(nil)
	return &DB{dialect: SQLite, read: newStatements(read), writer: w, clock: sc, release: lock.Unlock}, nil
}

func readMark(conn *writeConn) (time.Time, error) {
	rows, err := conn.query("SELECT value FROM meta WHERE name = 'clock_ms'")
	if err != nil {
		return time.Time{}, err
	}
	mark, err := One(&Rows{Rows: rows}, nil, func(s Scanner) (ms int64, err error) { return ms, s.Scan(&ms) })
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return time.UnixMilli(mark), err
}

// dsn names the file as a URI, so that any character may stand in the path. mode is "ro" or "rw": nothing here
// makes a database by opening it.
func dsn(path, mode string, pragmas ...string) string {
	q := url.Values{"mode": {mode}, "_pragma": append([]string{"busy_timeout(5000)"}, pragmas...)}
	return (&url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}).String()
}
