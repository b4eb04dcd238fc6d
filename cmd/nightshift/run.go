package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"golang.org/x/sync/errgroup"

	"interlock.sh/agent/enrollment"
	"interlock.sh/internal/clock"
	"interlock.sh/tray"
	"interlock.sh/tray/agents"
	"interlock.sh/tray/autostart"
	"interlock.sh/tray/bar"
	"interlock.sh/tray/desktop"
	"interlock.sh/tray/link"
	"interlock.sh/tray/menubar"
	"interlock.sh/tray/single"
)

var errUsage = errors.New("wrong usage")

// windowVerb makes this program the window. It is for the app itself, not for people.
const windowVerb = "window"

// program is one start.
type program struct {
	Args     []string
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string

	home enrollment.Home
	self string // where this program is started from for good
}

func (p *program) run(ctx context.Context) error {
	set := flag.NewFlagSet("nightshift", flag.ContinueOnError)
	set.SetOutput(p.Err)
	install := set.Bool("install-autostart", false, "start Nightshift at login, from now on")
	remove := set.Bool("remove-autostart", false, "no longer start Nightshift at login")
	page := set.String("page", "", "show a `page` of the window: roles, updates, about or uninstall")
	showVersion := set.Bool("version", false, "print the version and leave")
	if err := set.Parse(p.Args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if *showVersion {
		fmt.Fprintln(p.Out, "nightshift", version)
		return nil
	}
	if rest := set.Args(); len(rest) > 0 && (len(rest) > 1 || rest[0] != windowVerb) {
		fmt.Fprintf(p.Err, "nightshift takes no argument %q; see nightshift --help\n", rest[0])
		return errUsage
	}
	d, err := p.place()
	if err != nil {
		return err
	}
	switch {
	case *install || *remove:
		return p.autostart(*install)
	case set.NArg() == 1:
		if err := d.Window(); err != nil {
			return err
		}
		return p.showWindow(ctx, d)
	}
	return p.showBar(ctx, d, *page)
}

// place finds home and program.
func (p *program) place() (desktop.Desktop, error) {
	home, err := enrollment.DefaultHome()
	if err != nil {
		return desktop.Desktop{}, err
	}
	if h, err := filepath.Abs(string(home)); err == nil {
		home = enrollment.Home(h)
	}
	p.home = home
	d := desktop.Desktop{OS: runtime.GOOS, Getenv: p.Getenv, Home: string(home)}
	if p.self, err = os.Executable(); err != nil {
		return d, fmt.Errorf("find this program: %w", err)
	}
	p.self = d.Program(p.self)
	return d, nil
}

func (p *program) autostart(on bool) error {
	at, err := autostart.Here(runtime.GOOS)
	if err != nil {
		return err
	}
	if !on {
		if err := at.Remove(); err != nil {
			return err
		}
		fmt.Fprintln(p.Out, "Nightshift no longer starts at login.")
		return nil
	}
	home := ""
	if p.Getenv(enrollment.EnvHome) != "" {
		home = string(p.home)
	}
	if err := at.Install(p.self, home); err != nil {
		return err
	}
	fmt.Fprintf(p.Out, "Nightshift starts at login: %s\n", at.Path())
	return nil
}

// showBar is the app in the bar. When one runs already, that one shows the page, its first for none.
func (p *program) showBar(ctx context.Context, d desktop.Desktop, page string) error {
	if err := errors.Join(d.Session(), d.Bar()); err != nil {
		return err
	}
	socket, err := p.home.Socket(enrollment.BarSocket())
	if err != nil {
		return err
	}
	one, err := single.Acquire(socket)
	if errors.Is(err, single.ErrRunning) {
		return single.Tell(ctx, socket, tray.ParsePage(page).String())
	}
	if err != nil {
		return err
	}
	defer one.Close() //nolint:errcheck // the process ends, which unlocks too
	window := link.New(func() *exec.Cmd {
		cmd := exec.Command(p.self, windowVerb)
		cmd.Stderr = p.Err
		return cmd
	})
	watcher, item := agents.New(p.home, clock.System), bar.New()
	app := menubar.App{
		Bar: item, Agents: watcher, Window: window, Desktop: d, Told: one.Told(),
		Log: slog.New(slog.NewTextHandler(p.Err, nil)), Replaced: d.Replaced(p.self), Gone: func() bool { return d.Removed(p.self) },
	}
	all, ctx := errgroup.WithContext(ctx)
	ctx, cancel := context.WithCancel(ctx)
	all.Go(func() error { return watcher.Run(ctx) })
	begin := func() {
		app.Show()
		all.Go(func() error {
			defer cancel() // the owner quit
			return app.Run(ctx)
		})
		if page != "" {
			if err := window.Open(tray.ParsePage(page)); err != nil {
				fmt.Fprintln(p.Err, "nightshift:", err)
			}
		}
	}
	barErr := item.Run(ctx, begin) // on this goroutine: macOS wants the main thread
	cancel()
	err = all.Wait()
	window.Close(app.Removed())
	if err == nil {
		err = barErr
	}
	return err
}
