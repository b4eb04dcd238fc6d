package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"

	"modernc.org/sqlite"
)

// writeConn is the one connection that writes. SQLite may roll back a transaction by itself; the
// hooks tell exactly when, and refuse every commit that commit did not ask for, so that a statement
// which comes after such a rollback can never become durable on its own.
type writeConn struct {
	path  string
	pool  *sql.DB
	conn  *sql.Conn
	stmts map[string]*sql.Stmt

	committing bool // COMMIT is running
	gone       bool // no transaction stands: it was rolled back, or never begun
}

func openWriteConn(ctx context.Context, path string) (*writeConn, error) {
	// SQLite's own builds on Linux sync with fdatasync; this one has to be told. It is as durable, and a
	// commit waits about half as long. The switch is the library's, for the whole process.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return nil, fmt.Errorf("open store: %w", err)
	}
	// fullfsync matters on macOS alone, where a plain fsync stops at the disk's cache.
	pool, err := sql.Open("sqlite", dsn(path, "rw", "journal_mode(WAL)", "synchronous(FULL)", "fullfsync(1)",
		"checkpoint_fullfsync(1)", "foreign_keys(1)", "journal_size_limit(67108864)"))
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	pool.SetMaxOpenConns(1)
	c := &writeConn{path: path, pool: pool, gone: true}
	if err := c.connect(ctx); err != nil {
		_ = pool.Close()
		return nil, classify(err, path)
	}
	return c, nil
}

func (c *writeConn) connect(ctx context.Context) (err error) {
	c.stmts = map[string]*sql.Stmt{}
	if c.conn, err = c.pool.Conn(ctx); err != nil {
		return fmt.Errorf("connect the writer: %w", err)
	}
	return c.watch(
		func() int32 {
			if c.committing {
				return 0
			}
			return 1
		},
		func() { c.gone = true },
	)
}

// watch sets the hooks; nil unsets one. They run inside a statement, on the writer's goroutine.
func (c *writeConn) watch(commit sqlite.CommitHookFn, rollback sqlite.RollbackHookFn) error {
	return c.conn.Raw(func(dc any) error {
		h, ok := dc.(sqlite.HookRegisterer)
		if !ok {
			return fmt.Errorf("connect the writer: %T has no transaction hooks", dc)
		}
		h.RegisterCommitHook(commit)
		h.RegisterRollbackHook(rollback)
		return nil
	})
}

func (c *writeConn) lost() bool { return c.gone }

// exec and query run under a context that never ends: an interrupted statement would take the
// transaction, and so everybody's operations, with it.
func (c *writeConn) exec(query string, args ...any) (sql.Result, error) {
	s, err := c.prepare(query) //nolint:sqlclosecheck // it stays in the connection's cache
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

func (c *writeConn) query(query string, args ...any) (*sql.Rows, error) {
	s, err := c.prepare(query) //nolint:sqlclosecheck // it stays in the connection's cache
	if err != nil {
		return nil, err
	}
	return s.Query(args...)
}

// maxStmts bounds the cache; a text that is built anew each time would fill it.
const maxStmts = 512

func (c *writeConn) prepare(query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	if c.conn == nil {
		return nil, errTxGone
	}
	if len(c.stmts) >= maxStmts {
		for text, s := range c.stmts {
			_ = s.Close()
			delete(c.stmts, text)
			break
		}
	}
	s, err := c.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

func (c *writeConn) begin() error {
	if c.conn == nil {
		if err := c.connect(context.Background()); err != nil {
			return err
		}
	}
	if _, err := c.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	c.gone = false
	return nil
}

func (c *writeConn) commit() error {
	if c.gone {
		return errTxGone
	}
	c.committing = true
	_, err := c.exec("COMMIT")
	c.committing = false
	if err != nil {
		c.abort()
	}
	c.gone = true
	return err
}

// abort makes sure that no transaction stands; a connection that cannot even roll back is given up
// for a new one, which rolls back by closing.
func (c *writeConn) abort() {
	if !c.gone {
		if _, err := c.exec("ROLLBACK"); err != nil {
			c.disconnect()
		}
	}
	c.gone = true
}

func (c *writeConn) disconnect() {
	if c.conn == nil {
		return
	}
	for _, s := range c.stmts {
		_ = s.Close()
	}
	c.stmts = nil
	_ = c.watch(nil, nil)
	// Only ErrBadConn makes the pool close the connection instead of keeping it.
	_ = c.conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = c.conn.Close()
	c.conn = nil
}

func (c *writeConn) close() error {
	c.disconnect()
	return c.pool.Close()
}

// lastMark is the text that keeps the high-water mark of the clock.
const lastMark = `INSERT INTO meta (name, value) VALUES ('clock_ms', $1)
	ON CONFLICT (name) DO UPDATE SET value = excluded.value`
