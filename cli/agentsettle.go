package cli

import (
	"context"
	"time"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/fault"
	"interlock.sh/installer/service"
)

const (
	answerWithin = 30 * time.Second // a service's agent opens its socket at once
	askEvery     = 200 * time.Millisecond
)

// settle brings the running agent to what was installed: one that was started by hand makes way, one that
// runs under an older definition or is of another version ends and is started again. It returns when the
// service's agent answers.
func (a *app) settle(ctx context.Context, host *service.Host, e enrollment.Enrollment, spec service.Spec, earlier int, changed bool) error {
	states, err := host.States(ctx, spec.Name())
	if err != nil {
		return err
	}
	if now, runs := agent.Running(e); runs && now.PID == earlier {
		st := statusOf(ctx, e)
		switch {
		case states[0].Pid != earlier:
			a.note("the agent that was started by hand finishes its work, then the service takes its place")
		case changed || st.Version != "" && st.Version != Version || st.Machine != e.Machine:
			a.note("the service's agent finishes its work and starts anew")
		default:
			a.say("the service of group %s, role %s runs (pid %d): %s", clean(e.GroupName), e.Role, st.Pid, clean(st.Words))
			return nil
		}
		if err := agent.StopDetached(ctx, e); err != nil {
			return err
		}
	}
	return a.awaitService(ctx, host, e, spec, earlier)
}

// awaitService returns when an agent answers that the service manager started, another than the one before.
func (a *app) awaitService(ctx context.Context, host *service.Host, e enrollment.Enrollment, spec service.Spec, earlier int) error {
	end := a.clock.Now().Add(answerWithin)
	for {
		states, err := host.States(ctx, spec.Name())
		if err != nil {
			return err
		}
		st := statusOf(ctx, e)
		if st.Pid > 0 && st.Pid != earlier && st.Pid == states[0].Pid {
			a.say("the service of group %s, role %s runs (pid %d): %s", clean(e.GroupName), e.Role, st.Pid, clean(st.Words))
			return nil
		}
		if !a.clock.Now().Before(end) {
			return fault.New(fault.Unavailable, "service %s is installed, but its agent does not answer within %v: %s", spec.Name(), answerWithin, states[0].Words).
				WithHint("it is tried again by itself; its log: %s", agent.LogPath(e))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-a.clock.After(askEvery):
		}
	}
}
