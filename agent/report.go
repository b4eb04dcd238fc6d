package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"interlock.sh/agent/hostfacts"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/retry"
	"interlock.sh/llama"
)

const (
	beatEvery  = 10 * time.Second
	beatSoon   = 250 * time.Millisecond // changes within this time are one heartbeat
	factsEvery = time.Minute            // the model server program is looked at again
)

// reportLoop sends a heartbeat every 10 s and soon after a change.
func (a *Agent) reportLoop(ctx context.Context) error {
	back := retry.Backoff{Base: time.Second, Cap: beatEvery}
	var looked time.Time
	for {
		if now := a.clock.Now(); looked.IsZero() || now.Sub(looked) >= factsEvery {
			looked = now
			a.lookAtServer(ctx)
		}
		wait := beatEvery
		if err := a.beat(ctx); err != nil && ctx.Err() == nil {
			wait = back.Next(max(client.RetryAfter(err), time.Second))
		} else {
			back.Reset()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.news:
			if retry.Sleep(ctx, a.clock, beatSoon) != nil {
				return nil
			}
		case <-a.clock.After(wait):
		}
	}
}

// beat sends one heartbeat.
func (a *Agent) beat(ctx context.Context) error {
	hb := a.Report(ctx)
	res, err := a.control.Heartbeat(ctx, hb)
	if err != nil {
		a.note(err)
		if errors.Is(err, fault.Conflict) {
			a.mu.Lock()
			a.blocked = fault.Of(err).Message
			a.mu.Unlock()
			a.poke()
		}
		return err
	}
	a.mu.Lock()
	a.lastSeen, a.lastErr = a.clock.Now(), ""
	stale := res.DesiredVersion != a.desired.Version
	a.mu.Unlock()
	if stale {
		signal(a.refresh)
	}
	return nil
}

// lastReport tells the control plane how the agent left, as far as it can be reached.
func (a *Agent) lastReport(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := a.beat(ctx); err != nil {
		a.log.Debug("last heartbeat", slog.Any("cause", err))
	}
}

// Report is the machine as it would be reported now.
func (a *Agent) Report(ctx context.Context) fleet.Heartbeat {
	a.mu.Lock()
	facts := a.facts
	a.mu.Unlock()
	hostfacts.Refresh(ctx, &facts, string(a.Enrollment.Home))
	a.mu.Lock()
	a.facts = facts
	hb := fleet.Heartbeat{
		Instance: a.instance, HostID: a.hostID, Version: a.Version, DesiredVersion: a.desired.Version,
		Host: facts, Server: a.server, Deployments: []fleet.DeploymentReport{},
	}
	all := make([]*serving, 0, len(a.serves))
	for _, s := range a.serves {
		all = append(all, s)
	}
	a.mu.Unlock()
	for _, s := range all {
		hb.Deployments = append(hb.Deployments, s.state(ctx))
	}
	slices.SortFunc(hb.Deployments, func(x, y fleet.DeploymentReport) int { return strings.Compare(x.Alias, y.Alias) })
	hb.State = a.words(hb.Deployments)
	if hb.Server != nil && len(hb.Server.Devices) == 0 && len(facts.GPUs) > 0 {
		hb.Warnings = append(hb.Warnings, "llama-server is built for the CPU only, and this machine has "+facts.GPUs[0].Name)
	}
	return hb
}

// words is the machine's own state.
func (a *Agent) words(ds []fleet.DeploymentReport) fleet.State {
	if s := a.supported(); s != nil {
		return *s
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.blocked != "":
		return fleet.State{Kind: fleet.StateBlocked, Detail: a.blocked}
	case a.effectiveMode() == fleet.Paused && len(ds) > 0:
		return fleet.State{Kind: fleet.StateDraining}
	case a.owner.Mode == fleet.Paused:
		return fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByOwner}
	case a.desired.Mode == fleet.Paused:
		return fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByServer}
	case a.effectiveMode() == fleet.Draining:
		return fleet.State{Kind: fleet.StateDraining}
	}
	return fleet.Summary(ds)
}

// lookAtServer finds the model server program and what it says of itself.
func (a *Agent) lookAtServer(ctx context.Context) {
	if a.supported() != nil {
		return
	}
	bin, err := llama.Find(ctx, a.host.setting)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.server = nil
	if err == nil {
		a.server = &fleet.ServerFacts{Path: bin.Path, Version: bin.Version, Devices: bin.GPUs}
		if bin.Build > 0 {
			a.server.Build = "b" + strconv.Itoa(bin.Build)
		}
	}
}
