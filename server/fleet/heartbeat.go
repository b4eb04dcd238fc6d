package serverfleet

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
)

const (
	heartbeatEvery = 10 * time.Second
	keepSamples    = 24 * time.Hour
	maxDetail      = 500 // bytes of a state's detail
	maxFact        = 200 // bytes of what a machine says of itself
	maxWarnings    = 20
	maxReports     = 64 // deployments of one machine
	maxGPUs        = 32
	maxLogLines    = 100     // of a deployment's report
	maxLogLine     = 1 << 10 // bytes
)

// Heartbeat records what a machine reports. Two agents that live on one credential (a copied state
// folder) are noticed by their alternating instances: the machine shows the conflict, and the copy is
// refused with fault.Conflict, so that one of them enrolls again.
func (s *Service) Heartbeat(ctx context.Context, id string, hb fleet.Heartbeat) (fleet.HeartbeatResponse, error) {
	if hb.Instance == "" {
		return fleet.HeartbeatResponse{}, fault.New(fault.Invalid, "instance is empty; it is new at each start of the agent").WithField("instance")
	}
	trim(&hb)
	report, err := text(hb)
	if err != nil {
		return fleet.HeartbeatResponse{}, err
	}
	var m machine
	var refused error
	changed, hours := false, false
	err = s.db.Write(ctx, store.LaneTelemetry, func(tx *store.Tx) (err error) {
		if m, err = byID(tx, tx.Now(), id); err != nil {
			return err
		}
		now := tx.Now()
		var conflict string
		if conflict, refused = m.copied(hb, now); refused != nil {
			// Recorded, and answered with the refusal after the commit.
			_, err := tx.Exec("UPDATE machines SET conflict = $1, conflict_at = $2 WHERE id = $3", conflict, now.UnixMilli(), id)
			return err
		}
		prior := m.prior
		if hb.Instance != m.instance {
			prior = m.instance
		}
		if _, err := tx.Exec("UPDATE machines SET report = $1, instance = $2, prior_instance = $3, last_seen_at = $4 WHERE id = $5",
			report, hb.Instance, prior, now.UnixMilli(), id); err != nil {
			return err
		}
		old := m.report
		before := m.State
		m.report, m.LastSeen = hb, &now
		hours = !reflect.DeepEqual(old.Hours, hb.Hours)
		changed = m.state(now) != before || !reflect.DeepEqual(old.Deployments, hb.Deployments) || hours || !reflect.DeepEqual(old.Update, hb.Update)
		return sample(tx, id, hb, now)
	})
	if err != nil {
		return fleet.HeartbeatResponse{}, err
	}
	if changed || refused != nil {
		s.hints.Publish(hints.Machines(m.Project))
	}
	if hours { // what waiting runs say of themselves
		s.hints.Publish(hints.Runs(m.Project))
	}
	if refused != nil {
		return fleet.HeartbeatResponse{}, refused
	}
	return fleet.HeartbeatResponse{DesiredVersion: m.desiredVersion, NextMs: heartbeatEvery.Milliseconds()}, nil
}

// copied says whether hb comes from a copy of the machine's state folder while the original lives. The
// copy is the one on another host; on the same host it is the instance that returns after a newer one.
func (m machine) copied(hb fleet.Heartbeat, now time.Time) (string, error) {
	alive := m.LastSeen != nil && now.Sub(*m.LastSeen) <= fleet.SeenFor
	otherHost := hb.HostID != "" && m.hostID != "" && hb.HostID != m.hostID
	returned := hb.Instance != m.instance && hb.Instance == m.prior
	if !alive || hb.Instance == m.instance || !otherHost && !returned {
		return "", nil
	}
	words := fmt.Sprintf("two computers use this enrollment (%s and %s)", m.report.Host.Hostname, hb.Host.Hostname)
	return words, fault.New(fault.Conflict, "%s: the state folder was copied", words).
		WithHint("enroll this computer by itself: run its install line again with a fresh key")
}

// trim bounds what a machine can make us keep.
func trim(hb *fleet.Heartbeat) {
	hb.State.Detail = clip(hb.State.Detail, maxDetail)
	hb.Warnings = hb.Warnings[:min(len(hb.Warnings), maxWarnings)]
	for i := range hb.Warnings {
		hb.Warnings[i] = clip(hb.Warnings[i], maxDetail)
	}
	h := &hb.Host
	for _, s := range []*string{&hb.Version, &hb.HostID, &hb.Instance, &h.Hostname, &h.OS, &h.Arch, &h.OSVersion, &h.CPU, &h.Zone} {
		*s = clip(*s, maxFact)
	}
	if o := hb.Hours; o != nil {
		o.Mode, o.Why = clip(o.Mode, maxFact), clip(o.Why, maxDetail)
	}
	if u := hb.Update; u != nil {
		u.State, u.Version, u.Why = clip(u.State, maxFact), clip(u.Version, maxFact), clip(u.Why, maxDetail)
	}
	hb.Host.GPUs = hb.Host.GPUs[:min(len(hb.Host.GPUs), maxGPUs)]
	hb.Deployments = hb.Deployments[:min(len(hb.Deployments), maxReports)]
	for i := range hb.Deployments {
		d := &hb.Deployments[i]
		d.State.Detail, d.LastError = clip(d.State.Detail, maxDetail), clip(d.LastError, maxDetail)
		if len(d.Log) > maxLogLines {
			d.Log = d.Log[len(d.Log)-maxLogLines:]
		}
		for j := range d.Log {
			d.Log[j] = clip(d.Log[j], maxLogLine)
		}
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 { // not inside a rune
		n--
	}
	return s[:n] + "…"
}

// sample keeps one point of telemetry a heartbeat, for a day.
func sample(tx *store.Tx, id string, hb fleet.Heartbeat, now time.Time) error {
	var p fleet.Sample
	for _, d := range hb.Deployments {
		if d.State.Serving() { // one that is blocked or loads has no slot to give
			p.Busy += d.Busy
			p.Slots += d.Slots
		}
		if d.TokensPerSecond != nil && (p.TokensPerSecond == nil || *d.TokensPerSecond > *p.TokensPerSecond) {
			p.TokensPerSecond = d.TokensPerSecond
		}
	}
	if _, err := tx.Exec("INSERT INTO samples (machine, at, tokens_per_second, busy, slots, memory_free) VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT DO NOTHING",
		id, now.UnixMilli(), p.TokensPerSecond, p.Busy, p.Slots, hb.Host.MemoryFree); err != nil {
		return err
	}
	_, err := tx.Exec("DELETE FROM samples WHERE machine = $1 AND at < $2", id, now.Add(-keepSamples).UnixMilli())
	return err
}
