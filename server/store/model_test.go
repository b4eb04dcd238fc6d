package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"interlock.sh/fault"
)

// Any sequence of batches of good, refused, panicking, cancelled and transaction-losing operations
// leaves what a model of one operation at a time leaves, and each gets the answer of its kind.
func TestAnyBatchEqualsTheModel(t *testing.T) {
	db := open(t, t.TempDir(), nil)
	refusal := errors.New("refused")
	next := int64(0)
	var model []int64
	rapid.Check(t, func(rt *rapid.T) {
		for _, kinds := range rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom(
			[]string{"ok", "ok", "refuse", "panic", "cancel", "lose", "duplicate"}), 1, 8), 1, 3).Draw(rt, "batches") {
			ctx, cancel := context.WithCancel(context.Background())
			release := held(t, db)
			var answers []chan error
			wants := make([]error, len(kinds))
			for i, kind := range kinds {
				next++
				id, opCtx, after := next, context.Background(), error(nil)
				fn := insert(id)
				switch kind {
				case "ok":
					model = append(model, id)
				case "refuse":
					after, wants[i] = refusal, refusal
				case "panic":
					wants[i] = fault.Internal
					fn = func(tx *Tx) error { _ = insert(id)(tx); panic("boom") }
				case "cancel":
					opCtx, wants[i] = ctx, context.Canceled
				case "lose": // what SQLite does by itself on a full disk
					wants[i] = errTxGone
					fn = func(tx *Tx) error { _, _ = tx.Exec("ROLLBACK"); return nil }
				case "duplicate":
					wants[i] = errDuplicate
					fn = func(tx *Tx) error {
						if err := errors.Join(insert(id)(tx), insert(id)(tx)); isUnique(err) {
							return errDuplicate
						}
						return nil
					}
				}
				answers = append(answers, queue(t, db, opCtx, func(tx *Tx) error { return errors.Join(fn(tx), after) })...)
			}
			cancel()
			for i, kind := range kinds {
				if kind == "cancel" {
					if err := <-answers[i]; !errors.Is(err, wants[i]) {
						rt.Fatalf("%d (cancel) answered %v", i, err)
					}
				}
			}
			release()
			for i, kind := range kinds {
				if kind == "cancel" {
					continue
				}
				if err := <-answers[i]; !errors.Is(err, wants[i]) {
					rt.Fatalf("%d (%s) answered %v, want %v", i, kind, err, wants[i])
				}
			}
		}
		if got := ids(t, db); !slices.Equal(got, model) {
			rt.Fatalf("stored %v, want %v", got, model)
		}
	})
}

var errDuplicate = errors.New("duplicate")
