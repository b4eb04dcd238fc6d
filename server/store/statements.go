package store

import (
	"context"
	"database/sql"
	"sync"
)

// statements are the texts that were read with, prepared: they are few and constant, and parsing one
// takes longer than running it.
type statements struct {
	pool *sql.DB

	mu  sync.RWMutex
	all map[string]*sql.Stmt
}

func newStatements(pool *sql.DB) *statements {
	return &statements{pool: pool, all: map[string]*sql.Stmt{}}
}

func (s *statements) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	stmt, err := s.prepared(ctx, text) //nolint:sqlclosecheck // it stays in the cache
	switch {
	case err != nil:
		return nil, err
	case stmt == nil:
		return s.pool.QueryContext(ctx, text, args...)
	}
	return stmt.QueryContext(ctx, args...)
}

// prepared is the statement of a text, nil when there are too many already.
func (s *statements) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	s.mu.RLock()
	stmt, full := s.all[text], len(s.all) >= maxStmts
	s.mu.RUnlock()
	if stmt != nil || full {
		return stmt, nil
	}
	stmt, err := s.pool.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if first := s.all[text]; first != nil { // somebody else was faster
		_ = stmt.Close() //nolint:sqlclosecheck // the other is used, and this one kept when it is the first
		return first, nil
	}
	s.all[text] = stmt
	return stmt, nil
}

// close ends the connections, and with them the statements.
func (s *statements) close() error { return s.pool.Close() }
