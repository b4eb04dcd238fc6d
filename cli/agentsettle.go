package cli

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/installer/service"
	"interlock.sh/internal/retry"
)

const (
	answerWithin = 30 * time.Second // a service's agent opens its socket at once
	endWithin    = 4 * time.Minute  // an agent that is told to end finishes its work first
	askEvery     = 200 * time.Millisecond
)

// settle brings the running agent to what was installed: one that was started by hand makes way, one under
// an older definition ends and is started anew, one of another version goes on as this one. It returns when
// the service's agent answers.
func (a *app) settle(ctx context.Context, host *service.Host, e enrollment.Enrollment, spec service.Spec, changed bool) error {
	states, err := host.States(ctx, spec.Name())
	if err != nil {
		return err
	}
	st, pid := statusOf(ctx, e), states[0].Pid
	switch byHand, runs := agent.Running(e); {
	case runs && byHand.PID != pid && st.Pid == byHand.PID:
		a.note("the agent that was started by hand finishes its work, then the service takes its place")
		if err := agent.StopDetached(ctx, e); err != nil {
			return err
		}
	case pid > 0 && st.Pid == pid && changed:
		a.note("the service's agent finishes its work and starts anew")
		return a.startAnew(ctx, host, e, spec, pid)
	case pid > 0 && st.Pid == pid && st.Version != Version:
		return a.becomeThis(ctx, host, e, spec, st)
	}
	return a.awaitService(ctx, host, e, spec, answerWithin, func(st localapi.Status, s service.State) bool { return st.Pid == s.Pid })
}

// becomeThis has a running agent of another version go on as the current program, with its models loaded.
func (a *app) becomeThis(ctx context.Context, host *service.Host, e enrollment.Enrollment, spec service.Spec, st localapi.Status) error {
	door, err := agent.Door(e)
	if err != nil {
		return err
	}
	a.note("the agent that runs is of version %s: it finishes its work, then goes on as version %s", clean(st.Version), Version)
	switch err := door.Restart(ctx, 0); {
	case errors.Is(err, fault.NotFound) || errors.Is(err, fault.WrongMethod): // it is too old to know how
		return a.startAnew(ctx, host, e, spec, st.Pid)
	case err != nil:
		return err
	}
	return a.awaitService(ctx, host, e, spec, endWithin, func(st localapi.Status, _ service.State) bool { return st.Version == Version })
}

// startAnew ends the service's process, which its own user may, and the service manager starts it again.
func (a *app) startAnew(ctx context.Context, host *service.Host, e enrollment.Enrollment, spec service.Spec, pid int) error {
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("end the service's agent: %w", err)
	}
	return a.awaitService(ctx, host, e, spec, endWithin, func(st localapi.Status, s service.State) bool { return st.Pid == s.Pid && st.Pid != pid })
}

// awaitService asks until the service's agent answers as it should.
func (a *app) awaitService(ctx context.Context, host *service.Host, e enrollment.Enrollment, spec service.Spec, within time.Duration,
	good func(localapi.Status, service.State) bool,
) error {
	var words string
	err := retry.Poll(ctx, a.clock, askEvery, within, func() (bool, error) {
		states, err := host.States(ctx, spec.Name())
		if err != nil {
			return false, err
		}
		words = states[0].Words
		st := statusOf(ctx, e)
		if st.Pid == 0 || !good(st, states[0]) {
			return false, nil
		}
		a.say("the service of group %s, role %s runs (pid %d): %s", clean(e.GroupName), e.Role, st.Pid, clean(st.Words))
		return true, nil
	})
	if errors.Is(err, retry.ErrLate) {
		return fault.New(fault.Unavailable, "service %s is installed (%s), but its agent does not answer as it should within %v", spec.Name(), words, within).
			WithHint("the service manager tries again by itself; the log: %s", agent.LogPath(e))
	}
	return err
}

// noteService says, where an agent was stopped by hand, that its service manager starts it again.
func (a *app) noteService(e enrollment.Enrollment) {
	if host, err := service.ThisHost(); err == nil && host.Has(workerSpec(e, "app")) {
		a.note("its service starts it again: `interlock agent pause` keeps it from work, `interlock agent service uninstall` ends the service")
	}
}
