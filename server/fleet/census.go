package serverfleet

import (
	"context"

	"interlock.sh/fleet"
)

// Census counts the enrolled machines of a project, for its metrics.
func (s *Service) Census(ctx context.Context, project string) (online, offline int64, err error) {
	seen := s.db.Now().Add(-fleet.SeenFor).UnixMilli()
	err = s.db.QueryRow(ctx, `SELECT COALESCE(SUM(CASE WHEN last_seen_at >= $1 THEN 1 ELSE 0 END), 0), COUNT(*)
		FROM machines WHERE revoked_at IS NULL AND project = $2`, seen, project).Scan(&online, &offline)
	return online, offline - online, err
}
