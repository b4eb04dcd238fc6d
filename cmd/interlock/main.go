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
	// The first signal ends the context; later ones are told to the command, which then hurries.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals, again := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	go func() {
		for n := 0; ; n++ {
			s := <-signals
			if n == 0 {
				cancel()
				continue
			}
			select {
			case again <- s:
			default: // it has been told twice and does not listen: the next signal ends it hard
				signal.Stop(signals)
				signal.Reset(os.Interrupt, syscall.SIGTERM)
			}
		}
	}()
	return cli.Run(ctx, os.Args[1:],
		cli.Stdio{In: os.Stdin, Out: os.Stdout, Err: os.Stderr},
		cli.Env{Env: around, Program: os.Args[0], Interrupt: again},
		cli.Programs{})
}
