package servertasks

import (
	"context"
	"strings"
	"testing"

	"interlock.sh/server/store"
)

// The statements that run all the time must go through their index; the claim must need nothing else.
func TestQueryPlans(t *testing.T) {
	t.Parallel()
	db, err := store.Open(context.Background(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	for name, c := range map[string]struct {
		query string
		args  []any
		want  string
	}{
		"claim": {claimQuery, []any{"p", "t", 1, "default", 0, 2}, "USING COVERING INDEX tasks_claim"},
		"due":   {dueQuery, []any{0, 1}, "USING INDEX tasks_due"},
		"late":  {lateQuery, []any{0, 1}, "USING INDEX tasks_deadline"},
		"lost":  {lostQuery, []any{0, 1}, "USING INDEX tasks_lease"},
		"held":  {workerQuery + " AND worker_id = $2", []any{"p", "w"}, "USING INDEX tasks_holder"},
		"next":  {nextQuery, nil, "USING INDEX tasks_lease"},
	} {
		rows, err := db.Query(context.Background(), "EXPLAIN QUERY PLAN "+c.query, c.args...)
		steps, err := store.All(rows, err, func(row store.Scanner) (step string, err error) {
			var id, parent, unused int
			return step, row.Scan(&id, &parent, &unused, &step)
		})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		plan := strings.Join(steps, "; ")
		if !strings.Contains(plan, c.want) || strings.Contains(plan, "TEMP B-TREE") || strings.Contains(plan, "SCAN tasks;") {
			t.Errorf("%s: %s; want %s", name, plan, c.want)
		}
	}
}
