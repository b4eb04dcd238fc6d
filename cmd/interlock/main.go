// Command interlock is the command line, and behind two of its verbs the control plane and the host
// agent. It turns signals into the end of a context, and the result of cli.Run into the exit code.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"interlock.sh/agent/mainthread"
	"interlock.sh/cli"
	"interlock.sh/cli/profile"
)

// Children of the agent are forked from the main thread, so everything else runs beside it.
func main() { os.Exit(mainthread.Run(run)) }

func run() int {
	around, err := profile.OSEnv()
	if err != nil {
		fmt.Fprintln(os.Stderr, "interlock:", err)
		return cli.ExitError
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals, again := make(chan os.Signal, 1), make(chan os.Signal)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go relay(signals, cancel, again, die)
	return cli.Run(ctx, os.Args[1:],
		cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		cli.Env{Env: around, Program: os.Args[0], Interrupt: again})
}

// relay ends the context at the first signal. A later one goes to the command if it waits for one, and
// else ends the program at once.
func relay(signals <-chan os.Signal, cancel func(), again chan<- os.Signal, force func(os.Signal)) {
	<-signals
	cancel()
	for s := range signals {
		select {
		case again <- s:
		default:
			force(s)
		}
	}
}

// die lets a signal do what it does to a program that does not handle it.
func die(s os.Signal) {
	signal.Reset(s)
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(s) // it is deadly when it arrives; there is nobody to tell that it did not
	}
}
