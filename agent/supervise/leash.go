package supervise

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Leash is what ends a child when the agent is gone, however it went.
type Leash string

// The leashes.
const (
	// LeashDeathsig is the kernel's own: it kills the child when the thread that forked it ends. Linux only.
	LeashDeathsig Leash = "deathsig"
	// LeashPipe is a small process between agent and child, run by RunChild, that watches a pipe of the
	// agent's and kills the child's group when the pipe closes. On every system.
	LeashPipe Leash = "pipe"
)

// rejoinGrace is how long a closed pipe may stay closed: time for an agent that replaces itself to open
// it again, and short enough that a dead agent's model is soon gone.
const rejoinGrace = time.Second

// tether is the agent's end of a leash; the zero value is one that needs no end.
type tether struct {
	path string
	file *os.File
}

// newTether makes the pipe at path. Opened for reading and writing, it needs no reader to be there yet.
func newTether(path string) (tether, error) {
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return tether{}, fmt.Errorf("clear the leash: %w", err)
	}
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return tether{}, fmt.Errorf("make the leash %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return tether{}, fmt.Errorf("hold the leash: %w", err)
	}
	return tether{path: path, file: f}, nil
}

// letGo ends the leash; what is left at its other end is killed.
func (t tether) letGo() {
	if t.file != nil {
		_ = t.file.Close()
		_ = os.Remove(t.path)
	}
}

// shimmed is the command that runs cmd under RunChild.
func shimmed(shim []string, pipe string, grace time.Duration, cmd Command) *exec.Cmd {
	args := append([]string{}, shim[1:]...)
	args = append(args, "--pipe", pipe, "--grace", grace.String(), "--", cmd.Path)
	return exec.Command(shim[0], append(args, cmd.Args...)...)
}
