package serverai

import (
	"context"
	"fmt"
	"time"

	"interlock.sh/server/store"
)

const (
	// requestGrace is how long a run's body is kept after the run ended. It is also longer than any
	// request takes from storing a body to committing its run.
	requestGrace = 24 * time.Hour
	collectPage  = 100 // bodies at once
	collectRows  = 500 // runs changed in one commit, so that nobody waits long for the writer
)

// Collect deletes the bodies of runs that ended more than a day before now, unless another run that is
// not over as long, or a file of a project, is the same bytes. It returns how many it deleted.
func (s *Service) Collect(ctx context.Context, now time.Time) (int, error) {
	cutoff := now.Add(-requestGrace)
	deleted, after := 0, ""
	for {
		digests, err := s.uncollected(ctx, cutoff, after)
		if err != nil || len(digests) == 0 {
			return deleted, wrapCollect(err)
		}
		after = digests[len(digests)-1]
		var gone []string
		for _, d := range digests {
			did, err := s.files.Delete(d, cutoff)
			if err != nil {
				return deleted, wrapCollect(err)
			}
			if did {
				deleted++
			}
			// One that is still there was stored again lately, by a request on its way to a run of its own.
			if there, err := s.files.Has(d); err != nil {
				return deleted, wrapCollect(err)
			} else if !there {
				gone = append(gone, d)
			}
		}
		if err := s.forget(ctx, gone, cutoff); err != nil {
			return deleted, wrapCollect(err)
		}
	}
}

func wrapCollect(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("collect bodies of runs: %w", err)
}

// uncollected is a page of digests, in their order, that only runs use which ended before the cutoff.
func (s *Service) uncollected(ctx context.Context, cutoff time.Time, after string) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT r.request_sha256 FROM runs r JOIN tasks t ON t.id = r.task WHERE r.request_sha256 > $1
		GROUP BY r.request_sha256 HAVING MIN(t.ended_at) > 0 AND MAX(t.ended_at) <= $2
			AND NOT EXISTS (SELECT 1 FROM file_owners f WHERE f.sha256 = r.request_sha256)
		ORDER BY r.request_sha256 LIMIT $3`, after, cutoff.UnixMilli(), collectPage)
	return store.All(rows, err, func(r store.Scanner) (string, error) {
		var d string
		return d, r.Scan(&d)
	})
}

// forget takes the digests out of the runs that are over. A run that came with the same bytes meanwhile
// stored them anew and keeps its digest.
func (s *Service) forget(ctx context.Context, digests []string, cutoff time.Time) error {
	for left := int64(0); left == 0 && len(digests) > 0; {
		err := s.db.Write(ctx, store.LaneTelemetry, func(tx *store.Tx) error {
			left = collectRows
			for _, d := range digests {
				res, err := tx.Exec(`UPDATE runs SET request_sha256 = '' WHERE id IN (SELECT r.id FROM runs r JOIN tasks t ON t.id = r.task
					WHERE r.request_sha256 = $1 AND t.ended_at > 0 AND t.ended_at <= $2 LIMIT $3)`, d, cutoff.UnixMilli(), left)
				if err != nil {
					return err
				}
				n, err := res.RowsAffected()
				if err != nil {
					return err
				}
				if left -= n; left <= 0 {
					break
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
