package serverfleet

import (
	"context"

	"interlock.sh/server/store"
)

// Own records that a project stored bytes; only then may it make releases of them or read them.
func (s *Service) Own(ctx context.Context, project, sha256 string, size int64) error {
	return s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		return Own(tx, project, sha256, size)
	})
}

// Own is the same inside a caller's operation.
func Own(tx *store.Tx, project, sha256 string, size int64) error {
	_, err := tx.Exec("INSERT INTO file_owners (project, sha256, size, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
		project, sha256, size, tx.Now().UnixMilli())
	return err
}

// Owns reports whether a project stored these bytes.
func (s *Service) Owns(ctx context.Context, project, sha256 string) (bool, error) {
	var n int
	err := s.db.QueryRow(ctx, "SELECT COUNT(*) FROM file_owners WHERE project = $1 AND sha256 = $2", project, sha256).Scan(&n)
	return n > 0, err
}
