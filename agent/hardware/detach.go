package hardware

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

const startWithin = 20 * time.Second

// Start starts a program as the worker, away from this terminal, and returns once it says that it runs.
// A worker that runs already goes on.
func (h Home) Start(ctx context.Context, c clock.Clock, program string, args ...string) (State, error) {
	st, err := h.State()
	if err != nil || st.Running {
		return st, err
	}
	if err := h.prepare(); err != nil {
		return st, err
	}
	words, err := os.OpenFile(h.lastWords(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return st, fmt.Errorf("open the log: %w", err)
	}
	defer words.Close() //nolint:errcheck // the child has its own
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = string(h), words, words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return st, fault.Wrap(err, fault.Invalid, "the worker cannot be started: %v", err).WithHint("run the install line again")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	err = retry.Poll(ctx, c, lookEvery, startWithin, func() (done bool, err error) {
		if st, err = h.State(); err != nil || st.Running && st.Process.PID == cmd.Process.Pid {
			return true, err
		}
		select {
		case err := <-ended:
			return false, fault.Wrap(errors.Join(err, errEnded), fault.Unavailable, "the worker ended at once: %s", h.said()).WithHint("look: interlock hardware doctor")
		default:
			return false, nil
		}
	})
	if errors.Is(err, retry.ErrLate) {
		err = fault.New(fault.Unavailable, "the worker (pid %d) said nothing within %v", cmd.Process.Pid, startWithin).WithHint("see %s", h.Log())
	}
	return st, err
}

var errEnded = errors.New("ended")

// lastWords is where a worker writes before it has a log.
func (h Home) lastWords() string { return h.Logs() + "/last-words.log" }

// said is the last line of it.
func (h Home) said() string {
	b, err := os.ReadFile(h.lastWords())
	if err != nil || len(b) == 0 {
		return "it said nothing"
	}
	if len(b) > 400 {
		b = b[len(b)-400:]
	}
	return string(b)
}
