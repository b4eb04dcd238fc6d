package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"interlock.sh/fault"
)

func openErr(t *testing.T, o Options) *fault.Error {
	t.Helper()
	db, err := Open(context.Background(), o)
	if err == nil {
		closeDB(t, db)
		t.Fatal("it opened")
	}
	var f *fault.Error
	if !errors.As(err, &f) || f.Hint == "" {
		t.Fatalf("an error without a code and a way out: %#v", err)
	}
	return f
}

func says(t *testing.T, f *fault.Error, code fault.Code, words ...string) {
	t.Helper()
	if f.Code != code {
		t.Errorf("code %s, want %s", f.Code, code)
	}
	for _, w := range words {
		if !strings.Contains(f.Error(), w) {
			t.Errorf("%q does not say %q", f.Error(), w)
		}
	}
}

// filled makes a database of several pages, closed in an orderly way.
func filled(t *testing.T, dir string) (path string) {
	t.Helper()
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, db, func(tx *Tx) error {
		_, err := tx.Exec(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
			INSERT INTO items (id, name) SELECT i, 'the item with the number ' || i FROM n`)
		return err
	})
	closeDB(t, db)
	return filepath.Join(dir, fileName)
}

// content is the sum of each file of the folder but the lock and an empty log.
func content(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == lockName || strings.HasSuffix(path, "-shm") {
			return err
		}
		data, err := os.ReadFile(path)
		if len(data) == 0 && strings.HasSuffix(path, "-wal") {
			return err
		}
		all = append(all, fmt.Sprintf("%s %x", e.Name(), sha256.Sum256(data)))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(all, "\n")
}

func TestTheBuiltInSchemaOpensTwice(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		db, err := Open(context.Background(), Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		closeDB(t, db)
	}
	if exists(filepath.Join(dir, snapshotFolder)) {
		t.Error("a snapshot without a migration")
	}
}

func TestASecondServerIsRefusedByPid(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	f := openErr(t, Options{Dir: dir, Migrations: schema()})
	says(t, f, fault.Conflict, dir, "process "+strconv.Itoa(os.Getpid()), "--data")
	mustWrite(t, db, insert(1))
	closeDB(t, db)
	open(t, dir, nil) // and the lock is given back
}

func TestAFileInThePlaceOfTheFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		says(t, openErr(t, Options{Dir: dir, Migrations: schema()}), fault.Invalid, dir, "--data")
	}
}

func TestADamagedDatabaseIsRefusedAndLeftAlone(t *testing.T) {
	const page = 4096
	patch := func(off int64, b ...byte) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			f, err := os.OpenFile(path, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteAt(b, off); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	truncate := func(size int64) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
	}
	noise := slices.Repeat([]byte{0xa5, 0x17, 0xee}, page/3)
	for name, damage := range map[string]func(*testing.T, string){
		"no magic":                 patch(0, []byte("not a database")...),
		"page size of nonsense":    patch(16, 0x12, 0x34),
		"empty":                    truncate(0),
		"cut inside the header":    truncate(50),
		"cut after the first page": truncate(page),
		"cut inside a page":        truncate(5*page + 100),
		"a page of noise":          patch(7*page, noise...),
		"the last page of noise":   patch(20*page, noise...),
		"schema of noise":          patch(100, noise[:1000]...),
		"a page of zeros":          patch(9*page, make([]byte, page)...),
		"without its schema version": func(t *testing.T, path string) {
			db, err := sql.Open("sqlite", dsn(path, "rw", "journal_mode(DELETE)"))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec("DROP TABLE goose_db_version"); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
		},
		"missing, log left behind": func(t *testing.T, path string) {
			if err := os.Rename(path, path+"-wal"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filled(t, dir)
			snapshot := filepath.Join(dir, snapshotFolder, "1-20260101T000000.000Z.db")
			if err := os.Mkdir(filepath.Dir(snapshot), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(snapshot, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			damage(t, path)
			before := content(t, dir)
			f := openErr(t, Options{Dir: dir, Migrations: schema()})
			says(t, f, fault.Internal, path, "damaged", snapshot, ".recover")
			if after := content(t, dir); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
		})
	}
}

func TestADatabaseOfAnotherProgramIsLeftAlone(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	other, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec("CREATE TABLE theirs (id)"); err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	before := content(t, dir)
	says(t, openErr(t, Options{Dir: dir, Migrations: schema()}), fault.Conflict, path, "another program", "--data")
	if after := content(t, dir); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

func TestAnotherProgramThatHoldsTheDatabaseIsNamed(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	w := db.writer.(*groupWriter)
	mustWrite(t, db, func(tx *Tx) error {
		_ = tx.QueryRow("PRAGMA busy_timeout = 0").Scan(new(int))
		return nil
	})
	other, err := sql.Open("sqlite", dsn(w.path, "rw"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // the test's own
	other.SetMaxOpenConns(1)
	if _, err := other.Exec("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	err = db.Write(context.Background(), LaneAdmit, insert(1))
	var f *fault.Error
	if !errors.As(err, &f) {
		t.Fatal(err)
	}
	says(t, f, fault.Unavailable, w.path, "another program")
	if _, err := other.Exec("ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, db, insert(1))
}
