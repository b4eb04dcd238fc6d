package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/charmbracelet/lipgloss"
	"golang.org/x/term"

	"interlock.sh/cli/profile"
	"interlock.sh/fault"
	"interlock.sh/tui"
)

var errUsage = errors.New("wrong usage")

// run resolves server and credential, then shows the dashboard, or prints one frame of it.
func run(ctx context.Context, args []string, in io.Reader, out, errs io.Writer) error {
	f := profile.Flags{Program: args[0]}
	set := flag.NewFlagSet("interlock-tui", flag.ContinueOnError)
	set.SetOutput(errs)
	set.StringVar(&f.API, "api", "", "address of the control plane")
	set.StringVar(&f.Project, "project", "", "project to show, where the login has several")
	set.StringVar(&f.Pin, "pin", "", "pin of the server's key, as it prints it")
	set.BoolVar(&f.Local, "local", false, "use the local profile")
	set.BoolVar(&f.InsecureHTTP, "insecure-http", false, "allow plain http to another machine")
	frame := set.String("frame", "", "print one frame of `WIDTHxHEIGHT` cells and leave")
	page := set.String("page", string(tui.FleetPage), "page of the frame: fleet, machine, tasks, ask or help")
	showVersion := set.Bool("version", false, "print the version and leave")
	if err := set.Parse(args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if *showVersion {
		fmt.Fprintln(out, "interlock-tui", version)
		return nil
	}
	env, err := profile.OSEnv()
	if err != nil {
		return err
	}
	who, err := profile.Resolve(f, env)
	if err != nil {
		return err
	}
	for _, w := range who.Warnings {
		fmt.Fprintln(errs, "warning:", w)
	}
	c, err := who.Client("interlock-tui/" + version)
	if err != nil {
		return err
	}
	defer c.Close()
	o := tui.Options{Backend: c, Renderer: lipgloss.NewRenderer(out), Explain: func(err error) error { return explain(who, err) }}
	switch {
	case *frame != "":
		return printFrame(ctx, o, *frame, *page, out)
	case !isTerminal(in) || !isTerminal(out):
		return fault.New(fault.Invalid, "the dashboard needs a terminal for input and output").
			WithHint("in a script print one frame with --frame 120x40")
	}
	return tui.Run(ctx, o, in, out)
}

// explain says which credential was refused, or that there is none.
func explain(who profile.Resolved, err error) error {
	if fault.CodeOf(err) == fault.Unauthenticated {
		if none := who.NeedCredential(); none != nil {
			return none
		}
	}
	return who.Explain(err)
}

func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

func printFrame(ctx context.Context, o tui.Options, size, page string, out io.Writer) error {
	w, h, err := tui.ParseSize(size)
	if err != nil {
		return err
	}
	p, err := tui.ParsePage(page)
	if err != nil {
		return err
	}
	text, err := tui.Frame(ctx, o, p, w, h)
	fmt.Fprint(out, text)
	return err
}
