package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/retry"
)

const (
	beatEvery  = 10 * time.Second
	beatSoon   = 250 * time.Millisecond // changes of state within this time are one heartbeat
	beatGently = 2 * time.Second        // the least time between two for slots and speed alone
	beatWithin = 15 * time.Second       // a control plane that does not answer is asked anew
)

// reportLoop sends a heartbeat as often as the control plane wants one, and soon after a change. One that
// was refused or not answered is repeated with growing pauses, whatever changes meanwhile.
func (a *Agent) reportLoop(ctx context.Context) error {
	back := retry.Backoff{Base: time.Second, Cap: beatEvery}
	for {
		began := a.clock.Now()
		every, err := a.beat(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, fault.Revoked):
			// Nothing changes that any more; asking on shows when it does all the same.
			err = retry.Sleep(ctx, a.clock, pollEvery)
		case err != nil:
			err = retry.Sleep(ctx, a.clock, back.Next(max(client.RetryAfter(err), time.Second)))
		default:
			back.Reset()
			err = a.untilNext(ctx, began, every)
		}
		if err != nil {
			return nil
		}
	}
}

// untilNext waits for what comes first: the time, or a change.
func (a *Agent) untilNext(ctx context.Context, last time.Time, every time.Duration) error {
	due := a.clock.After(every)
	stir := a.stir
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.news:
			return retry.Sleep(ctx, a.clock, beatSoon)
		case <-stir:
			stir = nil
			due = a.clock.After(max(0, beatGently-a.clock.Now().Sub(last)))
		case <-due:
			return nil
		}
	}
}

// beat sends one heartbeat and says when the next is due.
func (a *Agent) beat(ctx context.Context) (time.Duration, error) {
	hb := a.Report(ctx)
	bound, cancel := context.WithTimeout(ctx, beatWithin)
	defer cancel()
	res, err := a.control.Heartbeat(bound, hb)
	if ctx.Err() != nil {
		return 0, context.Cause(ctx)
	}
	if err != nil {
		a.note(err)
		if errors.Is(err, fault.Conflict) {
			a.blame(func(t *trouble) { t.conflict = said(err) })
		}
		return 0, err
	}
	a.mu.Lock()
	a.lastSeen, a.lastErr = a.clock.Now(), ""
	stale := res.DesiredVersion != a.desired.Version
	a.mu.Unlock()
	a.blame(func(t *trouble) { t.conflict = "" })
	if stale {
		signal(a.refresh)
	}
	if asked := time.Duration(res.NextMs) * time.Millisecond; asked >= time.Second && asked < fleet.SeenFor {
		return asked, nil
	}
	return beatEvery, nil
}

// lastReport tells the control plane how the agent left, as far as it can be reached.
func (a *Agent) lastReport(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := a.beat(ctx); err != nil {
		a.log.Debug("last heartbeat", slog.Any("cause", err))
	}
}

// Report is the machine as it would be reported now.
func (a *Agent) Report(ctx context.Context) fleet.Heartbeat {
	facts, update := a.gauge.Read(ctx), a.Update()
	a.mu.Lock()
	hb := fleet.Heartbeat{
		Instance: a.instance, HostID: a.hostID, Version: a.Version, DesiredVersion: a.desired.Version,
		Host: facts, Server: a.server, Update: update, Deployments: []fleet.DeploymentReport{},
	}
	cpuOnly := a.cpuOnly
	hours := a.hours()
	hb.Hours, hb.Host.Zone, hb.Warnings = &hours, a.ceiling.zone.Name, a.doubts()
	if a.going.failed != "" {
		hb.Warnings = append(hb.Warnings, a.going.failed)
	}
	all := make([]*serving, 0, len(a.serves))
	for _, s := range a.serves {
		all = append(all, s)
	}
	a.mu.Unlock()
	for _, s := range all {
		hb.Deployments = append(hb.Deployments, s.state(ctx))
	}
	if a.loads.stopped() {
		for i := range hb.Deployments {
			if s := &hb.Deployments[i].State; s.Kind == fleet.StateDownloading {
				s.Detail = "stopped by the owner's bandwidth hours"
			}
		}
	}
	slices.SortFunc(hb.Deployments, func(x, y fleet.DeploymentReport) int { return strings.Compare(x.Alias, y.Alias) })
	hb.State = a.words(hb.Deployments)
	if words := a.control.ClockWords(); words != "" {
		hb.Warnings = append(hb.Warnings, words)
	}
	if cpuOnly && len(facts.GPUs) > 0 {
		hb.Warnings = append(hb.Warnings, "llama-server is built for the CPU only, and this machine has "+facts.GPUs[0].Name)
	}
	return hb
}

// words is the machine's own state.
func (a *Agent) words(ds []fleet.DeploymentReport) fleet.State {
	unsupported := a.supported()
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.leaving && len(ds) == 0: // whatever was wrong with it, it is gone now
		return fleet.State{Kind: fleet.StateOffline}
	case unsupported != nil:
		return *unsupported
	case a.trouble != (trouble{}):
		return fleet.State{Kind: fleet.StateBlocked, Detail: a.trouble.String()}
	case a.leaving, !a.going.by.IsZero():
		return fleet.State{Kind: fleet.StateDraining}
	case a.effectiveMode() == fleet.Paused && len(ds) > 0:
		return fleet.State{Kind: fleet.StateDraining}
	case a.effectiveMode() == fleet.Paused:
		return a.pausedState()
	case a.effectiveMode() == fleet.Draining:
		return fleet.State{Kind: fleet.StateDraining}
	}
	return fleet.Summary(ds)
}
