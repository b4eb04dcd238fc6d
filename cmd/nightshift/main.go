// Command nightshift is the menu-bar app: the item in the bar, and as a program of its own while somebody looks,
// the window. This directory owns flags, signals and exit codes; tray has everything else.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"interlock.sh/fault"
	"interlock.sh/tray/menubar"
)

// version is set by the linker.
var version = "0.1.0"

// The exit codes.
const (
	exitFailed    = 1
	exitUsage     = 2
	exitNoDesktop = 3 // nothing to show it on: an installer goes on, a person reads why
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	p := program{Args: os.Args[1:], In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	err := p.run(ctx)
	stop()
	if errors.Is(err, menubar.ErrReplaced) {
		err = again(p.self)
	}
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(exitUsage) // the flag set has said why
	default:
		fmt.Fprintln(os.Stderr, "nightshift:", err)
		if errors.Is(err, fault.Unavailable) {
			os.Exit(exitNoDesktop)
		}
		os.Exit(exitFailed)
	}
}

// again makes this process the newer version.
func again(program string) error {
	if err := syscall.Exec(program, os.Args, os.Environ()); err != nil {
		return fmt.Errorf("start the newer version: %w", err)
	}
	return nil
}
