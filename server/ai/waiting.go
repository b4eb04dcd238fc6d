package serverai

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // the zones of machines, on a server that has none

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// maxNamed is how many machines a reason names.
const maxNamed = 3

// explain says of each waiting run what it waits for, as the fleet stands now.
func (s *Service) explain(ctx context.Context, project string, runs ...*ai.Run) error {
	runs = slices.DeleteFunc(runs, func(r *ai.Run) bool { return r.Waiting == nil })
	if len(runs) == 0 {
		return nil
	}
	eligible, err := s.eligible(ctx, project)
	if err != nil {
		return err
	}
	machines, err := s.fleet.Machines(ctx, project)
	if err != nil {
		return err
	}
	sites := map[string]site{}
	for _, r := range runs {
		p, known := sites[r.DeploymentID]
		if !known {
			if p, err = s.siteOf(ctx, r.DeploymentID); err != nil {
				return err
			}
			p.ready = eligible(fleet.Deployment{ID: r.DeploymentID, RetiredAt: p.retired}) > 0
			sites[r.DeploymentID] = p
		}
		r.Waiting.Reason, r.Waiting.NotBefore = p.reason(r.Deployment, machines, s.db.Now())
	}
	return nil
}

func pointers(runs []ai.Run) []*ai.Run {
	out := make([]*ai.Run, len(runs))
	for i := range runs {
		out[i] = &runs[i]
	}
	return out
}

// site is where the runs of a deployment go.
type site struct {
	group, groupName string
	retired          *time.Time
	ready            bool // an eligible machine serves it
	hardware         bool // of the project's own, without a deployment
}

func (s *Service) siteOf(ctx context.Context, deployment string) (site, error) {
	var p site
	if _, p.hardware = ai.HardwareAlias(deployment); p.hardware {
		return p, nil
	}
	var retired sql.NullInt64 // of one that is deployed
	err := s.db.QueryRow(ctx, "SELECT g.id, g.name, d.retired_at FROM deployments d JOIN model_groups g ON g.id = d.model_group WHERE d.id = $1", deployment).
		Scan(&p.group, &p.groupName, &retired)
	p.retired = maybe(retired.Int64)
	if err != nil {
		return p, fmt.Errorf("read deployment %s: %w", deployment, err)
	}
	return p, nil
}

// reason is why a run of a deployment does not start, in words, and when the clock alone changes that.
func (p site) reason(alias string, machines []fleet.Machine, now time.Time) (string, *time.Time) {
	switch {
	case p.retired != nil:
		return "deployment " + alias + " was retired", nil
	case p.ready:
		return "a free slot", nil
	case p.hardware:
		return "no worker of your hardware serves " + alias + " now", nil
	}
	var mine []fleet.Machine
	for _, m := range machines {
		if m.Group == p.group && m.Role == fleet.RoleClient && m.RevokedAt == nil {
			mine = append(mine, m)
		}
	}
	if len(mine) == 0 {
		return "no machine of group " + p.groupName + " is enrolled", nil
	}
	if m, found := opensFirst(mine, now); found {
		words := "about " + localTime(*m.Hours.Next, m.Host.Zone, now) + ", " + m.Name + "'s hours"
		if m.State.Kind == fleet.StateOffline {
			words += " (it is offline now)"
		}
		return words, m.Hours.Next
	}
	return states(mine), nil
}

// opensFirst is the machine whose hours begin next by the clock alone; one that is there goes before one
// that is offline.
func opensFirst(machines []fleet.Machine, now time.Time) (first fleet.Machine, found bool) {
	before := func(a, b fleet.Machine) int {
		away := func(m fleet.Machine) int {
			if m.State.Kind == fleet.StateOffline {
				return 1
			}
			return 0
		}
		return cmp.Or(cmp.Compare(away(a), away(b)), a.Hours.Next.Compare(*b.Hours.Next), strings.Compare(a.Name, b.Name))
	}
	for _, m := range machines {
		h := m.Hours
		if m.Mode != fleet.Active || h == nil || h.Open || h.Next == nil || !h.Next.After(now) {
			continue
		}
		if !found || before(m, first) < 0 {
			first, found = m, true
		}
	}
	return first, found
}

// localTime is a time as the machine's owner reads it: the hour alone within a day.
func localTime(t time.Time, zone string, now time.Time) string {
	if loc, err := time.LoadLocation(zone); err == nil && zone != "" && zone != "Local" {
		t = t.In(loc)
	} // else as the machine wrote it, with its own offset
	switch d := t.Sub(now); {
	case d < 24*time.Hour:
		return t.Format("15:04")
	case d < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	}
	return t.Format("2 Jan 15:04")
}

// states is what the machines say of themselves, those that are nearest to serving first.
func states(machines []fleet.Machine) string {
	order := []fleet.StateKind{
		fleet.StateReady, fleet.StateFull, fleet.StateLoading, fleet.StateDownloading, fleet.StateIdle, fleet.StateDraining,
		fleet.StateBlocked, fleet.StateParked, fleet.StatePaused, fleet.StateEnrolling, fleet.StateOffline, fleet.StateUnsupported,
	}
	rank := func(m fleet.Machine) int { return slices.Index(order, m.State.Kind) }
	slices.SortStableFunc(machines, func(a, b fleet.Machine) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), strings.Compare(a.Name, b.Name))
	})
	var parts []string
	for _, m := range machines[:min(len(machines), maxNamed)] {
		words := m.State.String()
		if m.Mode == fleet.Paused && m.State.Kind != fleet.StateOffline {
			words = fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByServer}.String()
		}
		parts = append(parts, m.Name+" is "+words)
	}
	if more := len(machines) - maxNamed; more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

// overdue is a run whose wait ended before a machine claimed it.
type overdue struct{ task, project, deployment, alias string }

// EndWaits ends the waits that are over: a run whose deployment no eligible machine serves ends with
// NO_ELIGIBLE_INFERENCE_WORKER, unbilled; one that only has to wait for a free slot waits on until its
// timeout. Call it often; a wait ends late by as much.
func (s *Service) EndWaits(ctx context.Context) error {
	rows, err := s.db.Query(ctx, `SELECT t.id, r.project, r.deployment, r.alias FROM tasks t JOIN runs r ON r.task = t.id
		WHERE t.start_by > 0 AND t.state = 'queued' AND t.start_by <= $1 ORDER BY t.start_by LIMIT 256`, s.db.Now().UnixMilli())
	late, err := store.All(rows, err, func(r store.Scanner) (overdue, error) {
		var o overdue
		return o, r.Scan(&o.task, &o.project, &o.deployment, &o.alias)
	})
	if err != nil {
		return fmt.Errorf("look for waits that are over: %w", err)
	}
	counts := map[string]func(fleet.Deployment) int{} // by project
	var errs []error
	for _, o := range late {
		errs = append(errs, s.endWait(ctx, o, counts))
	}
	return errors.Join(errs...)
}

func (s *Service) endWait(ctx context.Context, o overdue, counts map[string]func(fleet.Deployment) int) error {
	p, err := s.siteOf(ctx, o.deployment)
	if err != nil {
		return err
	}
	eligible := counts[o.project]
	if eligible == nil {
		if eligible, err = s.eligible(ctx, o.project); err != nil {
			return err
		}
		counts[o.project] = eligible
	}
	if eligible(fleet.Deployment{ID: o.deployment, RetiredAt: p.retired}) > 0 {
		return s.tasks.EndWait(ctx, o.task, nil)
	}
	return s.tasks.EndWait(ctx, o.task, &tasks.Failure{
		Code:    string(fault.NoEligibleWorker),
		Message: fmt.Sprintf("no healthy machine of project %s served %s before the run's wait ended; nothing was billed", o.project, o.alias),
	})
}
