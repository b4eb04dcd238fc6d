package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"interlock.sh/internal/clock"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const itemsSQL = `-- +goose Up
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, at BIGINT NOT NULL DEFAULT 0);
CREATE TABLE parts (id INTEGER PRIMARY KEY, item BIGINT NOT NULL REFERENCES items (id));
`

// schema is the engine's own table and two of the tests'.
func schema(more ...string) fstest.MapFS {
	meta, err := embedded.ReadFile("migrations/00001_meta.sql")
	if err != nil {
		panic(err) // a child has no t
	}
	fs := fstest.MapFS{
		"00001_meta.sql":  &fstest.MapFile{Data: meta},
		"00002_items.sql": &fstest.MapFile{Data: []byte(itemsSQL)},
	}
	for i, text := range more {
		fs["0000"+string(rune('3'+i))+"_more.sql"] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func open(t testing.TB, dir string, c clock.Clock) *DB {
	t.Helper()
	db, err := Open(context.Background(), Options{Dir: dir, Clock: c, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeDB(t, db) })
	return db
}

func closeDB(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func insert(id int64) func(*Tx) error {
	return func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO items (id, name, at) VALUES ($1, 'n' || $1, $2)", id, tx.Now().UnixMilli())
		return err
	}
}

func mustWrite(t testing.TB, db *DB, fn func(*Tx) error) {
	t.Helper()
	if err := db.Write(context.Background(), LaneAdmit, fn); err != nil {
		t.Fatal(err)
	}
}

func ids(t testing.TB, db *DB) []int64 {
	t.Helper()
	rows, err := db.Query(context.Background(), "SELECT id FROM items ORDER BY id")
	all, err := All(rows, err, func(s Scanner) (id int64, err error) { return id, s.Scan(&id) })
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// held keeps the writer busy with an operation of its own, so that what is queued meanwhile becomes
// one batch. The returned function lets go.
func held(t testing.TB, db *DB) (release func()) {
	t.Helper()
	running, free, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- db.Write(context.Background(), LaneRenew, func(*Tx) error {
			close(running)
			<-free
			return nil
		})
	}()
	<-running
	return func() {
		t.Helper()
		close(free)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// queue queues operations one after the other, in this order, and returns their answers to be.
func queue(t testing.TB, db *DB, ctx context.Context, fns ...func(*Tx) error) []chan error {
	t.Helper()
	answers := make([]chan error, len(fns))
	for i, fn := range fns {
		before := queued(db, LaneAdmit)
		answers[i] = make(chan error, 1)
		go func() { answers[i] <- db.Write(ctx, LaneAdmit, fn) }()
		eventually(t, func() bool { return queued(db, LaneAdmit) == before+1 })
	}
	return answers
}

func queued(db *DB, lane Lane) int {
	w := db.writer.(*groupWriter)
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.queue[lane])
}

func eventually(t testing.TB, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("it never happened")
		}
		<-time.After(50 * time.Microsecond)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

func mode(t testing.TB, elem ...string) os.FileMode {
	t.Helper()
	st, err := os.Stat(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return st.Mode().Perm()
}
