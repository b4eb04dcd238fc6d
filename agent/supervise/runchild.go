package supervise

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// shimFailed is RunChild's exit code when it did not come to running the program.
const shimFailed = 125

// RunChild is the hidden command that holds a child on LeashPipe:
//
//	interlock run-child --pipe PATH --grace DURATION -- PROGRAM ARGS…
//
// It runs the program in its own process group and returns the program's exit code, 128 + the signal
// when a signal ended it. When the pipe has no writer any more, and gets none within the grace, it
// kills the group.
func RunChild(args []string) int {
	flags := flag.NewFlagSet("run-child", flag.ContinueOnError)
	path := flags.String("pipe", "", "named pipe that the agent holds open")
	grace := flags.Duration("grace", rejoinGrace, "how long the pipe may stay closed")
	if err := flags.Parse(args); err != nil {
		return shimFailed
	}
	if *path == "" || flags.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "run-child: --pipe PATH and a program are needed; the agent runs this, not you")
		return shimFailed
	}
	// Signals to the group reach the program by themselves; the shim stays to see it end. They are
	// caught, not ignored: a program started under ignored signals would ignore them too.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)

	pipe, err := openPipe(*path, *grace)
	if err != nil {
		fmt.Fprintf(os.Stderr, "run-child: %v\n", err)
		return shimFailed
	}
	cmd := exec.Command(flags.Arg(0), flags.Args()[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		fmt.Fprintf(os.Stderr, "run-child: start: %v\n", err)
		return shimFailed
	}
	go func() { // ends with the process
		for err == nil {
			_, _ = io.Copy(io.Discard, pipe) // until the last writer is gone
			_ = pipe.Close()
			pipe, err = openPipe(*path, *grace)
		}
		killOwnGroup(cmd.Process)
	}()
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		fmt.Fprintf(os.Stderr, "run-child: wait: %v\n", err)
		return shimFailed
	}
	return exitCode(cmd.ProcessState)
}

// openPipe opens the pipe for reading, which waits for a writer, for at most the grace.
func openPipe(path string, grace time.Duration) (*os.File, error) {
	type opened struct {
		f   *os.File
		err error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(path, os.O_RDONLY, 0)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.f, o.err
	case <-time.After(grace):
		return nil, errors.New("the agent is gone")
	}
}

// killOwnGroup kills the program and what it started, and this process with them. Where the shim leads
// no group, as when somebody runs it by hand, the group is that person's: only the program is killed.
func killOwnGroup(program *os.Process) {
	if syscall.Getpgrp() == os.Getpid() {
		_ = syscall.Kill(-os.Getpid(), syscall.SIGKILL)
	}
	_ = program.Kill()
}

// exitCode is a shell's view of how a process ended.
func exitCode(p *os.ProcessState) int {
	if ws, ok := p.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return p.ExitCode()
}
