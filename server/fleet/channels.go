package serverfleet

import (
	"context"
	"database/sql"
	"errors"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/store"
)

const channelColumns = "SELECT c.name, d.alias, c.updated_at FROM channels c JOIN deployments d ON d.id = c.deployment "

func scanChannel(r store.Scanner) (fleet.Channel, error) {
	var c fleet.Channel
	var updated int64
	err := r.Scan(&c.Name, &c.Alias, &updated)
	c.UpdatedAt = at(updated)
	return c, err
}

func channelsOf(q store.Querier, group string) ([]fleet.Channel, error) {
	rows, err := q.Query(channelColumns+"WHERE c.model_group = $1 ORDER BY c.name", group)
	return store.All(rows, err, scanChannel)
}

// SetChannel points a channel at a deployment that is not retired.
func (s *Service) SetChannel(ctx context.Context, project, group, channel string, req fleet.SetChannelRequest) (fleet.Channel, error) {
	if err := fleet.CheckAlias("channel", channel); err != nil {
		return fleet.Channel{}, err
	}
	var c fleet.Channel
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		g, err := groupOf(tx, project, group)
		if err != nil {
			return err
		}
		d, err := deploymentIn(tx, g, req.Alias)
		if err != nil {
			return err
		}
		if d.RetiredAt != nil {
			return fault.New(fault.Conflict, "deployment %s is retired", d.Alias).WithField("alias").WithHint("deploy it again first: interlock models deploy")
		}
		now := tx.Now()
		c = fleet.Channel{Name: channel, Alias: d.Alias, UpdatedAt: now}
		_, err = tx.Exec(`INSERT INTO channels (model_group, name, deployment, updated_at) VALUES ($1, $2, $3, $4)
			ON CONFLICT (model_group, name) DO UPDATE SET deployment = excluded.deployment, updated_at = excluded.updated_at`, g.ID, channel, d.ID, now.UnixMilli())
		return err
	})
	return c, err
}

// RemoveChannel removes a channel and returns what it pointed at. The deployment stays.
func (s *Service) RemoveChannel(ctx context.Context, project, group, channel string) (fleet.Channel, error) {
	var c fleet.Channel
	err := s.db.Write(ctx, store.LaneAdmit, func(tx *store.Tx) error {
		g, err := groupOf(tx, project, group)
		if err != nil {
			return err
		}
		c, err = scanChannel(tx.QueryRow(channelColumns+"WHERE c.model_group = $1 AND c.name = $2", g.ID, channel))
		if errors.Is(err, sql.ErrNoRows) {
			return fault.New(fault.NotFound, "group %s has no channel %q", g.Name, channel).WithField("channel").WithHint("list them: interlock models status")
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec("DELETE FROM channels WHERE model_group = $1 AND name = $2", g.ID, channel)
		return err
	})
	return c, err
}
