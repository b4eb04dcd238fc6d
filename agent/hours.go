package agent

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/power"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

// ceiling is what the owner allows and how it is judged. Agent.mu guards it.
type ceiling struct {
	wish    localapi.Wish
	damaged string // why the wish could not be read; it counts as a pause
	facts   schedule.Facts
	zone    hostfacts.Zone
	verdict schedule.Verdict
	again   chan struct{} // judge anew

	away      time.Time // since when the machine is to be free; zero when it may work
	handsBack bool      // what was in hand then is handed back
	tell      bool      // the worker is to be told again what it may claim
}

// judge answers "may it work now?" anew, in the zone that the machine has now. A change is heeded and
// shown.
func (a *Agent) judge() {
	zone := a.Zone()
	a.mu.Lock()
	c := &a.ceiling
	now := a.clock.Now().In(zone.Location)
	v := c.wish.At(now, c.wish.Hold, c.facts)
	if c.damaged != "" {
		v.Why = c.damaged
	}
	changed := v.Open != c.verdict.Open || v.Drain != c.verdict.Drain || v.Why != c.verdict.Why || zone.Problem != c.zone.Problem ||
		(v.Next == nil) != (c.verdict.Next == nil) || v.Next != nil && !v.Next.Equal(*c.verdict.Next) || !slices.Equal(v.Unsure, c.verdict.Unsure)
	c.zone, c.verdict = zone, v
	a.mu.Unlock()
	if changed {
		a.poke()
	}
}

// ownerMode is what the owner wants at this time. Callers hold mu.
func (a *Agent) ownerMode() fleet.Mode {
	switch v := a.ceiling.verdict; {
	case v.Open:
		return fleet.Active
	case v.Drain:
		return fleet.Draining
	}
	return fleet.Paused
}

// pausedByOwner is the owner's pause in words. Callers hold mu.
func (a *Agent) pausedByOwner() string {
	switch why := a.ceiling.verdict.Why; {
	case why == "":
		return fleet.PausedByOwner
	case strings.HasPrefix(why, "until "):
		return fleet.PausedByOwner + " " + why
	default:
		return fleet.PausedByOwner + ": " + why
	}
}

// hours are the owner's hours as they are reported. Callers hold mu.
func (a *Agent) hours() fleet.Hours {
	v := a.ceiling.verdict
	return fleet.Hours{Mode: string(a.ceiling.wish.Mode), Open: v.Open, Why: v.Why, Next: v.Next}
}

// doubts are what of the ceiling cannot be kept as it was meant. Callers hold mu.
func (a *Agent) doubts() []string {
	var out []string
	if a.unset != "" {
		out = append(out, a.unset)
	}
	if p := a.ceiling.zone.Problem; p != "" {
		out = append(out, p)
	}
	for _, u := range a.ceiling.verdict.Unsure {
		out = append(out, "the owner's limit does not hold: "+u)
	}
	if s := a.awake.State(); s.Refused != "" {
		out = append(out, "the machine is not wholly kept awake while a task runs: "+s.Refused)
	}
	return out
}

// measured reads what the ceilings of a wish ask for, and nothing else.
func (a *Agent) measured(ctx context.Context, w schedule.Availability) schedule.Facts {
	return measure(ctx, w, a.Power)
}

func measure(ctx context.Context, w schedule.Availability, read func(context.Context, power.Need) schedule.Facts) schedule.Facts {
	need := power.Need{Mains: w.OnMains, Idle: w.IdleMinutes > 0}
	if need == (power.Need{}) {
		return schedule.Facts{}
	}
	return read(ctx, need)
}

// limit is the owner's limit of downloads now.
func (a *Agent) limit() (bytesPerSecond int64, limited bool) {
	a.mu.Lock()
	w, zone := a.ceiling.wish, a.ceiling.zone
	a.mu.Unlock()
	if len(w.Bandwidth) == 0 || zone.Location == nil {
		return 0, false
	}
	return w.Rate(a.clock.Now().In(zone.Location))
}

// hoursLoop judges at each look, at the moment at which the clock changes the answer, and after a sleep.
func (a *Agent) hoursLoop(ctx context.Context) error {
	var handing sync.WaitGroup
	defer handing.Wait()
	wall, steady := a.clocks()
	watch := sleepWatch{wall: wall.Round(0), steady: steady}
	for {
		if slept, jumped := watch.look(a.clocks()); jumped {
			a.woke(slept)
		}
		a.mu.Lock()
		w := a.ceiling.wish.Availability
		a.mu.Unlock()
		facts := a.measured(ctx, w)
		a.mu.Lock()
		a.ceiling.facts = facts
		a.mu.Unlock()
		a.judge()
		if reason := a.overdue(); reason != "" {
			handing.Go(func() { a.handBack(ctx, reason) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.ceiling.again:
		case <-a.clock.After(a.untilChange()):
		}
	}
}

// untilChange is how long nothing has to be judged.
func (a *Agent) untilChange() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait, now := settle, a.clock.Now()
	if next := a.ceiling.verdict.Next; next != nil {
		wait = min(wait, next.Sub(now.Round(0)))
	}
	if c := a.ceiling; !c.away.IsZero() && !c.handsBack {
		wait = min(wait, a.LeaveGrace-now.Sub(c.away))
	}
	return max(wait, time.Millisecond)
}

// overdue says, once a pause, why what is still in hand is to be handed back: the machine was to be free
// for longer than its grace.
func (a *Agent) overdue() (reason string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.ceiling
	if a.effectiveMode() != fleet.Paused {
		c.away, c.handsBack = time.Time{}, false
		return ""
	}
	if c.away.IsZero() {
		c.away = a.clock.Now()
	}
	if c.handsBack || a.clock.Now().Sub(c.away) < a.LeaveGrace {
		return ""
	}
	c.handsBack = true
	return "the machine is " + a.pausedState().String()
}

// handBack gives up what the grace was too short for: what may be repeated is done elsewhere, what may not
// ends with an unknown outcome.
func (a *Agent) handBack(ctx context.Context, reason string) {
	bound, cancel := context.WithTimeout(ctx, handBackWithin)
	defer cancel()
	if err := a.worker.HandBack(bound, reason); err != nil && ctx.Err() == nil {
		a.log.Warn("hand back the work in hand", slog.Any("cause", err))
	}
	// That drained the worker. The machine may have been given free in that very moment.
	a.mu.Lock()
	a.ceiling.tell = true
	a.mu.Unlock()
	a.poke()
}

// pausedState is who paused the machine, and until when. Callers hold mu.
func (a *Agent) pausedState() fleet.State {
	if a.ownerMode() == fleet.Paused {
		return fleet.State{Kind: fleet.StatePaused, Detail: a.pausedByOwner()}
	}
	return fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByServer}
}
