package servertasks

import (
	"context"

	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Census is how many tasks of a project stand in each live state, for its metrics. Ended ones are not
// counted: there may be millions.
func (s *Service) Census(ctx context.Context, project string) (map[tasks.State]int64, error) {
	all := map[tasks.State]int64{tasks.Scheduled: 0, tasks.Queued: 0, tasks.Leased: 0, tasks.Running: 0}
	rows, err := s.db.Query(ctx, `SELECT state, COUNT(*) FROM tasks WHERE project = $1
		AND state IN ('scheduled', 'queued', 'leased', 'running') GROUP BY state`, project)
	_, err = store.All(rows, err, func(row store.Scanner) (struct{}, error) {
		var state tasks.State
		var n int64
		err := row.Scan(&state, &n)
		all[state] = n
		return struct{}{}, err
	})
	return all, wrap("count live tasks", err)
}
