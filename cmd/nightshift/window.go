//go:build cgo

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/app"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/tray"
	"interlock.sh/tray/agents"
	"interlock.sh/tray/desktop"
	"interlock.sh/tray/icon"
	"interlock.sh/tray/link"
	"interlock.sh/tray/window"
)

// while is how long the window looks often: as long as it is open.
const while = 365 * 24 * time.Hour

// showWindow is the window, until it is closed or the app in the bar is gone.
func (p *program) showWindow(ctx context.Context, d desktop.Desktop) error {
	a := app.NewWithID("sh.interlock.nightshift")
	a.Settings().SetTheme(window.Theme())
	a.SetIcon(fyne.NewStaticResource("nightshift.png", icon.App(128)))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watcher := agents.New(p.home, clock.System)
	watcher.Eager(while)
	w, err := newWindow(a, p.Getenv("DISPLAY"))
	if err != nil {
		return err
	}
	removed := false // only touched on the main goroutine
	tell := link.Tell(p.Out)
	v := window.New(window.Options{
		Agents: watcher, Desktop: d, Version: version, Home: p.shown(), Close: w.Close, Do: fyne.Do,
		Tell: func(n tray.News) {
			removed = removed || n == tray.Uninstalled
			tell(n)
		},
	})
	w.SetContent(v.Content())
	w.SetPadded(false)
	w.Resize(fyne.NewSize(540, 640))
	w.SetMaster() // closing it ends this program
	context.AfterFunc(ctx, func() { fyne.Do(a.Quit) })
	go func() { _ = watcher.Run(ctx) }()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-watcher.Changed():
				fyne.Do(v.Renew)
			}
		}
	}()
	go func() {
		link.Pages(ctx, p.In, func(page tray.Page) {
			fyne.Do(func() {
				v.Show(page)
				w.Show()
				w.RequestFocus()
			})
		})
		fyne.Do(func() {
			if !removed { // what became of the uninstall stays to be read
				a.Quit()
			}
		})
	}()
	w.ShowAndRun()
	v.End()
	return nil
}

// newWindow opens the display, where the library panics when it cannot: nothing else is caught here.
func newWindow(a fyne.App, display string) (w fyne.Window, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fault.New(fault.Unavailable, "the display %q cannot be opened: %v", display, cause).
				WithHint("start it in the desktop session of this user")
		}
	}()
	return a.NewWindow("Nightshift"), nil
}

// shown is the home as a person writes it.
func (p *program) shown() string {
	if user, err := os.UserHomeDir(); err == nil {
		if below, ok := strings.CutPrefix(string(p.home), filepath.Clean(user)+string(filepath.Separator)); ok {
			return filepath.Join("~", below)
		}
	}
	return string(p.home)
}
