// Command interlock-tui is the fleet dashboard in a terminal. This file owns its flags, signals and exit
// codes; package tui draws, and package profile decides whom to talk to.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "0.1.0"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	err := run(ctx, os.Args, os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2) // the flag set has said why
	default:
		fmt.Fprintln(os.Stderr, "interlock-tui:", err)
		os.Exit(1)
	}
}
