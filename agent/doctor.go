package agent

import (
	"context"
	"fmt"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/hostfacts"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/diskspace"
)

const lowDisk = 5 << 30

// Doctor checks the agent that runs, and what it serves.
func (a *Agent) Doctor(ctx context.Context, deep bool) []localapi.Check {
	free := a.FreeDisk
	if free == nil {
		free = diskspace.Free
	}
	checks := append([]localapi.Check{a.checkSelf()}, atRest(ctx, a.Enrollment, a.Version, free)...)
	a.mu.Lock()
	desired := a.desired
	a.mu.Unlock()
	checks = append(checks, a.checkHours(), a.checkAwake(ctx))
	checks = append(checks, checkFiles(ctx, a.host.cache, desired, deep)...)
	return append(checks, a.checkModels(ctx)...)
}

// Doctor checks what can be checked of an enrollment whether or not its agent runs.
func Doctor(ctx context.Context, e enrollment.Enrollment, version string) []localapi.Check {
	return append(atRest(ctx, e, version, diskspace.Free), hoursAtRest(ctx, e.Dir(), clock.System.Now()))
}

func atRest(ctx context.Context, e enrollment.Enrollment, version string, free func(string) (int64, error)) []localapi.Check {
	env, envErr := e.Env()
	checks := []localapi.Check{
		verdict("credential file", envErr, "owner-only (0600)"),
		checkFolder(e.Dir()),
		checkOwner(e),
		checkHost(ctx, e),
		checkDisk(free(string(e.Home))),
	}
	if envErr != nil {
		return checks // the settings and the credential for the rest stand in that file
	}
	checks = append(checks, checkSettings(env)...)
	if e.Role == fleet.RoleClient && e.Runtime == fleet.LlamaCpp {
		checks = append(checks, checkServer(ctx, env))
	}
	return append(checks, checkControlPlane(ctx, e, version)...)
}

// verdict is the line of a check. Whatever is wrong has a way out: the error's own, else a general one.
func verdict(name string, err error, fine string) localapi.Check {
	if err == nil {
		return localapi.Check{Name: name, OK: true, Detail: fine}
	}
	e := fault.Of(err)
	c := localapi.Check{Name: name, Detail: e.Message, Fix: e.Hint}
	if e.Code == fault.Internal {
		c.Detail, c.Fix = err.Error(), ""
	}
	if c.Fix == "" {
		c.Fix = "look at the agent's log: interlock agent logs"
	}
	return c
}

// warning is a line about what works and could be better.
func warning(name, detail, fix string) localapi.Check {
	return localapi.Check{Name: name, OK: true, Warn: true, Detail: detail, Fix: fix}
}

func checkHost(ctx context.Context, e enrollment.Enrollment) localapi.Check {
	var err error
	if e.HostID != "" && e.HostID != hostfacts.ID(ctx) {
		err = fault.New(fault.Conflict, "this folder was enrolled on another computer (%s)", e.Name).WithHint("run the install line here with a fresh key")
	}
	return verdict("identity", err, e.Machine)
}

func checkDisk(free int64, err error) localapi.Check {
	if err == nil && free < lowDisk {
		err = fault.New(fault.DiskFull, "%s are free where models are kept, and less than %s is little for a model", gib(free), gib(lowDisk)).
			WithHint("free some space; models that no deployment names any more stand in cache/blobs of the agent's folder")
	}
	return verdict("disk", err, gib(free)+" free")
}

// checkSelf says what runs, and whether it is what should.
func (a *Agent) checkSelf() localapi.Check {
	a.mu.Lock()
	failed, stuck := a.going.failed, a.trouble
	a.mu.Unlock()
	var err error
	switch {
	case stuck != (trouble{}):
		err = fault.New(fault.Conflict, "%s", stuck).WithHint("run the install line on this machine with a fresh key")
	case failed != "":
		err = fault.New(fault.Conflict, "it %s", failed).WithHint("install the new version again: interlock agent update --now; or stop and start the agent")
	}
	return verdict("agent", err, fmt.Sprintf("version %s runs", a.Version))
}
