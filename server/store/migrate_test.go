package store

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

const (
	goodMore = "-- +goose Up\nALTER TABLE items ADD COLUMN more TEXT NOT NULL DEFAULT 'm';\n"
	badMore  = "-- +goose Up\nDELETE FROM items;\nINSERT INTO nowhere VALUES (1);\n"
	// Rebuilds a table that others refer to; with foreign keys on, this would fail or cascade.
	rebuild = `-- +goose Up
CREATE TABLE items2 (id INTEGER PRIMARY KEY, name TEXT NOT NULL, at BIGINT NOT NULL DEFAULT 0);
INSERT INTO items2 SELECT id, name, at FROM items;
DROP TABLE items;
ALTER TABLE items2 RENAME TO items;
`
	orphan = "-- +goose Up\nINSERT INTO parts (id, item) VALUES (9, 4711);\n"
)

func withItems(t *testing.T, dir string, n int64) {
	t.Helper()
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		mustWrite(t, db, insert(i))
	}
	mustWrite(t, db, func(tx *Tx) error {
		_, err := tx.Exec("INSERT INTO parts (id, item) VALUES (1, 0)")
		return err
	})
	closeDB(t, db)
}

func TestAMigrationTakesASnapshotFirst(t *testing.T) {
	dir := t.TempDir()
	withItems(t, dir, 3)
	c := clock.NewFake(start)
	db, err := Open(context.Background(), Options{Dir: dir, Clock: c, Migrations: schema(goodMore, rebuild)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	if got := ids(t, db); !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("stored %v", got)
	}
	var parts int
	if err := db.QueryRow(context.Background(), "SELECT count(*) FROM parts").Scan(&parts); err != nil || parts != 1 {
		t.Errorf("%d parts, %v", parts, err)
	}
	name := filepath.Join(dir, snapshotFolder, "2-20260301T120000.000Z.db")
	if m := mode(t, name); m != 0o600 {
		t.Errorf("the snapshot has mode %o", m)
	}
	if m := mode(t, dir, snapshotFolder); m != 0o700 {
		t.Errorf("its folder has mode %o", m)
	}
	if m := mode(t, dir, fileName); m != 0o600 {
		t.Errorf("the migrated database has mode %o", m)
	}
	// The way back: the snapshot under the database's name, with the program of before.
	back := t.TempDir()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(back, fileName), data, 0o600); err != nil {
		t.Fatal(err)
	}
	old := open(t, back, nil)
	if got := ids(t, old); !slices.Equal(got, []int64{0, 1, 2}) {
		t.Errorf("the snapshot holds %v", got)
	}
}

func TestAFailingMigrationChangesNothing(t *testing.T) {
	for name, more := range map[string][]string{
		"second of two":             {goodMore, badMore},
		"leaves an orphan":          {orphan},
		"no SQL at all":             {"-- +goose Up\nNONSENSE;\n"},
		"unfinished goose notation": {"-- +goose Up\n-- +goose StatementBegin\nSELECT 1;\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			withItems(t, dir, 3)
			before := content(t, dir)
			for i := range 3 { // a service manager starts it again and again
				c := clock.NewFake(start.Add(time.Duration(i) * time.Second))
				f := openErr(t, Options{Dir: dir, Clock: c, Migrations: schema(more...)})
				list, err := snapshots(dir)
				if err != nil || len(list) != 1 {
					t.Fatalf("snapshots %v, %v", list, err)
				}
				says(t, f, fault.Internal, filepath.Join(dir, fileName), "unchanged", "from schema version 2", list[0])
			}
			if err := os.RemoveAll(filepath.Join(dir, snapshotFolder)); err != nil {
				t.Fatal(err)
			}
			if after := content(t, dir); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			db := open(t, dir, nil)
			if got := ids(t, db); !slices.Equal(got, []int64{0, 1, 2}) {
				t.Errorf("stored %v", got)
			}
		})
	}
}

func TestAFailingFirstMigrationLeavesNoDatabase(t *testing.T) {
	dir := t.TempDir()
	if db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema(badMore)}); err == nil {
		closeDB(t, db)
		t.Fatal("it opened")
	}
	if c := content(t, dir); c != "" {
		t.Errorf("left behind: %s", c)
	}
	open(t, dir, nil)
}

// What a run left that died while it migrated is in nobody's way.
func TestAMigrationThatDiedIsRepeated(t *testing.T) {
	dir := t.TempDir()
	withItems(t, dir, 2)
	for _, suffix := range []string{".migrating", ".migrating-journal", ".migrating-wal"} {
		if err := os.WriteFile(filepath.Join(dir, fileName+suffix), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, snapshotFolder), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, snapshotFolder, "partial"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema(goodMore)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, db)
	if got := ids(t, db); !slices.Equal(got, []int64{0, 1}) {
		t.Errorf("stored %v", got)
	}
	if c := content(t, dir); strings.Contains(c, "migrating") || strings.Contains(c, "partial") {
		t.Errorf("left behind: %s", c)
	}
}

// A server that was killed leaves its last commits in the write-ahead log alone.
func TestAMigrationIncludesTheLog(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	db := open(t, dir, nil)
	mustWrite(t, db, insert(7))
	for _, suffix := range []string{"", "-wal"} {
		data, err := os.ReadFile(filepath.Join(dir, fileName+suffix))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(killed, fileName+suffix), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Open(context.Background(), Options{Dir: killed, Migrations: schema(goodMore)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeDB(t, got)
	if got := ids(t, got); !slices.Equal(got, []int64{7}) {
		t.Errorf("stored %v", got)
	}
	list, err := snapshots(killed)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	snap, err := sql.Open("sqlite", dsn(list[0], "ro"))
	if err != nil {
		t.Fatal(err)
	}
	defer snap.Close() //nolint:errcheck // only read
	var id int64
	if err := snap.QueryRow("SELECT id FROM items").Scan(&id); err != nil || id != 7 {
		t.Errorf("the snapshot has %d, %v", id, err)
	}
}

func TestTheNewestThreeSnapshotsAreKept(t *testing.T) {
	dir := t.TempDir()
	withItems(t, dir, 1)
	more := []string{}
	for i := range 5 {
		more = append(more, strings.ReplaceAll(goodMore, "more", "more"+string(rune('a'+i))))
		c := clock.NewFake(start.Add(time.Duration(i) * time.Hour))
		db, err := Open(context.Background(), Options{Dir: dir, Clock: c, Migrations: schema(more...)})
		if err != nil {
			t.Fatal(err)
		}
		closeDB(t, db)
	}
	list, err := snapshots(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	want := []string{"4-20260301T140000.000Z.db", "5-20260301T150000.000Z.db", "6-20260301T160000.000Z.db"}
	if !slices.Equal(list, want) {
		t.Errorf("kept %v", list)
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema(goodMore)})
	if err != nil {
		t.Fatal(err)
	}
	closeDB(t, db)
	before := content(t, dir)
	says(t, openErr(t, Options{Dir: dir, Migrations: schema()}), fault.Conflict,
		filepath.Join(dir, fileName), "schema version 3", "up to 2", "newer program")
	if after := content(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}
