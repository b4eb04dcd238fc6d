package serverfleet

import (
	"context"
	"database/sql"
	"errors"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/auth"
	"interlock.sh/server/store"
)

const groupColumns = `g.id, g.name, g.project, g.created_at,
	(SELECT COUNT(*) FROM machines m WHERE m.model_group = g.id AND m.revoked_at IS NULL),
	(SELECT COUNT(*) FROM releases r WHERE r.model_group = g.id)`

func scanGroup(r store.Scanner) (fleet.Group, error) {
	var g fleet.Group
	var created int64
	err := r.Scan(&g.ID, &g.Name, &g.Project, &created, &g.Machines, &g.Releases)
	g.CreatedAt = at(created)
	return g, err
}

// Register makes a group with its two bootstrap keys. Its id is a slug of the name with six random
// characters, so that groups of several origins cannot collide on one machine.
func (s *Service) Register(ctx context.Context, project string, req fleet.NewGroupRequest) (fleet.NewGroup, error) {
	if err := fleet.CheckName("name", req.Name); err != nil {
		return fleet.NewGroup{}, err
	}
	var out fleet.NewGroup
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		now := tx.Now()
		out = fleet.NewGroup{Group: fleet.Group{ID: ident.Slug(req.Name) + "-" + ident.Suffix(6), Name: req.Name, Project: project, CreatedAt: now}}
		res, err := tx.Exec("INSERT INTO model_groups (id, name, project, created_at) VALUES ($1, $2, $3, $4) ON CONFLICT (project, name) DO NOTHING",
			out.Group.ID, req.Name, project, now.UnixMilli())
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil {
			return err
		} else if n == 0 {
			return fault.New(fault.Conflict, "project %s has a model group named %q already", project, req.Name).WithField("name").
				WithHint("use it with --group, or choose another name")
		}
		for _, role := range []fleet.Role{fleet.RoleClient, fleet.RoleTrainer} {
			key, err := auth.NewBootstrapKey(tx, project, out.Group.ID, role)
			if err != nil {
				return err
			}
			out.Keys = append(out.Keys, key)
		}
		return nil
	})
	return out, err
}

// Groups lists a project's groups by name.
func (s *Service) Groups(ctx context.Context, project string) ([]fleet.Group, error) {
	rows, err := s.db.Query(ctx, "SELECT "+groupColumns+" FROM model_groups g WHERE g.project = $1 ORDER BY g.name", project)
	return store.All(rows, err, scanGroup)
}

// Group finds a project's group by name or id.
func (s *Service) Group(ctx context.Context, project, group string) (fleet.Group, error) {
	return groupOf(s.db.Reader(ctx), project, group)
}

func groupOf(q store.Querier, project, group string) (fleet.Group, error) {
	g, err := scanGroup(q.QueryRow("SELECT "+groupColumns+" FROM model_groups g WHERE g.project = $1 AND (g.id = $2 OR g.name = $2) ORDER BY g.id = $2 DESC LIMIT 1", project, group))
	if errors.Is(err, sql.ErrNoRows) {
		return g, fault.New(fault.NotFound, "project %s has no model group %q", project, group).WithField("group").
			WithHint("list them: interlock models status; make one: interlock models register")
	}
	return g, err
}

// RotateKey replaces a role's bootstrap key. Machines that enrolled before go on.
func (s *Service) RotateKey(ctx context.Context, project, group string, role fleet.Role) (fleet.Group, fleet.BootstrapKey, error) {
	if !role.Valid() {
		return fleet.Group{}, fleet.BootstrapKey{}, fault.New(fault.Invalid, "role %q is neither client nor trainer", role).WithField("role")
	}
	var g fleet.Group
	var key fleet.BootstrapKey
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) (err error) {
		if g, err = groupOf(tx, project, group); err != nil {
			return err
		}
		key, err = auth.NewBootstrapKey(tx, project, g.ID, role)
		return err
	})
	return g, key, err
}

// Keys lists a group's bootstrap keys, newest first.
func (s *Service) Keys(ctx context.Context, project, group string) ([]fleet.BootstrapKeyView, error) {
	g, err := s.Group(ctx, project, group)
	if err != nil {
		return nil, err
	}
	return auth.BootstrapKeys(s.db.Reader(ctx), g.ID)
}

// Status is a group at a glance.
func (s *Service) Status(ctx context.Context, project, group string) (fleet.Status, error) {
	var out fleet.Status
	var err error
	q := s.db.Reader(ctx)
	if out.Group, err = groupOf(q, project, group); err != nil {
		return out, err
	}
	if out.Keys, err = auth.BootstrapKeys(q, out.Group.ID); err != nil {
		return out, err
	}
	if out.Releases, err = releasesOf(q, out.Group.ID); err != nil {
		return out, err
	}
	all, err := s.Machines(ctx, project)
	if err != nil {
		return out, err
	}
	out.Machines = []fleet.Machine{}
	for _, m := range all {
		if m.Group == out.Group.ID {
			out.Machines = append(out.Machines, m)
		}
	}
	if out.Deployments, err = deploymentsOf(q, out.Group.ID); err != nil {
		return out, err
	}
	countReady(out.Deployments, all)
	out.Channels, err = channelsOf(q, out.Group.ID)
	return out, err
}

func countReady(ds []fleet.Deployment, ms []fleet.Machine) {
	for i := range ds {
		for _, m := range ms {
			for _, r := range m.Deployments {
				if r.ID == ds[i].ID && r.State.Serving() && m.State.Serving() {
					ds[i].Ready++
				}
			}
		}
	}
}
