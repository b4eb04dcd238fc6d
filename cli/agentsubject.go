package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/installer/service"
	"interlock.sh/internal/clock"
	"interlock.sh/updater"
)

// agents are the services that an update restarts and is judged by: one a enrollment, over its local API.
type agents struct {
	app      string
	log      *slog.Logger
	all      []enrollment.Enrollment
	damaged  []enrollment.Damaged
	confined bool // this process is the timer's: what it starts ends with it

	mu    sync.Mutex
	doors map[string]*localapi.Client // by socket
}

// door is the client of an agent, the same at each look: an update looks for hours, and each client keeps a
// connection.
func (a *agents) door(e enrollment.Enrollment) (*localapi.Client, error) {
	socket, err := e.Home.Socket(e.Group, e.Role)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.doors == nil {
		a.doors = map[string]*localapi.Client{}
	}
	if a.doors[socket] == nil {
		a.doors[socket] = localapi.Dial(socket)
	}
	return a.doors[socket], nil
}

// Subjects are the agents, whether or not they run. One that runs out of this folder with a damaged enrollment
// holds everything up: whatever version it were to go on as, it could not, and would be taken for bad.
func (a *agents) Subjects(ctx context.Context) ([]updater.Subject, error) {
	for _, d := range a.damaged {
		if a.runsHere(ctx, d.Enrollment) {
			return nil, fault.Wrap(d.Why, fault.Conflict, "the agent of group %s, role %s runs and could not be started again: %s", d.Group, d.Role, fault.Of(d.Why).Message).
				WithHint("restore it, or stop that agent: interlock agent stop --group %s --role %s", d.Group, d.Role)
		}
	}
	out := make([]updater.Subject, len(a.all))
	for i, e := range a.all {
		door, err := a.door(e)
		if err != nil {
			return nil, err
		}
		out[i] = agentSubject{a, e, door}
	}
	return out, nil
}

// limit is the strictest that the owner allows the downloads of any agent now.
func (a *agents) limit(c clock.Clock) func() (bytesPerSecond int64, limited bool) {
	return func() (least int64, limited bool) {
		for _, e := range a.all {
			if n, is := agent.OwnerLimit(e, c.Now()); is && (!limited || n < least) {
				least, limited = n, true
			}
		}
		return least, limited
	}
}

// inTimersUnit is true for a process of the updater's own unit, by what the kernel says of its control groups.
func inTimersUnit(cgroups string) bool {
	b, err := os.ReadFile(cgroups)
	return err == nil && strings.Contains(string(b), "/"+service.Prefix+string(service.Updater)+".")
}

// runsHere is true for an agent that answers and would go on as this folder's current program.
func (a *agents) runsHere(ctx context.Context, e enrollment.Enrollment) bool {
	door, err := a.door(e)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	st, err := door.Status(ctx)
	return err == nil && filepath.Dir(filepath.Dir(st.Program)) == filepath.Clean(a.app)
}

// agentSubject is one agent.
type agentSubject struct {
	*agents
	e    enrollment.Enrollment
	door *localapi.Client
}

// Name tells the agent from the others.
func (s agentSubject) Name() string { return s.e.Group + "/" + string(s.e.Role) }

// An agent answers from memory; one that does not within these times is hung. To be told takes longer, since
// an agent that seems hung then is ended.
const (
	lookWithin = 10 * time.Second
	tellWithin = 40 * time.Second
)

// Health asks the agent how it is.
func (s agentSubject) Health(ctx context.Context) (updater.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	st, err := s.door.Status(ctx)
	if err != nil {
		return updater.Health{Wanted: s.wanted(ctx)}, err
	}
	return healthOf(st), nil
}

// wanted tells an agent that does not answer from one that is at rest: its process is there, or its service
// manager starts it again and again.
func (s agentSubject) wanted(ctx context.Context) bool {
	if _, runs := agent.Running(s.e); runs {
		return true
	}
	host, err := service.ThisHost()
	spec := workerSpec(s.e, filepath.Base(s.app))
	if err != nil || !host.Has(spec) {
		return false
	}
	states, err := host.States(ctx, spec.Name())
	return err == nil && len(states) == 1 && beingStarted(states[0])
}

// beingStarted is true for a service that its manager wants up: systemd activates it, launchd has it loaded
// and waits between two tries. One that somebody stopped is at rest.
func beingStarted(s service.State) bool {
	if s.Active || strings.HasPrefix(s.Words, "activating") {
		return true
	}
	return s.Words == "waiting" || s.Words == "spawn scheduled"
}

// healthOf is what an update wants to know of an agent's status.
func healthOf(st localapi.Status) updater.Health {
	h := updater.Health{Up: st.Pid > 0, Version: st.Version, Why: st.LastError}
	if st.LastSeen != nil {
		h.Heartbeat = *st.LastSeen
	}
	working := st.Owner == fleet.Active && st.Server == fleet.Active && (st.Hours.Open || !st.KnowsHours())
	for _, d := range st.Report.Deployments {
		h.Busy = h.Busy || d.Busy > 0
		switch d.State.Kind {
		case fleet.StateReady, fleet.StateFull, fleet.StateDraining, fleet.StateLoading, fleet.StateDownloading:
			h.Children = append(h.Children, d.Alias)
		default:
			if !working { // it is meant to rest
				continue
			}
			h.Lost = append(h.Lost, d.Alias)
			if h.Why == "" {
				h.Why = d.Alias + ": " + d.State.String()
			}
		}
	}
	return h
}

// Restart has the agent go on as the current program. One that cannot be told is ended: its service manager
// starts the current program, and so do we where there is none. The timer's process cannot: so it does not end
// what nobody would start again.
func (s agentSubject) Restart(ctx context.Context, within time.Duration) error {
	told, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	err := s.door.Restart(told, within)
	if err == nil || errors.Is(err, fault.Conflict) { // it says why it goes on as it is: no reason to end it
		return err
	}
	managed := s.managed()
	if !managed && s.confined {
		return fault.Wrap(err, fault.Conflict, "it does not take a restart, and no service would start it again: %s", fault.Of(err).Message).
			WithHint("interlock agent stop, then interlock agent start; interlock agent service install makes it a service")
	}
	id, runs := agent.Running(s.e)
	if runs {
		sig := syscall.SIGKILL
		if tooOld(err) { // it knows this much: it finishes its work first
			sig = syscall.SIGTERM
		}
		s.log.WarnContext(ctx, "an agent does not take a restart and is ended", "agent", s.Name(), "signal", sig.String(), "error", err)
		if err := syscall.Kill(id.PID, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("end the agent: %w", err)
		}
	}
	if managed {
		return nil
	}
	return s.start(ctx)
}

// tooOld is the answer of an agent that has no such route.
func tooOld(err error) bool {
	return errors.Is(err, fault.NotFound) || errors.Is(err, fault.WrongMethod)
}

// managed is true when a service manager looks after the agent.
func (s agentSubject) managed() bool {
	host, err := service.ThisHost()
	return err == nil && host.Has(workerSpec(s.e, filepath.Base(s.app)))
}

// start runs the current program as the agent, as `interlock agent start` does.
func (s agentSubject) start(ctx context.Context) error {
	_, err := agent.StartDetached(ctx, s.e, agent.Launch{
		Program: filepath.Join(s.app, "current", "interlock"),
		Args:    []string{"agent", "run", "--group", s.e.Group, "--role", string(s.e.Role)},
		Version: filepath.Base(linkTarget(filepath.Join(s.app, "current"))),
	})
	return err
}

// Reach asks the control plane as this machine, from this process: a machine that was revoked meanwhile is
// not the new version's fault.
func (s agentSubject) Reach(ctx context.Context) error {
	c, err := s.e.Client(Version)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Self(ctx)
	return err
}
