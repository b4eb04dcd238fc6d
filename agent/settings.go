package agent

import (
	"fmt"
	"log/slog"
	"time"

	"interlock.sh/agent/awake"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/power"
	"interlock.sh/fleet"
)

// settings fills what the options leave to the system and to the role's environment file.
func (a *Agent) settings(env enrollment.Env) {
	if a.Zone == nil {
		a.Zone = hostfacts.LocalZone
	}
	if a.Power == nil {
		a.Power = new(power.Meter).Read
	}
	if a.Update == nil {
		a.Update = func() *fleet.UpdateReport { return nil }
	}
	if a.steady = a.Steady; a.steady == nil {
		began := a.clock.Now()
		a.steady = func() time.Duration { return a.clock.Now().Sub(began) }
	}
	a.awake = awake.New(awake.Options{Take: a.Awake, Clock: a.clock, Logger: a.log, Changed: func() { signal(a.news) }})
	grace, problem := leaveGrace(env)
	if a.unset = problem; problem != "" {
		a.log.Warn("read the settings", slog.String("problem", problem))
	}
	if a.LeaveGrace <= 0 {
		a.LeaveGrace = grace
	}
}

// leaveGrace is what the owner set for the work in hand when the hours end, else the usual. A value that is
// none is a problem in words, and stops nothing.
func leaveGrace(env enrollment.Env) (grace time.Duration, problem string) {
	set := env[enrollment.EnvLeaveGrace]
	if set == "" {
		return drainWithin, ""
	}
	d, err := time.ParseDuration(set)
	if err != nil || d <= 0 || d > maxLeaveGrace {
		return drainWithin, fmt.Sprintf("%s in worker.env is %.40q, which is no length of time from 1s to %s; the usual %s hold",
			enrollment.EnvLeaveGrace, set, inUnits(maxLeaveGrace), inUnits(drainWithin))
	}
	return d, ""
}

// maxLeaveGrace bounds how long the owner waits for the machine.
const maxLeaveGrace = time.Hour

// inUnits is a length of time as people write it in the file.
func inUnits(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }

// checkSettings are the lines about settings that do not hold.
func checkSettings(env enrollment.Env) []localapi.Check {
	_, problem := leaveGrace(env)
	if problem == "" {
		return nil
	}
	return []localapi.Check{warning("settings", problem,
		"write it as in "+enrollment.EnvLeaveGrace+"=120s; then interlock agent service restart, or interlock agent stop and start")}
}
