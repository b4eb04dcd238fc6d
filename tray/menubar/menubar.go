// Package menubar is the running menu-bar app: it shows the snapshot of the machine's agents as a menu and
// carries out what is clicked, through the small interfaces below. It draws nothing and asks no agent itself.
package menubar

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

// Bar shows a menu and says what was clicked.
type Bar interface {
	Show(menu []tray.Item, mood tray.Mood, tip string)
	Clicks() <-chan tray.Action
	Opened() <-chan struct{}
}

// Agents are the agents of this machine.
type Agents interface {
	Snapshot() tray.Snapshot
	Changed() <-chan struct{}
	Eager(d time.Duration)
	Choose(ctx context.Context, k tray.Key, mode schedule.Mode) error
	PauseAll(ctx context.Context, d time.Duration) error
	ResumeAll(ctx context.Context) error
}

// Window is the app's window, a program of its own.
type Window interface {
	// Open shows a page, in the window that is open or in a new one.
	Open(p tray.Page) error
	// News are what the window tells.
	News() <-chan tray.News
	// Ended gets a value when a window is gone: why, when it broke.
	Ended() <-chan error
	// Shown reports whether there is a window.
	Shown() bool
}

// Desktop opens addresses and runs the installed programs.
type Desktop interface {
	Open(ctx context.Context, address string) error
	CheckUpdates(ctx context.Context) error
}

// ErrReplaced says that a newer version of the app stands where this one was started.
var ErrReplaced = errors.New("the app was updated")

// App is the running app. All fields but Log, Told, Replaced and Gone are needed.
type App struct {
	Bar     Bar
	Agents  Agents
	Window  Window
	Desktop Desktop
	Told    <-chan string // what later starts of the app say: a page to show
	Log     *slog.Logger

	Replaced func() bool // whether the app was updated on disk; asked now and then
	Gone     func() bool // whether everything was uninstalled by another program; asked now and then

	wait    sync.WaitGroup
	done    chan result
	last    <-chan struct{} // closed when the newest wish was carried out
	failure string          // what went wrong last, until the next click
	checks  int             // looks for updates that are under way
	removed bool
}

// result is an action that ended.
type result struct {
	action tray.Action
	err    error
}

const (
	looked  = time.Minute      // how long somebody who opened the menu looks at it
	paused  = time.Hour        // "Pause all for an hour"
	actIn   = 10 * time.Second // an agent takes a wish at once; a stuck one is given up
	checkIn = 3 * time.Minute
)

// Show draws what is known now.
func (a *App) Show() {
	s := a.Agents.Snapshot()
	mood, notice := s.Mood(), a.failure
	switch {
	case notice != "":
		mood = tray.Trouble
	case a.checks > 0:
		notice = "Checking for updates…"
	}
	a.Bar.Show(tray.Menu(s, notice), mood, s.Summary())
}

// Run works until ctx ends, the owner quits or everything was uninstalled, which is nil, or until the app was
// replaced. Of the last two, none happens while a window is open.
func (a *App) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	a.done = make(chan result)
	defer a.wait.Wait()
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.Agents.Changed():
			switch shown := a.Window.Shown(); {
			case shown: // what it shows stays to be read
			case a.Replaced != nil && a.Replaced():
				return ErrReplaced
			case a.Gone != nil && a.Gone():
				return nil
			}
		case <-a.Bar.Opened():
			a.Agents.Eager(looked)
			continue
		case act := <-a.Bar.Clicks():
			if act.Verb == tray.Quit {
				return nil
			}
			a.act(ctx, act)
		case r := <-a.done:
			a.ended(r)
		case page := <-a.Told:
			a.open(tray.ParsePage(page))
		case news := <-a.Window.News():
			if news == tray.Uninstalled {
				a.removed = true
				return nil
			}
			a.Agents.Eager(0)
			continue
		case err := <-a.Window.Ended():
			if err == nil {
				continue
			}
			a.fail("show the window", err)
		}
		a.Show()
	}
}

// Removed reports whether Run ended because everything was uninstalled. It is asked after Run.
func (a *App) Removed() bool { return a.removed }

// page is what a verb that only shows something shows.
func page(act tray.Action) (tray.Page, bool) {
	switch act.Verb {
	case tray.ShowWindow:
		return tray.Page{Name: tray.RolesPage}, true
	case tray.Edit:
		return tray.Page{Name: tray.HoursPage, Key: act.Key}, true
	case tray.Logs:
		return tray.Page{Name: tray.LogsPage, Key: act.Key}, true
	case tray.Updates:
		return tray.Page{Name: tray.UpdatesPage}, true
	case tray.About:
		return tray.Page{Name: tray.AboutPage}, true
	case tray.Uninstall:
		return tray.Page{Name: tray.UninstallPage}, true
	}
	return tray.Page{}, false
}

func (a *App) open(p tray.Page) {
	a.failure = ""
	if err := a.Window.Open(p); err != nil {
		a.fail("open the window", err)
	}
}

// act begins what was clicked.
func (a *App) act(ctx context.Context, act tray.Action) {
	if p, ok := page(act); ok {
		a.open(p)
		return
	}
	a.failure = ""
	switch act.Verb {
	case tray.Choose:
		a.wish(ctx, act, func(ctx context.Context) error { return a.Agents.Choose(ctx, act.Key, act.Mode) })
	case tray.PauseAll:
		a.wish(ctx, act, func(ctx context.Context) error { return a.Agents.PauseAll(ctx, paused) })
	case tray.ResumeAll:
		a.wish(ctx, act, a.Agents.ResumeAll)
	case tray.Dashboard:
		a.begin(ctx, act, actIn, func(ctx context.Context) error { return a.Desktop.Open(ctx, act.URL) })
	case tray.CheckNow:
		a.checks++
		a.begin(ctx, act, checkIn, a.Desktop.CheckUpdates)
	}
}

// wish carries out what the owner wants of agents after the wishes before it: of two clicks, the last holds.
func (a *App) wish(ctx context.Context, act tray.Action, do func(context.Context) error) {
	before, carried := a.last, make(chan struct{})
	a.last = carried
	a.wait.Go(func() {
		defer close(carried)
		if before != nil {
			<-before
		}
		a.report(ctx, act, carryOut(ctx, actIn, do))
	})
}

// begin carries out what needs no order.
func (a *App) begin(ctx context.Context, act tray.Action, within time.Duration, do func(context.Context) error) {
	a.wait.Go(func() { a.report(ctx, act, carryOut(ctx, within, do)) })
}

func carryOut(ctx context.Context, within time.Duration, do func(context.Context) error) error {
	bound, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	err := do(bound)
	if err != nil && bound.Err() != nil && ctx.Err() == nil {
		return fault.Wrap(err, fault.Unavailable, "there was no answer within %s", within)
	}
	return err
}

func (a *App) report(ctx context.Context, act tray.Action, err error) {
	select {
	case a.done <- result{act, err}:
	case <-ctx.Done():
	}
}

// ended shows what became of an action: nothing when it went well, since the menu says so itself.
func (a *App) ended(r result) {
	if r.action.Verb == tray.CheckNow {
		a.checks--
		a.Agents.Eager(0)
	}
	if r.err != nil {
		a.fail(string(r.action.Verb), r.err)
	}
}

func (a *App) fail(what string, err error) {
	if a.Log != nil {
		a.Log.Warn("not carried out", slog.String("what", what), slog.Any("cause", err))
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		a.failure = coded.Message // the hint is for the window and the log: a menu has one short line
		return
	}
	a.failure = fmt.Sprint(err)
}
