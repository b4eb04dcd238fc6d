package agent

import (
	"context"
	"strings"
	"time"

	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/power"
	"interlock.sh/fleet/schedule"
)

// checkHours looks at the owner's hours and limits as the agent keeps them.
func (a *Agent) checkHours() localapi.Check {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := &a.ceiling
	return hoursVerdict(c.wish.Availability, c.damaged, c.zone, c.verdict)
}

// hoursAtRest looks at them as an agent that starts now would.
func hoursAtRest(ctx context.Context, dir string, now time.Time) localapi.Check {
	w, damaged := loadWish(dir)
	zone := hostfacts.LocalZone()
	facts := measure(ctx, w.Availability, new(power.Meter).Read)
	return hoursVerdict(w.Availability, damaged, zone, w.At(now.In(zone.Location), w.Hold, facts))
}

// hoursVerdict says whether what the owner set holds as it was meant. A limit that is not kept is no mere
// warning: the machine works when its owner wanted it for themselves.
func hoursVerdict(w schedule.Availability, damaged string, zone hostfacts.Zone, v schedule.Verdict) localapi.Check {
	const name, setZone = "hours", "set the machine's time zone, and TZ where it is set, to one that exists; then interlock agent hours shows the times"
	byClock := w.Mode == schedule.Night || w.Mode == schedule.Window || len(w.Bandwidth) > 0
	switch {
	case damaged != "":
		return localapi.Check{Name: name, Detail: damaged, Fix: setHoursHint}
	case len(v.Unsure) > 0:
		return localapi.Check{
			Name: name, Detail: "the owner's limit does not hold: " + strings.Join(v.Unsure, "; "),
			Fix: "the system (on Linux systemd-logind, and the power supplies in /sys) has to tell; a limit is lifted by interlock agent hours --idle-minutes 0 and --on-mains=false",
		}
	case zone.Problem != "" && byClock:
		return localapi.Check{Name: name, Detail: zone.Problem + ", so the hours may be off", Fix: setZone}
	case zone.Problem != "":
		return warning(name, zone.Problem, setZone)
	}
	return localapi.Check{Name: name, OK: true, Detail: w.String()}
}
