//go:build linux || cgo

package window

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/layout"
	"fyne.io/fyne/v2/widget"

	"interlock.sh/fault"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

// Agents are the agents of this machine.
type Agents interface {
	Snapshot() tray.Snapshot
	Choose(ctx context.Context, k tray.Key, mode schedule.Mode) error
	SetAvailability(ctx context.Context, k tray.Key, a schedule.Availability) error
	PauseAll(ctx context.Context, d time.Duration) error
	ResumeAll(ctx context.Context) error
	Logs(ctx context.Context, k tray.Key, lines int) ([]string, error)
}

// Desktop opens addresses and runs the installed programs.
type Desktop interface {
	Open(ctx context.Context, address string) error
	CheckUpdates(ctx context.Context) error
	Uninstall(ctx context.Context) (string, error)
}

// Options is what a window needs.
type Options struct {
	Agents  Agents
	Desktop Desktop
	Version string
	Home    string          // where everything is kept, as it is shown
	Tell    func(tray.News) // to the app in the bar
	Close   func()          // closes the window
	Do      func(func())    // runs on the main goroutine; fyne.Do
}

// View is the content of the window.
type View struct {
	o    Options
	ctx  context.Context // of the calls; ended by End
	end  context.CancelFunc
	wait sync.WaitGroup

	root    *fyne.Container
	body    *fyne.Container
	trouble *widget.Label // what was refused last
	tabs    map[tray.PageName]*widget.Button
	page    page
	roles   *rolesPage // keeps its place while others are shown
}

// page is one page of the window.
type page interface {
	object() fyne.CanvasObject
	show(s tray.Snapshot) // brings it to what is known now
}

const (
	actIn   = 10 * time.Second
	checkIn = 3 * time.Minute
)

// New makes the content; it shows the first page.
func New(o Options) *View {
	v := &View{o: o, trouble: warning(), tabs: map[tray.PageName]*widget.Button{}, body: container.NewStack()}
	v.ctx, v.end = context.WithCancel(context.Background())
	nav := container.NewHBox()
	for _, t := range []struct {
		name  tray.PageName
		label string
	}{{tray.RolesPage, "This machine"}, {tray.UpdatesPage, "Updates"}, {tray.AboutPage, "About"}} {
		b := widget.NewButton(t.label, func() { v.Show(tray.Page{Name: t.name}) })
		v.tabs[t.name] = b
		nav.Add(b)
	}
	bar := container.New(layout.NewCustomPaddedLayout(gap, gap, margin, margin), container.NewVBox(nav, v.trouble))
	top := newGround(container.New(layout.NewCustomPaddedVBoxLayout(0), bar, widget.NewSeparator()))
	v.root = container.NewBorder(top, nil, nil, nil, v.body)
	v.roles = newRolesPage(v)
	v.Show(tray.Page{Name: tray.RolesPage})
	return v
}

// Content is what the window shows.
func (v *View) Content() fyne.CanvasObject { return newGround(v.root) }

// End gives up the calls under way and waits for them.
func (v *View) End() {
	v.end()
	v.wait.Wait()
}

// Show goes to a page.
func (v *View) Show(p tray.Page) {
	s := v.o.Agents.Snapshot()
	v.complain(nil)
	switch p.Name {
	case tray.HoursPage:
		v.page = newHoursPage(v, p.Key, s)
	case tray.LogsPage:
		v.page = newLogsPage(v, p.Key)
	case tray.UpdatesPage:
		v.page = newUpdatesPage(v)
	case tray.AboutPage:
		v.page = newAboutPage(v)
	case tray.UninstallPage:
		v.page = newUninstallPage(v)
	default:
		p.Name, v.page = tray.RolesPage, v.roles
	}
	for name, b := range v.tabs {
		press(b, name == p.Name)
	}
	v.page.show(s)
	v.body.Objects = []fyne.CanvasObject{v.page.object()}
	v.body.Refresh()
}

// Renew shows what the snapshot says now.
func (v *View) Renew() { v.page.show(v.o.Agents.Snapshot()) }

// work calls something that takes time and comes back with what it said. Its end is drawn even when the
// page was left.
func (v *View) work(within time.Duration, do func(context.Context) error, done func(error)) {
	v.wait.Go(func() {
		ctx, cancel := context.WithTimeout(v.ctx, within)
		defer cancel()
		err := do(ctx)
		if v.ctx.Err() != nil {
			return
		}
		if err != nil && ctx.Err() != nil {
			err = fault.Wrap(err, fault.Unavailable, "there was no answer within %s", within)
		}
		v.o.Do(func() { done(err) })
	})
}

// wish carries an owner's wish to agents; what is refused is said above the page.
func (v *View) wish(do func(context.Context) error, done func(error)) {
	v.complain(nil)
	v.work(actIn, do, func(err error) {
		v.complain(err)
		v.o.Tell(tray.Wished)
		v.Renew()
		if done != nil {
			done(err)
		}
	})
}

// complain says above the page what went wrong; nothing for nil.
func (v *View) complain(err error) {
	if say(v.trouble, words(err)) {
		arrange(v.root)
	}
}

// words is an error as it is shown, with the way out.
func words(err error) string {
	if err == nil {
		return ""
	}
	var coded *fault.Error
	if errors.As(err, &coded) {
		return sentence(coded.Message, coded.Hint)
	}
	return sentence(err.Error(), "")
}

// sentence begins with a capital letter and ends with the way out, in a sentence of its own where the first
// has its colon.
func sentence(message, hint string) string {
	switch {
	case hint == "":
		return tray.Capital(message) + "."
	case strings.Contains(message, ": "):
		return tray.Capital(message) + ". " + tray.Capital(hint) + "."
	}
	return tray.Capital(message) + ": " + hint + "."
}

// back is the head of a page that belongs to another.
func (v *View) back(title string, to tray.Page) fyne.CanvasObject {
	b := widget.NewButton("‹ Back", func() { v.Show(to) })
	return container.NewBorder(nil, nil, b, nil, heading(title))
}
