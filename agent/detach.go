package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

const (
	startWithin = 20 * time.Second
	stopWithin  = drainWithin + 30*time.Second
	lookEvery   = 100 * time.Millisecond
	logCap      = 5 << 20 // a log that has grown so large is set aside
)

// LogPath is the log of an enrollment's agent.
func LogPath(e enrollment.Enrollment) string { return logPath(e.Dir()) }

// RecordPid notes this process as the agent of an enrollment.
func RecordPid(e enrollment.Enrollment) error {
	me, err := supervise.Self()
	if err != nil {
		return err
	}
	b, err := json.Marshal(me)
	if err != nil {
		return err
	}
	return atomicfile.Write(e.PidFile(), b, 0o600)
}

// Running is the process of an enrollment's agent; false when none runs.
func Running(e enrollment.Enrollment) (supervise.Identity, bool) {
	return supervise.Recorded(e.PidFile())
}

// Launch is how an agent is started in the background.
type Launch struct {
	Program  string
	Args     []string
	Version  string           // of Program
	Replaces func(old string) // is told when an agent of another version is there, before its end is awaited; may be nil
}

// StartDetached starts a program as a process of its own, away from this terminal, with its output in
// the agent's log, and returns once the agent answers on its socket. An agent that runs already goes on,
// unless it is of another version or of an earlier enrollment. Such a one finishes its work; then it goes on
// as the program in place, with its models loaded, where it can, and else makes way.
func StartDetached(ctx context.Context, e enrollment.Enrollment, l Launch) (localapi.Status, error) {
	socket, err := e.Home.Socket(e.Group, e.Role)
	if err != nil {
		return localapi.Status{}, err
	}
	door := localapi.Dial(socket)
	if st, err := door.Status(ctx); err == nil {
		if st.Machine == e.Machine {
			if st.Report.Version == l.Version {
				return st, nil
			}
			if l.Replaces != nil {
				l.Replaces(st.Report.Version)
			}
			if st, err := goOnAs(ctx, door, st, l); err == nil || ctx.Err() != nil {
				return st, err
			}
		}
		// One of an earlier enrollment holds what is worth nothing.
		if err := StopDetached(ctx, e); err != nil {
			return localapi.Status{}, err
		}
	}
	log, err := openLog(LogPath(e))
	if err != nil {
		return localapi.Status{}, err
	}
	defer log.Close() //nolint:errcheck // the child has its own descriptor
	from, err := log.Seek(0, io.SeekEnd)
	if err != nil {
		return localapi.Status{}, fmt.Errorf("open log: %w", err)
	}
	cmd := exec.Command(l.Program, l.Args...)
	cmd.Env = withoutKey(os.Environ())
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, string(e.Home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return localapi.Status{}, fmt.Errorf("start agent: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	ctx, cancel := context.WithTimeoutCause(ctx, startWithin, retry.ErrLate) // a look may hang
	defer cancel()
	var st localapi.Status
	err = retry.Poll(ctx, clock.System, lookEvery, startWithin, func() (bool, error) {
		var asked error
		if st, asked = door.Status(ctx); asked == nil {
			return true, nil
		}
		select {
		case err := <-ended:
			return false, endedAtOnce(e, from, err)
		default:
			return false, nil
		}
	})
	if errors.Is(err, retry.ErrLate) {
		err = fault.New(fault.Unavailable, "the agent does not answer within %v", startWithin).WithHint("its log: %s", LogPath(e))
	}
	return st, err
}

// endedAtOnce says how an agent that was just started ended: with what it logged since.
func endedAtOnce(e enrollment.Enrollment, from int64, cause error) error {
	why := "ended at once"
	if cause != nil {
		why += " (" + cause.Error() + ")"
	}
	if last, err := tailFile(LogPath(e), from, 3); err == nil && len(last.Lines) > 0 {
		why += ": " + strings.Join(last.Lines, "; ")
	}
	return fault.New(fault.Unavailable, "the agent %s", why).WithHint("its log: %s", LogPath(e))
}

// goOnAs has a running agent replace itself in place. It fails where the agent does not know how, or stands
// for another program than the one that is to run.
func goOnAs(ctx context.Context, door *localapi.Client, st localapi.Status, l Launch) (localapi.Status, error) {
	if !sameFile(st.Program, l.Program) {
		return st, errors.New("it would go on as another program")
	}
	if err := door.Restart(ctx, drainWithin); err != nil {
		return st, fmt.Errorf("restart in place: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stopWithin, retry.ErrLate)
	defer cancel()
	err := retry.Poll(ctx, clock.System, lookEvery, stopWithin, func() (bool, error) {
		now, err := door.Status(ctx)
		if err != nil { // between two images its door is closed for a moment
			return false, nil //nolint:nilerr // asked again
		}
		st = now
		if slices.ContainsFunc(now.Report.Warnings, func(w string) bool { return strings.HasPrefix(w, cannotGoOn) }) {
			return false, errors.New("it " + cannotGoOn)
		}
		return now.Version == l.Version, nil
	})
	return st, err
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// envBootstrapKey is where the install line has its key. The agent has no use for it.
const envBootstrapKey = "INTERLOCK_MODEL_KEY"

func withoutKey(env []string) []string {
	return slices.DeleteFunc(env, func(v string) bool { return strings.HasPrefix(v, envBootstrapKey+"=") })
}

// StopDetached tells an agent to stop and waits until it is gone: it finishes the work in hand first.
func StopDetached(ctx context.Context, e enrollment.Enrollment) error {
	id, ok := Running(e)
	if !ok {
		return fault.New(fault.NotFound, "no agent of group %s, role %s runs", e.Group, e.Role)
	}
	if err := syscall.Kill(id.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop agent: %w", err)
	}
	if retry.Poll(ctx, clock.System, lookEvery, stopWithin, func() (bool, error) { return !id.Running(), nil }) != nil {
		return fault.New(fault.Unavailable, "the agent (pid %d) still finishes its work", id.PID).WithHint("wait, or: kill -9 %d", id.PID)
	}
	if next, _ := Running(e); next != id { // a service started another at once, which has written its own
		return nil
	}
	if err := os.Remove(e.PidFile()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget agent: %w", err)
	}
	return nil
}

// openLog opens the agent's log for appending; one that has grown large is set aside first.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make log folder: %w", err)
	}
	if st, err := os.Stat(path); err == nil && st.Size() > logCap {
		if err := setLogAside(path); err != nil {
			return nil, err
		}
	}
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
}

// NewLogger writes an agent's log as text.
func NewLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// Door is the local API of an enrollment's agent, for what its owner wants: it waits while the agent's process
// runs and its door is closed for a moment.
func Door(e enrollment.Enrollment) (*localapi.Client, error) {
	socket, err := e.Home.Socket(e.Group, e.Role)
	return localapi.DialRunning(socket, func() bool { _, runs := Running(e); return runs }), err
}
