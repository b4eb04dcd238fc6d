package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

func countItems(t *testing.T, db *DB) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), "SELECT count(*) FROM items").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// A copy that is made while the database is written to is whole, and takes its place when it is restored:
// nothing of the log of the one that goes is replayed into it.
func TestBackupAndRestore(t *testing.T) {
	dir, ctx := t.TempDir(), context.Background()
	db, err := Open(ctx, Options{Dir: dir, Clock: clock.System, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	for id := range int64(10) {
		if err := db.Write(ctx, LaneAdmit, insert(id+1)); err != nil {
			t.Fatal(err)
		}
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := Backup(ctx, dir, copied); err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(copied); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the copy: %v, %v", st, err)
	}
	raw, err := sql.Open("sqlite", dsn(copied, "ro"))
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := errors.Join(raw.QueryRow("SELECT count(*) FROM items").Scan(&n), raw.Close()); err != nil || n != 10 {
		t.Errorf("the copy has %d items, %v", n, err)
	}
	if err := Backup(ctx, dir, copied); !errors.Is(err, fault.Conflict) {
		t.Errorf("over a file that is there: %v", err)
	}
	if err := Restore(dir, copied); !errors.Is(err, fault.Conflict) {
		t.Errorf("restore under a server that runs: %v", err)
	}
	for id := range int64(5) {
		if err := db.Write(ctx, LaneAdmit, insert(id+100)); err != nil {
			t.Fatal(err)
		}
	}
	closeDB(t, db)
	if err := Restore(dir, copied); err != nil {
		t.Fatal(err)
	}
	if n := countItems(t, open(t, dir, clock.System)); n != 10 {
		t.Errorf("restored are %d items, want 10", n)
	}
}

func TestBackupOfNothing(t *testing.T) {
	target := filepath.Join(t.TempDir(), "copy.db")
	if err := Backup(t.Context(), t.TempDir(), target); !errors.Is(err, fault.NotFound) {
		t.Errorf("an empty folder: %v", err)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("it left a file")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, fileName), []byte("not a database, but long enough to look at"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Backup(t.Context(), dir, target); err == nil {
		t.Error("a file that is no database was copied")
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("it left a file")
	}
}
