package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/internal/ownersocket"
)

// localLoop serves the owner's door until ctx ends. A door that cannot be opened is shown and tried
// again; it is no reason not to work.
func (a *Agent) localLoop(ctx context.Context) error {
	for ctx.Err() == nil {
		door, shut := context.WithCancel(ctx)
		served := make(chan error, 1)
		go func() { served <- a.serveLocal(door) }()
		var asked *closing
		select {
		case err := <-served:
			if err != nil && ctx.Err() == nil {
				a.log.Warn("serve the local API", slog.Any("cause", err))
			}
			select {
			case <-ctx.Done():
			case <-a.clock.After(retryEvery):
			case asked = <-a.closing:
			}
		case asked = <-a.closing:
			shut()
			<-served //nolint:errcheck // it was told to end
		}
		shut()
		if asked != nil {
			close(asked.closed)
			select {
			case <-asked.reopen:
			case <-ctx.Done():
			}
		}
	}
	return nil
}

// closing asks for the owner's door to be closed for a while.
type closing struct {
	closed chan struct{} // closes when it is, with all that was asked there answered
	reopen chan struct{} // closes when it may open again
}

// closeDoor closes the owner's door and returns how to open it again.
func (a *Agent) closeDoor(ctx context.Context) (reopen func()) {
	c := &closing{make(chan struct{}), make(chan struct{})}
	select {
	case a.closing <- c:
		<-c.closed
	case <-ctx.Done():
	}
	return func() { close(c.reopen) }
}

func (a *Agent) serveLocal(ctx context.Context) error {
	path, err := a.Enrollment.Home.Socket(a.Enrollment.Group, a.Enrollment.Role)
	if err != nil {
		return err
	}
	l, err := ownersocket.Listen(path) // the role's lock is ours: what is there was left behind
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: localapi.Handler(a), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
		defer cancel()
		if srv.Shutdown(bound) != nil {
			_ = srv.Close() // who still reads is cut off
		}
	})
	err = srv.Serve(l)
	if !stop() {
		<-closed // what is asked is answered first
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answerWithin bounds the answers that are still given when the agent ends.
const answerWithin = 2 * time.Second

// Status is the agent as its owner sees it.
func (a *Agent) Status(ctx context.Context) localapi.Status {
	hb := a.Report(ctx)
	e := a.Enrollment
	a.mu.Lock()
	defer a.mu.Unlock()
	st := localapi.Status{
		Group: e.Group, GroupName: e.GroupName, Role: e.Role, Origin: e.Origin, Machine: e.Machine, Version: a.Version,
		Pid: os.Getpid(), Program: CurrentProgram(a.Program), State: hb.State, Words: hb.State.String(), Owner: a.ownerMode(), Server: a.desired.Mode, Report: hb,
		LastError: a.lastErr, Update: hb.Update,
	}
	st.Wish, st.Hours = a.ceiling.wish, a.hours()
	if !st.Wish.Hold.Active(a.clock.Now()) {
		st.Wish.Hold = nil
	}
	held := a.awake.State()
	st.Awake = localapi.Awake{Held: held.Held, Refused: held.Refused}
	if !a.lastSeen.IsZero() {
		seen := a.lastSeen
		st.LastSeen = &seen
	}
	return st
}

// Logs are the newest lines of a deployment's model server, or of the agent's own log for "".
func (a *Agent) Logs(deployment string, lines int) (localapi.Logs, error) {
	if deployment == "" {
		return tailFile(LogPath(a.Enrollment), 0, lines)
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

// tailWindow is how much of a log's end is read: lines that long are not for people.
const tailWindow = 1 << 20

// tailFile is the last n lines of a file, of what stands behind offset from.
func tailFile(path string, from int64, n int) (localapi.Logs, error) {
	out := localapi.Logs{Lines: []string{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read the agent's log: %w", err)
	}
	defer f.Close() //nolint:errcheck // read only
	st, err := f.Stat()
	if err != nil {
		return out, fmt.Errorf("read the agent's log: %w", err)
	}
	begin := max(from, st.Size()-tailWindow)
	b, err := io.ReadAll(io.NewSectionReader(f, begin, max(st.Size()-begin, 0)))
	if err != nil {
		return out, fmt.Errorf("read the agent's log: %w", err)
	}
	text := strings.TrimRight(string(b), "\n")
	if begin > from { // it begins inside a line
		_, text, _ = strings.Cut(text, "\n")
	}
	if text != "" {
		out.Lines = strings.Split(text, "\n")
	}
	out.Lines = out.Lines[max(len(out.Lines)-n, 0):]
	return out, nil
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
