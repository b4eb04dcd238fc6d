package serverfleet

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/auth"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

const machineColumns = `m.id, m.name, m.project, m.model_group, g.name, m.role, m.runtime, m.host_id, m.mode, m.desired_version,
	m.report, m.instance, m.prior_instance, m.conflict, m.conflict_at, m.enrolled_at, m.last_seen_at, m.revoked_at`
const machineFrom = " FROM machines m JOIN model_groups g ON g.id = m.model_group "

// machine is one row: the wire type with what only the server knows.
type machine struct {
	fleet.Machine
	hostID, instance, prior string
	desiredVersion          int64
	report                  fleet.Heartbeat
	conflict                string
	conflictAt              *time.Time
}

func scanMachine(now time.Time) func(store.Scanner) (machine, error) {
	return func(r store.Scanner) (machine, error) {
		var m machine
		var report string
		var enrolled int64
		var conflictAt, seen, revoked *int64
		if err := r.Scan(&m.ID, &m.Name, &m.Project, &m.Group, &m.GroupName, &m.Role, &m.Runtime, &m.hostID, &m.Mode, &m.desiredVersion,
			&report, &m.instance, &m.prior, &m.conflict, &conflictAt, &enrolled, &seen, &revoked); err != nil {
			return m, err
		}
		if err := json.Unmarshal([]byte(report), &m.report); err != nil {
			return m, err
		}
		m.EnrolledAt, m.LastSeen, m.RevokedAt, m.conflictAt = at(enrolled), maybe(seen), maybe(revoked), maybe(conflictAt)
		m.Version, m.Host, m.Server, m.Warnings = m.report.Version, m.report.Host, m.report.Server, m.report.Warnings
		m.Hours, m.Update = m.report.Hours, m.report.Update
		m.Deployments = m.report.Deployments
		if m.Deployments == nil {
			m.Deployments = []fleet.DeploymentReport{}
		}
		m.State = m.state(now)
		return m, nil
	}
}

// state is the machine's state in words, from its own report and from what only the server sees.
func (m machine) state(now time.Time) fleet.State {
	switch {
	case m.LastSeen == nil:
		return fleet.State{Kind: fleet.StateEnrolling}
	case now.Sub(*m.LastSeen) > fleet.SeenFor:
		return fleet.State{Kind: fleet.StateOffline}
	case m.conflictAt != nil && now.Sub(*m.conflictAt) <= fleet.SeenFor:
		return fleet.State{Kind: fleet.StateBlocked, Detail: m.conflict}
	case m.Mode != fleet.Active && m.report.State.Serving():
		return fleet.State{Kind: fleet.StateDraining}
	}
	return m.report.State
}

// Machines lists a project's machines by name, revoked ones left out.
func (s *Service) Machines(ctx context.Context, project string) ([]fleet.Machine, error) {
	rows, err := s.db.Query(ctx, "SELECT "+machineColumns+machineFrom+"WHERE m.project = $1 AND m.revoked_at IS NULL ORDER BY m.name, m.id", project)
	ms, err := store.All(rows, err, scanMachine(s.db.Now()))
	out := make([]fleet.Machine, len(ms))
	for i, m := range ms {
		out[i] = m.Machine
	}
	return out, err
}

// find reads a project's machine by id, or by a name that only one machine has.
func find(q store.Querier, now time.Time, project, id string) (machine, error) {
	rows, err := q.Query("SELECT "+machineColumns+machineFrom+"WHERE m.project = $1 AND (m.id = $2 OR m.name = $2 AND m.revoked_at IS NULL) ORDER BY m.id = $2 DESC LIMIT 3", project, id)
	ms, err := store.All(rows, err, scanMachine(now))
	switch {
	case err != nil:
		return machine{}, err
	case len(ms) == 0:
		return machine{}, fault.New(fault.NotFound, "project %s has no machine %q", project, id).WithHint("list them: interlock models machine list")
	case ms[0].ID != id && len(ms) > 1:
		return machine{}, fault.New(fault.Invalid, "several machines are named %q", id).WithField("machine").WithHint("use the id: interlock models machine list")
	}
	return ms[0], nil
}

// Machine reads one machine with its recent telemetry, oldest sample first.
func (s *Service) Machine(ctx context.Context, project, id string) (fleet.MachineDetail, error) {
	m, err := find(s.db.Reader(ctx), s.db.Now(), project, id)
	if err != nil {
		return fleet.MachineDetail{}, err
	}
	rows, err := s.db.Query(ctx, "SELECT at, tokens_per_second, busy, slots, memory_free FROM samples WHERE machine = $1 ORDER BY at DESC LIMIT 240", m.ID)
	samples, err := store.All(rows, err, func(r store.Scanner) (fleet.Sample, error) {
		var p fleet.Sample
		var when int64
		err := r.Scan(&when, &p.TokensPerSecond, &p.Busy, &p.Slots, &p.MemoryFree)
		p.At = at(when)
		return p, err
	})
	for i, j := 0, len(samples)-1; i < j; i, j = i+1, j-1 {
		samples[i], samples[j] = samples[j], samples[i]
	}
	if samples == nil {
		samples = []fleet.Sample{}
	}
	return fleet.MachineDetail{Machine: m.Machine, Samples: samples}, err
}

// SetMode pauses, drains or resumes one machine.
func (s *Service) SetMode(ctx context.Context, project, id string, mode fleet.Mode) (fleet.Machine, error) {
	return s.change(ctx, project, id, func(tx *store.Tx, m machine) error {
		if m.RevokedAt != nil {
			return fault.New(fault.Conflict, "machine %s was revoked", m.ID).WithHint("enroll it again with a fresh key: interlock models key rotate %s --group %s", m.Role, m.Group)
		}
		_, err := tx.Exec("UPDATE machines SET mode = $1, desired_version = desired_version + 1 WHERE id = $2 AND mode <> $1", string(mode), m.ID)
		return err
	})
}

// Revoke removes one machine: its credential ends at once, its name stays in the history.
func (s *Service) Revoke(ctx context.Context, project, id string) (fleet.Machine, error) {
	return s.change(ctx, project, id, func(tx *store.Tx, m machine) error {
		if err := auth.RevokeMachine(tx, m.ID); err != nil {
			return err
		}
		_, err := tx.Exec("UPDATE machines SET revoked_at = $1, desired_version = desired_version + 1 WHERE id = $2 AND revoked_at IS NULL", tx.Now().UnixMilli(), m.ID)
		return err
	})
}

func (s *Service) change(ctx context.Context, project, id string, fn func(*store.Tx, machine) error) (fleet.Machine, error) {
	var m machine
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) (err error) {
		if m, err = find(tx, tx.Now(), project, id); err != nil {
			return err
		}
		if err := fn(tx, m); err != nil {
			return err
		}
		m, err = find(tx, tx.Now(), project, m.ID)
		return err
	})
	if err == nil {
		s.hints.Publish(hints.Machine(m.ID))
		s.hints.Publish(hints.Machines(project))
	}
	return m.Machine, err
}

// byID reads a machine for its own credential.
func byID(q store.Querier, now time.Time, id string) (machine, error) {
	m, err := scanMachine(now)(q.QueryRow("SELECT "+machineColumns+machineFrom+"WHERE m.id = $1", id))
	if errors.Is(err, sql.ErrNoRows) {
		return m, fault.New(fault.Revoked, "machine %s is not enrolled any more", id).WithHint("enroll again with a fresh key")
	}
	return m, err
}
