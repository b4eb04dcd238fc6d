package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
)

// TestMoreTextsThanAreKept reads with more texts than are prepared, from several goroutines: each gets
// the answer of its own text.
func TestMoreTextsThanAreKept(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	mustWrite(t, db, insert(1))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for n := range maxStmts + 20 {
				var got int
				text := fmt.Sprintf("SELECT $1 + %d FROM items", n)
				if err := db.QueryRow(context.Background(), text, 1000).Scan(&got); err != nil || got != 1000+n {
					t.Errorf("%s: %d, %v", text, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if n := len(db.read.all); n < maxStmts || n > maxStmts+4 {
		t.Errorf("%d texts are kept, want about %d", n, maxStmts)
	}
}

// TestAReadThatIsGivenUpSpoilsNoOther ends one read's context: the statement goes on serving others.
func TestAReadThatIsGivenUpSpoilsNoOther(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	mustWrite(t, db, insert(1))
	const text = "SELECT id FROM items"
	ctx, cancel := context.WithCancel(context.Background())
	for range 50 {
		rows, err := db.Query(ctx, text)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
		if err == nil {
			_ = rows.Close()
		}
		var id int
		if err := db.QueryRow(context.Background(), text).Scan(&id); err != nil || id != 1 {
			t.Fatalf("%d, %v", id, err)
		}
		ctx, cancel = context.WithCancel(context.Background())
	}
	cancel()
}
