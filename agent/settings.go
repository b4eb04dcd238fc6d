package agent

import (
	"log/slog"
	"time"

	"interlock.sh/agent/awake"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/power"
	"interlock.sh/fleet"
)

// settings fills what the options leave to the system and to the role's environment file.
func (a *Agent) settings(env enrollment.Env) {
	if a.Zone == nil {
		a.Zone = hostfacts.LocalZone
	}
	if a.Power == nil {
		a.Power = power.Read
	}
	if a.Update == nil {
		a.Update = func() *fleet.UpdateReport { return nil }
	}
	if a.steady = a.Steady; a.steady == nil {
		began := a.clock.Now()
		a.steady = func() time.Duration { return a.clock.Now().Sub(began) }
	}
	a.awake = awake.New(awake.Options{Take: a.Awake, Clock: a.clock, Logger: a.log, Changed: func() { signal(a.news) }})
	if a.LeaveGrace <= 0 {
		a.LeaveGrace = a.leaveGrace(env[enrollment.EnvLeaveGrace])
	}
}

// leaveGrace is what the owner set for the work in hand when the hours end, else the usual.
func (a *Agent) leaveGrace(set string) time.Duration {
	if set == "" {
		return drainWithin
	}
	d, err := time.ParseDuration(set)
	if err != nil || d <= 0 || d > maxLeaveGrace {
		a.log.Warn("a setting is no length of time up to "+maxLeaveGrace.String()+"; the usual one holds",
			slog.String(enrollment.EnvLeaveGrace, set), slog.Duration("usual", drainWithin))
		return drainWithin
	}
	return d
}

// maxLeaveGrace bounds how long the owner waits for the machine.
const maxLeaveGrace = time.Hour
