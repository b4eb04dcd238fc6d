package serverfleet

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/ident"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

const deploymentColumns = "d.id, d.model_group, d.alias, r.name, d.release_id, d.settings, d.route, d.created_at, d.retired_at"
const deploymentFrom = " FROM deployments d JOIN releases r ON r.id = d.release_id "

func scanDeployment(r store.Scanner) (fleet.Deployment, error) {
	var d fleet.Deployment
	var settings string
	var created int64
	var retired *int64
	if err := r.Scan(&d.ID, &d.Group, &d.Alias, &d.Release, &d.ReleaseID, &settings, &d.Route, &created, &retired); err != nil {
		return d, err
	}
	d.CreatedAt, d.RetiredAt = at(created), maybe(retired)
	return d, json.Unmarshal([]byte(settings), &d.Settings)
}

func deploymentsOf(q store.Querier, group string) ([]fleet.Deployment, error) {
	rows, err := q.Query("SELECT "+deploymentColumns+deploymentFrom+"WHERE d.model_group = $1 ORDER BY d.created_at DESC, d.id DESC", group)
	return store.All(rows, err, scanDeployment)
}

func deploymentOf(q store.Querier, project, alias string) (fleet.Deployment, error) {
	return scanDeployment(q.QueryRow("SELECT "+deploymentColumns+deploymentFrom+"WHERE d.project = $1 AND d.alias = $2", project, alias))
}

// Deploy gives a release an alias and assigns it to the group's client machines. Of an alias that is
// there it changes what the request gives; an alias is never given to other weights.
func (s *Service) Deploy(ctx context.Context, project, group string, req fleet.NewDeploymentRequest) (fleet.Deployment, error) {
	fresh := fleet.Deployment{Alias: req.Alias, Route: cmp.Or(req.Route, "ai.self-hosted."+req.Alias), Settings: req.Settings.Apply(fleet.Settings{})}
	if err := errors.Join(fleet.CheckAlias("alias", req.Alias), fleet.CheckName("route", fresh.Route), fresh.Settings.Check()); err != nil {
		return fleet.Deployment{}, err
	}
	var d fleet.Deployment
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		g, err := groupOf(tx, project, group)
		if err != nil {
			return err
		}
		rel, err := scanRelease(tx.QueryRow("SELECT "+releaseColumns+" FROM releases WHERE model_group = $1 AND (id = $2 OR name = $2)", g.ID, req.Release))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, "group %s has no release %q", g.Name, req.Release).WithField("release").WithHint("list them: interlock models status")
		}
		if err != nil {
			return err
		}
		if err := checkArgs(rel.Runtime, "settings.args", req.Settings.Args); err != nil {
			return err
		}
		old, err := deploymentOf(tx, project, req.Alias)
		switch {
		case err == nil:
			d, err = redeploy(tx, g, rel, old, req)
		case errors.Is(err, sql.ErrNoRows):
			d, err = insertDeployment(tx, g, rel, fresh)
		}
		return err
	})
	if err == nil {
		s.wakeGroup(ctx, project, d.Group)
	}
	return d, err
}

func insertDeployment(tx *store.Tx, g fleet.Group, rel fleet.Release, d fleet.Deployment) (fleet.Deployment, error) {
	settings, err := text(d.Settings)
	if err != nil {
		return d, err
	}
	now := tx.Now()
	if _, err := tx.Exec("INSERT INTO deployments (id, project, model_group, alias, release_id, settings, route, created_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
		ident.New("dep", now), g.Project, g.ID, d.Alias, rel.ID, settings, d.Route, now.UnixMilli()); err != nil {
		return d, err
	}
	if d, err = deploymentOf(tx, g.Project, d.Alias); err != nil {
		return d, err
	}
	return d, bump(tx, g.ID)
}

// redeploy handles an alias that is there: the same weights may come back and be tuned, others may not.
// Machines are given a new version only when something changes for them.
func redeploy(tx *store.Tx, g fleet.Group, rel fleet.Release, old fleet.Deployment, req fleet.NewDeploymentRequest) (fleet.Deployment, error) {
	if old.Group != g.ID || old.ReleaseID != rel.ID {
		return old, fault.New(fault.AliasTaken, "alias %s names the weights of release %s for ever", old.Alias, old.Release).WithField("alias").
			With("release", old.Release).WithHint("deploy %s under a new alias and point a channel at it", rel.Name)
	}
	d := old
	d.Settings, d.Route, d.RetiredAt = req.Settings.Apply(old.Settings), cmp.Or(req.Route, old.Route), nil
	tuned := len(old.Settings.Changes(d.Settings)) > 0
	if !tuned && d.Route == old.Route && old.RetiredAt == nil {
		return d, nil
	}
	settings, err := text(d.Settings)
	if err != nil {
		return d, err
	}
	if _, err := tx.Exec("UPDATE deployments SET settings = $1, route = $2, retired_at = NULL WHERE id = $3", settings, d.Route, d.ID); err != nil {
		return d, err
	}
	if tuned {
		d.Before = &old.Settings
	}
	if !tuned && old.RetiredAt == nil { // the route is the control plane's own business
		return d, nil
	}
	return d, bump(tx, g.ID)
}

// Retire takes a deployment off the machines. Its alias stays taken, and deploying the same release
// under it brings it back. One that a channel points at is refused.
func (s *Service) Retire(ctx context.Context, project, group, alias string) (fleet.Deployment, error) {
	var d fleet.Deployment
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		g, err := groupOf(tx, project, group)
		if err != nil {
			return err
		}
		if d, err = deploymentIn(tx, g, alias); err != nil {
			return err
		}
		var channel string
		err = tx.QueryRow("SELECT name FROM channels WHERE deployment = $1", d.ID).Scan(&channel)
		if err == nil {
			return fault.New(fault.Conflict, "channel %s points at %s", channel, alias).WithHint("point it elsewhere first: interlock models channel set %s <alias>, or remove it: interlock models channel rm %s", channel, channel)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if _, err := tx.Exec("UPDATE deployments SET retired_at = $1 WHERE id = $2 AND retired_at IS NULL", tx.Now().UnixMilli(), d.ID); err != nil {
			return err
		}
		if d, err = deploymentOf(tx, project, alias); err != nil {
			return err
		}
		return bump(tx, g.ID)
	})
	if err == nil {
		s.wakeGroup(ctx, project, d.Group)
	}
	return d, err
}

func deploymentIn(q store.Querier, g fleet.Group, alias string) (fleet.Deployment, error) {
	d, err := deploymentOf(q, g.Project, alias)
	if errors.Is(err, sql.ErrNoRows) || err == nil && d.Group != g.ID {
		return d, fault.New(fault.NotFound, "group %s has no deployment %q", g.Name, alias).WithField("alias").WithHint("list them: interlock models status")
	}
	return d, err
}

// Resolve finds the deployment that a model name of a request means: an alias, or group@channel. The
// second result is false when it is neither.
func (s *Service) Resolve(ctx context.Context, project, model string) (fleet.Deployment, bool, error) {
	q := s.db.Reader(ctx)
	var d fleet.Deployment
	var err error
	// A channel has no @ in it, a group's name may.
	if cut := strings.LastIndexByte(model, '@'); cut >= 0 {
		group, channel := model[:cut], model[cut+1:]
		d, err = scanDeployment(q.QueryRow("SELECT "+deploymentColumns+deploymentFrom+`JOIN channels c ON c.deployment = d.id JOIN model_groups g ON g.id = d.model_group
			WHERE d.project = $1 AND (g.id = $2 OR g.name = $2) AND c.name = $3 ORDER BY g.id = $2 DESC LIMIT 1`, project, group, channel))
	} else {
		d, err = deploymentOf(q, project, model)
	}
	if errors.Is(err, sql.ErrNoRows) {
		return d, false, nil
	}
	return d, err == nil, err
}

// bump gives every client machine of a group a new version of its desired state.
func bump(tx *store.Tx, group string) error {
	_, err := tx.Exec("UPDATE machines SET desired_version = desired_version + 1 WHERE model_group = $1 AND role = 'client'", group)
	return err
}

// wakeGroup hints at the machines of a group. A lost hint costs one polling interval.
func (s *Service) wakeGroup(ctx context.Context, project, group string) {
	rows, err := s.db.Query(ctx, "SELECT id FROM machines WHERE model_group = $1 AND revoked_at IS NULL", group)
	ids, err := store.All(rows, err, func(r store.Scanner) (string, error) {
		var id string
		return id, r.Scan(&id)
	})
	if err != nil {
		return
	}
	for _, id := range ids {
		s.hints.Publish(hints.Machine(id))
	}
	s.hints.Publish(hints.Machines(project))
}
