package auth

import (
	"context"
	"fmt"
	"slices"

	"interlock.sh/access"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

// NewKey makes a key of one of access.ProjectKinds for a project.
func (s *Service) NewKey(ctx context.Context, project string, req access.NewKeyRequest) (access.NewKey, error) {
	if !slices.Contains(access.ProjectKinds, req.Kind) {
		return access.NewKey{}, fault.New(fault.Invalid, "kind %q is none of %v", req.Kind, access.ProjectKinds).WithField("kind").
			WithHint("bootstrap keys of machines come from: interlock models key rotate")
	}
	if err := fleet.CheckName("label", req.Label); err != nil {
		return access.NewKey{}, err
	}
	var out access.NewKey
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		if _, err := projectOf(tx, project); err != nil {
			return err
		}
		secret, c, err := mint(tx, keyPrefix, Principal{Kind: req.Kind, Label: req.Label, Project: project}, 0)
		out = access.NewKey{KeyView: c.view(), Key: secret}
		return err
	})
	return out, err
}

// RollKey makes a successor of the same kind and label. A worker's old key stays valid until it is
// revoked, so that the worker can be moved over; any other is revoked in the same commit.
func (s *Service) RollKey(ctx context.Context, project, id string) (access.NewKey, error) {
	var out access.NewKey
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		old, err := keyOf(tx, project, id)
		if err != nil {
			return err
		}
		if old.revokedAt != nil {
			return fault.New(fault.Conflict, "key %s is revoked already", id).WithHint("make a new one: interlock keys new --kind %s", old.Kind)
		}
		if old.Kind != access.TaskWorker {
			if err := revoke(tx, id); err != nil {
				return err
			}
		}
		secret, c, err := mint(tx, keyPrefix, Principal{Kind: old.Kind, Label: old.Label, Project: project}, 0)
		out = access.NewKey{KeyView: c.view(), Key: secret}
		return err
	})
	if err == nil {
		s.hints.Publish(hints.Key(id))
	}
	return out, err
}

// RevokeKey ends a key at once, with what is open under it. Revoking it again changes nothing.
func (s *Service) RevokeKey(ctx context.Context, project, id string) (access.KeyView, error) {
	var out access.KeyView
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		if _, err := keyOf(tx, project, id); err != nil {
			return err
		}
		if err := revoke(tx, id); err != nil {
			return err
		}
		c, err := keyOf(tx, project, id)
		out = c.view()
		return err
	})
	if err == nil {
		s.hints.Publish(hints.Key(id))
	}
	return out, err
}

func revoke(tx *store.Tx, id string) error {
	if _, err := tx.Exec("UPDATE credentials SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL", tx.Now().UnixMilli(), id); err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	return nil
}

// Keys lists a project's keys, newest first, revoked ones included.
func (s *Service) Keys(ctx context.Context, project string) ([]access.KeyView, error) {
	rows, err := s.db.Query(ctx, "SELECT "+credentialColumns+" FROM credentials WHERE project = $1 AND kind IN ('sdk', 'task-producer', 'task-worker', 'metrics') ORDER BY created_at DESC, id DESC", project)
	return store.All(rows, err, func(r store.Scanner) (access.KeyView, error) {
		c, err := scanCredential(r)
		return c.view(), err
	})
}
