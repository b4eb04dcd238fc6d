package measure

import (
	"context"
	"fmt"
	"time"

	"interlock.sh/bench/report"
	"interlock.sh/bench/rig"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
	"interlock.sh/tray"
	"interlock.sh/tray/agents"
)

// maxClick is from a click on Paused or Always to the state that the agent has and reports.
const maxClick = 100 * time.Millisecond

// Click does what a click in the menu of Nightshift does, and asks the agent on a connection of its own
// how it is until it is what was clicked.
func Click(ctx context.Context, m *rig.Machine, turns int) ([]report.Row, error) {
	ctx, stop := context.WithCancel(ctx)
	app := agents.New(m.Home, clock.System)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = app.Run(ctx) }() // it ends with ctx alone
	defer func() { stop(); <-ended }()
	key := tray.Key{Group: m.Group, Role: fleet.RoleClient}
	for {
		if a, ok := app.Snapshot().Find(key); ok && a.Reach == tray.Answers {
			break
		}
		select {
		case <-app.Changed():
		case <-time.After(upWithin):
			return nil, fmt.Errorf("the app did not find the agent within %v", upWithin)
		}
	}
	var took []time.Duration
	for n := range turns {
		mode, want := schedule.Paused, fleet.StatePaused
		if n%2 == 1 {
			mode, want = schedule.Always, fleet.StateIdle
		}
		began := time.Now()
		if err := app.Choose(ctx, key, mode); err != nil {
			return nil, fmt.Errorf("choose %s: %w", mode, err)
		}
		for {
			st, err := m.Local.Status(ctx)
			if err != nil {
				return nil, fmt.Errorf("ask the agent: %w", err)
			}
			if st.State.Kind == want {
				break
			}
			if time.Since(began) > upWithin {
				return nil, fmt.Errorf("%v after the click on %s the agent is %s", upWithin, mode, st.State)
			}
		}
		took = append(took, time.Since(began))
	}
	slow := quantile(took, 0.99)
	return []report.Row{{
		What:     fmt.Sprintf("Nightshift: click → state of the agent, p99 of %d", turns),
		Measured: fmt.Sprintf("%.1f ms (p50 %.1f ms)", ms(slow), ms(median(took))),
		Bound:    fmt.Sprintf("≤ %.0f ms", ms(maxClick)), OK: slow <= maxClick,
	}}, nil
}

// upWithin is how long what must come may take before something is broken.
const upWithin = time.Minute
