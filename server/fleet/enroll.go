package serverfleet

import (
	"context"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/auth"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

// Enroll trades a bootstrap key, already proved, for the credential of one new machine. The group and
// role are the key's; what the machine says must agree, so that a line pasted on the wrong box is seen.
func (s *Service) Enroll(ctx context.Context, key auth.Principal, req fleet.EnrollRequest) (fleet.EnrollResponse, error) {
	if req.Runtime == "" {
		req.Runtime = fleet.LlamaCpp
	}
	if !req.Runtime.Valid() {
		return fleet.EnrollResponse{}, fault.New(fault.Invalid, "runtime %q is neither %s nor %s", req.Runtime, fleet.LlamaCpp, fleet.MLXLM).WithField("runtime")
	}
	if err := fleet.CheckName("name", req.Name); err != nil {
		return fleet.EnrollResponse{}, err
	}
	if req.Role != key.Role {
		return fleet.EnrollResponse{}, fault.New(fault.ScopeDenied, "this key enrolls machines of role %s, not %s", key.Role, req.Role).WithField("role").
			WithHint("use the line for role %s: interlock models key rotate %s --group %s", req.Role, req.Role, key.Group)
	}
	var out fleet.EnrollResponse
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		if err := auth.StillValid(tx, key); err != nil {
			return err
		}
		g, err := groupOf(tx, key.Project, key.Group)
		if err != nil {
			return err
		}
		if req.Group != g.ID && req.Group != g.Name {
			return fault.New(fault.ScopeDenied, "this key belongs to group %s (%s), not to %q", g.Name, g.ID, req.Group).WithField("group").
				WithHint("check --group, or print the line of the other group: interlock models key rotate %s", key.Role)
		}
		now := tx.Now()
		first := fleet.Heartbeat{Version: req.Version, HostID: req.HostID, Host: req.Host}
		trim(&first)
		report, err := text(first)
		if err != nil {
			return err
		}
		out = fleet.EnrollResponse{
			Machine:  ident.New("mch", now),
			Identity: fleet.Identity{Group: g.ID, GroupName: g.Name, Project: g.Project, Role: key.Role, Runtime: req.Runtime},
		}
		if _, err := tx.Exec(`INSERT INTO machines (id, name, project, model_group, role, runtime, host_id, mode, desired_version, report, enrolled_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 1, $9, $10)`,
			out.Machine, req.Name, g.Project, g.ID, string(key.Role), string(req.Runtime), first.HostID, string(fleet.Active), report, now.UnixMilli()); err != nil {
			return err
		}
		out.Credential, err = auth.NewMachineCredential(tx, g.Project, g.ID, key.Role, out.Machine, req.Name)
		return err
	})
	if err == nil {
		s.hints.Publish(hints.Machines(out.Project))
	}
	return out, err
}

// Self is the identity of a machine.
func (s *Service) Self(ctx context.Context, id string) (fleet.Identity, error) {
	m, err := byID(s.db.Reader(ctx), s.db.Now(), id)
	return fleet.Identity{Group: m.Group, GroupName: m.GroupName, Project: m.Project, Role: m.Role, Runtime: m.Runtime}, err
}

// Desired computes the desired state of a machine. A role or runtime that serves no models gets none.
func (s *Service) Desired(ctx context.Context, id string) (fleet.Desired, error) {
	return desiredOf(s.db.Reader(ctx), s.db.Now, id)
}
