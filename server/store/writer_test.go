package store

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	sqlite3 "modernc.org/sqlite/lib"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

func TestOneOperationOfABatchFailsAndTheOthersStand(t *testing.T) {
	refusal := fault.New(fault.StaleAttempt, "the lease was replaced")
	for name, bad := range map[string]struct {
		fn   func(*Tx) error
		want error
	}{
		"refused after its writes": {func(tx *Tx) error { return errors.Join(insert(90)(tx), refusal) }, fault.StaleAttempt},
		"unique violation":         {func(tx *Tx) error { return errors.Join(insert(91)(tx), insert(1)(tx)) }, nil},
		"panic": {func(tx *Tx) error {
			_ = insert(92)(tx)
			panic("boom")
		}, fault.Internal},
		"panic with open rows": {func(tx *Tx) error {
			rows, _ := tx.Query("SELECT id FROM items")
			rows.Next()
			panic("boom")
		}, fault.Internal},
		"ends the goroutine": {func(tx *Tx) error {
			_, _ = tx.Query("SELECT id FROM items")
			runtime.Goexit()
			return nil
		}, fault.Internal},
		"commits by itself":   {func(tx *Tx) error { _ = insert(93)(tx); _, err := tx.Exec("COMMIT"); return err }, nil},
		"commits and says ok": {func(tx *Tx) error { _, _ = tx.Exec("COMMIT"); return nil }, nil},
		"rolls back and goes on": {func(tx *Tx) error {
			_, _ = tx.Exec("ROLLBACK")
			_ = insert(94)(tx)
			return nil
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, t.TempDir(), nil)
			mustWrite(t, db, insert(1))
			release := held(t, db)
			answers := queue(t, db, context.Background(), insert(2), bad.fn, insert(3))
			release()
			err := <-answers[1]
			if err == nil || bad.want != nil && !errors.Is(err, bad.want) {
				t.Errorf("the bad one answered %v, want %v", err, bad.want)
			}
			for _, i := range []int{0, 2} {
				if err := <-answers[i]; err != nil {
					t.Errorf("operation %d: %v", i, err)
				}
			}
			mustWrite(t, db, insert(4))
			if got := ids(t, db); !slices.Equal(got, []int64{1, 2, 3, 4}) {
				t.Errorf("stored %v", got)
			}
		})
	}
}

// COMMIT without a change before it passes SQLite's hooks; what comes after it must not.
func TestAnOperationCannotCommit(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	err := db.Write(context.Background(), LaneAdmit, func(tx *Tx) error {
		_, _ = tx.Exec("COMMIT")
		_ = insert(1)(tx)
		return nil
	})
	if err == nil {
		t.Error("it was acknowledged")
	}
	mustWrite(t, db, insert(2))
	if got := ids(t, db); !slices.Equal(got, []int64{2}) {
		t.Errorf("stored %v", got)
	}
}

func TestAPanicKeepsItsStackForTheLogOnly(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	err := db.Write(context.Background(), LaneAdmit, func(*Tx) error { panic("boom") })
	if strings.Contains(err.Error(), "boom") {
		t.Errorf("the user would read %q", err)
	}
	if cause := errors.Unwrap(err); cause == nil || !strings.Contains(cause.Error(), "boom") ||
		!strings.Contains(cause.Error(), "TestAPanicKeepsItsStack") {
		t.Errorf("the cause is %v", cause)
	}
}

func TestAQueuedOperationIsCancelled(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	release := held(t, db)
	first := queue(t, db, context.Background(), insert(1))
	gone := queue(t, db, ctx, insert(2))
	last := queue(t, db, context.Background(), insert(3))
	why := errors.New("the caller left")
	cancel(why)
	if err := <-gone[0]; !errors.Is(err, why) { // while the writer is still busy
		t.Errorf("the cancelled one answered %v", err)
	}
	release()
	if err := errors.Join(<-first[0], <-last[0]); err != nil {
		t.Error(err)
	}
	if got := ids(t, db); !slices.Equal(got, []int64{1, 3}) {
		t.Errorf("stored %v", got)
	}
	if err := db.Write(ctx, LaneAdmit, insert(4)); !errors.Is(err, why) {
		t.Errorf("under an ended context: %v", err)
	}
}

func TestARunningOperationIsNotCancelled(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	ctx, cancel := context.WithCancel(context.Background())
	err := db.Write(ctx, LaneAdmit, func(tx *Tx) error {
		cancel()
		return insert(1)(tx)
	})
	if err != nil {
		t.Errorf("answered %v, want the true outcome", err)
	}
	if got := ids(t, db); !slices.Equal(got, []int64{1}) {
		t.Errorf("stored %v", got)
	}
}

// A full database makes SQLite itself roll back the whole transaction in the middle of a batch.
func TestTheOthersRunAgainWhenSQLiteGivesUpTheTransaction(t *testing.T) {
	for name, swallow := range map[string]bool{"reported": false, "swallowed": true} {
		t.Run(name, func(t *testing.T) {
			db := open(t, t.TempDir(), nil)
			var runs [4]int
			counted := func(i int, fn func(*Tx) error) func(*Tx) error {
				return func(tx *Tx) error { runs[i]++; return fn(tx) }
			}
			refusal := errors.New("refused")
			release := held(t, db)
			answers := queue(t, db, context.Background(),
				counted(0, insert(1)),
				counted(1, func(*Tx) error { return refusal }),
				counted(2, func(tx *Tx) error {
					var pages int
					if err := tx.QueryRow("PRAGMA page_count").Scan(&pages); err != nil {
						return err
					}
					var got int
					if err := tx.QueryRow("PRAGMA max_page_count = " + strconv.Itoa(pages+4)).Scan(&got); err != nil {
						return err
					}
					_, err := tx.Exec("INSERT INTO items (id, name) VALUES (50, hex(zeroblob(100000)))")
					if !tx.conn.lost() {
						t.Error("SQLite kept the transaction: this test provokes nothing")
					}
					if swallow {
						if err := insert(51)(tx); !errors.Is(err, errTxGone) {
							t.Errorf("the next statement answered %v", err)
						}
						return nil
					}
					return err
				}),
				counted(3, insert(3)))
			release()
			for i, want := range []error{nil, refusal, fault.DiskFull, nil} {
				err := <-answers[i]
				if i == 2 && swallow {
					want = errTxGone
				}
				if !errors.Is(err, want) {
					t.Errorf("operation %d answered %v, want %v", i, err, want)
				}
			}
			if runs != [4]int{2, 2, 1, 1} {
				t.Errorf("ran %v times", runs)
			}
			if got := ids(t, db); !slices.Equal(got, []int64{1, 3}) {
				t.Errorf("stored %v", got)
			}
		})
	}
}

func TestAFailedCommitIsUnknownToAll(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	release := held(t, db)
	refusal := errors.New("refused")
	answers := queue(t, db, context.Background(), insert(1), func(*Tx) error { return refusal },
		func(tx *Tx) error {
			_, err1 := tx.Exec("PRAGMA defer_foreign_keys = ON")
			_, err2 := tx.Exec("INSERT INTO parts (id, item) VALUES (1, 4711)")
			return errors.Join(err1, err2)
		}, insert(2))
	release()
	for i, a := range answers {
		if err := <-a; !errors.Is(err, fault.Unknown) || errors.Is(err, refusal) {
			t.Errorf("operation %d answered %v", i, err)
		}
	}
	mustWrite(t, db, insert(9))
	if got := ids(t, db); !slices.Equal(got, []int64{9}) {
		t.Errorf("stored %v", got)
	}
}

func TestAnswersLeaveOnlyAfterTheCommit(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir, nil)
	other, err := sql.Open("sqlite", dsn(filepath.Join(dir, fileName), "ro"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close() //nolint:errcheck // only read
	count := func() (n int) {
		if err := other.QueryRow("SELECT count(*) FROM items").Scan(&n); err != nil {
			t.Error(err)
		}
		return n
	}
	refusal := errors.New("refused")
	release := held(t, db)
	var answers []chan error
	blocked, free := make(chan struct{}), make(chan struct{})
	answers = queue(t, db, context.Background(), insert(1), func(*Tx) error { return refusal }, func(*Tx) error {
		close(blocked)
		<-free
		return nil
	})
	release()
	<-blocked
	for i, a := range answers {
		select {
		case err := <-a:
			t.Errorf("operation %d was answered before the commit: %v", i, err)
		default:
		}
	}
	if n := count(); n != 0 {
		t.Errorf("%d rows before the commit", n)
	}
	close(free)
	if err := <-answers[1]; !errors.Is(err, refusal) {
		t.Error(err)
	}
	if n := count(); n != 1 { // the refusal came with the commit of its batch
		t.Errorf("%d rows after the first answer", n)
	}
	if err := errors.Join(<-answers[0], <-answers[2]); err != nil {
		t.Error(err)
	}
}

func TestAnUrgentLaneGoesFirst(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	release := held(t, db)
	var order []Lane // only the writer appends
	done := make(chan error, int(laneCount))
	for lane := laneCount - 1; lane >= 0; lane-- { // the least urgent first
		go func() {
			done <- db.Write(context.Background(), lane, func(*Tx) error { order = append(order, lane); return nil })
		}()
		eventually(t, func() bool { return queued(db, lane) == 1 })
	}
	release()
	for range laneCount {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	if want := []Lane{LaneRenew, LaneFinish, LaneAdmit, LaneTelemetry}; !slices.Equal(order, want) {
		t.Errorf("ran %v", order)
	}
}

func TestTheWriterIsDurableAndChecksReferences(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1"} {
		mustWrite(t, db, func(tx *Tx) error {
			var got string
			err := tx.QueryRow("PRAGMA " + pragma).Scan(&got)
			if got != want {
				t.Errorf("%s is %s, want %s", pragma, got, want)
			}
			return err
		})
	}
}

func TestBackpressureIsPerLaneAndEndsWithTheContext(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	release := held(t, db)
	ctx, cancel := context.WithCancel(context.Background())
	flood := make(chan error, maxQueued+10)
	for range maxQueued + 10 {
		go func() { flood <- db.Write(ctx, LaneTelemetry, func(*Tx) error { return nil }) }()
	}
	eventually(t, func() bool { return queued(db, LaneTelemetry) == maxQueued })
	urgent := queue(t, db, context.Background(), insert(1))
	cancel()
	for range maxQueued + 10 {
		if err := <-flood; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	release()
	if err := <-urgent[0]; err != nil {
		t.Error(err)
	}
	if n := len(db.writer.(*groupWriter).slots[LaneTelemetry]); n != 0 {
		t.Errorf("%d places of the lane are lost", n)
	}
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	dir := t.TempDir()
	db, err := Open(context.Background(), Options{Dir: dir, Migrations: schema()})
	if err != nil {
		t.Fatal(err)
	}
	release := held(t, db)
	answers := queue(t, db, context.Background(), insert(1), insert(2))
	ctx, cancel := context.WithCancelCause(context.Background())
	late := errors.New("no time left")
	cancel(late)
	closing := make(chan error, 1)
	go func() { closing <- db.Close(context.Background()) }()
	<-db.writer.(*groupWriter).stop
	if err := db.Write(context.Background(), LaneAdmit, insert(3)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a write to the closing database answered %v", err)
	}
	release()
	if err := errors.Join(<-answers[0], <-answers[1], <-closing); err != nil {
		t.Error(err)
	}
	if exists(filepath.Join(dir, fileName+"-wal")) {
		t.Error("the write-ahead log is left behind")
	}
	db = open(t, dir, nil)
	if got := ids(t, db); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("stored %v", got)
	}
	release = held(t, db)
	answers = queue(t, db, context.Background(), insert(5))
	if err := db.Close(ctx); !errors.Is(err, late) {
		t.Errorf("close under an ended context: %v", err)
	}
	if err := <-answers[0]; !errors.Is(err, fault.Unavailable) {
		t.Errorf("the queued one answered %v", err)
	}
	release()
}

func TestATxRefusesWhatPostgresWould(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	mustWrite(t, db, insert(1))
	var leaked *Tx
	mustWrite(t, db, func(tx *Tx) error {
		leaked = tx
		rows, err := tx.Query("SELECT id FROM items")
		if err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM items"); !errors.Is(err, errRowsOpen) {
			t.Errorf("with open rows: %v", err)
		}
		if err := rows.Close(); err != nil {
			return err
		}
		var n int
		if err := tx.QueryRow("SELECT 1 FROM items WHERE id = $1", 2).Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			t.Errorf("no row: %v", err)
		}
		if err := insert(1)(tx); !isUnique(err) {
			t.Errorf("a second id 1: %v", err)
		}
		tx.QueryRow("SELECT 1") // never scanned: the engine closes it
		return nil
	})
	if _, err := leaked.Exec("DELETE FROM items"); !errors.Is(err, errTxOver) {
		t.Errorf("after its end: %v", err)
	}
	if _, err := db.Query(context.Background(), "DELETE FROM items RETURNING id"); err == nil {
		t.Error("a reader wrote")
	}
}

func TestStatementsOfAnyNumberAreRun(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	mustWrite(t, db, func(tx *Tx) error {
		for i := range maxStmts * 2 {
			if _, err := tx.Exec("INSERT INTO items (id, name) VALUES ("+strconv.Itoa(i)+", $1 || $1)", strconv.Itoa(i)); err != nil {
				return err
			}
		}
		return nil
	})
	if n := len(db.writer.(*groupWriter).conn.stmts); n > maxStmts {
		t.Errorf("%d statements are kept", n)
	}
	if n := len(ids(t, db)); n != maxStmts*2 {
		t.Errorf("stored %d", n)
	}
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b?c%20#[x]", "data")
	db := open(t, dir, clock.System)
	mustWrite(t, db, insert(1))
	if m := mode(t, dir); m != 0o700 {
		t.Errorf("folder %o", m)
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
		if m := mode(t, dir, e.Name()); m != 0o600 {
			t.Errorf("%s %o", e.Name(), m)
		}
	}
	if want := []string{fileName, fileName + "-shm", fileName + "-wal", lockName}; !slices.Equal(names, want) {
		t.Errorf("the folder holds %q", names)
	}
}

// isUnique tells whether err is the violation of a PRIMARY KEY or UNIQUE constraint.
func isUnique(err error) bool {
	code := resultCode(err)
	return code == sqlite3.SQLITE_CONSTRAINT_UNIQUE || code == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY || code == sqlite3.SQLITE_CONSTRAINT_ROWID
}
