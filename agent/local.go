package agent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/internal/retry"
)

// localLoop serves the owner's door until ctx ends. A door that cannot be opened is shown and tried
// again; it is no reason not to work.
func (a *Agent) localLoop(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := a.serveLocal(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("serve the local API", slog.Any("cause", err))
		}
		if retry.Sleep(ctx, a.clock, retryEvery) != nil {
			return nil
		}
	}
	return nil
}

func (a *Agent) serveLocal(ctx context.Context) error {
	path, err := a.Enrollment.Home.Socket(a.Enrollment.Group, a.Enrollment.Role)
	if err != nil {
		return err
	}
	// The role's lock is ours: a socket that is there was left behind.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("clear socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return errors.Join(fmt.Errorf("close socket to others: %w", err), l.Close())
	}
	srv := &http.Server{Handler: localapi.Handler(a), ReadHeaderTimeout: 5 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Status is the agent as its owner sees it.
func (a *Agent) Status(ctx context.Context) localapi.Status {
	hb := a.Report(ctx)
	e := a.Enrollment
	a.mu.Lock()
	defer a.mu.Unlock()
	st := localapi.Status{
		Group: e.Group, GroupName: e.GroupName, Role: e.Role, Origin: e.Origin, Machine: e.Machine, Version: a.Version,
		Pid: os.Getpid(), State: hb.State, Words: hb.State.String(), Owner: a.owner.Mode, Server: a.desired.Mode, Report: hb,
		LastError: a.lastErr,
	}
	if !a.lastSeen.IsZero() {
		seen := a.lastSeen
		st.LastSeen = &seen
	}
	return st
}

// Logs are the newest lines of a deployment's model server, or of the agent's own log for "".
func (a *Agent) Logs(deployment string, lines int) (localapi.Logs, error) {
	if deployment == "" {
		return tailFile(LogPath(a.Enrollment), lines)
	}
	a.mu.Lock()
	var child *supervise.Child
	known := false
	for _, s := range a.serves {
		if s.want.ID == deployment || s.want.Alias == deployment {
			s.mu.Lock()
			child, known = s.child, true
			s.mu.Unlock()
		}
	}
	a.mu.Unlock()
	if !known {
		return localapi.Logs{}, fault.New(fault.NotFound, "no deployment %q is assigned to this machine", deployment)
	}
	if child == nil {
		return localapi.Logs{Lines: []string{}}, nil
	}
	return localapi.Logs{Lines: child.Tail(lines)}, nil
}

func tailFile(path string, n int) (localapi.Logs, error) {
	out := localapi.Logs{Lines: []string{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read the agent's log: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		out.Lines = append(out.Lines, sc.Text())
		if len(out.Lines) > n {
			out.Lines = out.Lines[1:]
		}
	}
	return out, sc.Err()
}

// processes gives this process's start time and the test whether another agent still runs.
func processes() (started string, alive func(pid int, started string) bool) {
	if me, err := supervise.Self(); err == nil {
		started = me.Start
	}
	return started, func(pid int, started string) bool {
		return supervise.Identity{PID: pid, Start: started}.Running()
	}
}

// logName is the agent's own log in the role's folder.
const logName = "agent.log"

func logPath(dir string) string { return filepath.Join(dir, "logs", logName) }
