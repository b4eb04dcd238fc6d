package menubar_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit"
	"interlock.sh/tray"
	"interlock.sh/tray/menubar"
)

// world is everything around the app.
type world struct {
	t      *testing.T
	shown  chan []tray.Item // the newest alone
	clicks chan tray.Action
	opened chan struct{}

	changed chan struct{}
	news    chan tray.News
	ended   chan error
	told    chan string
	calls   chan string

	mu       sync.Mutex
	snap     tray.Snapshot
	err      error
	hold     chan struct{} // wishes wait for it, when it is there, or for the end of their context
	window   bool
	replaced bool
	gone     bool
	mood     tray.Mood
}

func newWorld(t *testing.T) *world {
	return &world{
		t: t, shown: make(chan []tray.Item, 1), clicks: make(chan tray.Action), opened: make(chan struct{}), changed: make(chan struct{}),
		news: make(chan tray.News), ended: make(chan error), told: make(chan string), calls: make(chan string, 100),
		snap: tray.Snapshot{Loaded: true},
	}
}

func (w *world) Show(menu []tray.Item, mood tray.Mood, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mood = mood
	select {
	case <-w.shown: // nobody looked
	default:
	}
	w.shown <- menu
}
func (w *world) Clicks() <-chan tray.Action { return w.clicks }
func (w *world) Opened() <-chan struct{}    { return w.opened }
func (w *world) Snapshot() tray.Snapshot    { w.mu.Lock(); defer w.mu.Unlock(); return w.snap }
func (w *world) Changed() <-chan struct{}   { return w.changed }
func (w *world) Eager(d time.Duration)      { w.calls <- "eager " + d.String() }
func (w *world) Choose(ctx context.Context, k tray.Key, m schedule.Mode) error {
	return w.call(ctx, "choose "+k.Group+" "+string(m))
}
func (w *world) PauseAll(ctx context.Context, d time.Duration) error {
	return w.call(ctx, "pause "+d.String())
}
func (w *world) ResumeAll(ctx context.Context) error { return w.call(ctx, "resume") }
func (w *world) Open(p tray.Page) error              { w.calls <- "window " + p.String(); return w.failure() }
func (w *world) News() <-chan tray.News              { return w.news }
func (w *world) Ended() <-chan error                 { return w.ended }
func (w *world) Shown() bool                         { w.mu.Lock(); defer w.mu.Unlock(); return w.window }

// browser is the desktop's side.
type browser struct{ *world }

func (b browser) Open(ctx context.Context, a string) error { return b.call(ctx, "browse "+a) }
func (b browser) CheckUpdates(ctx context.Context) error   { return b.call(ctx, "check") }

func (w *world) failure() error { w.mu.Lock(); defer w.mu.Unlock(); return w.err }

func (w *world) call(ctx context.Context, s string) error {
	w.mu.Lock()
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	w.calls <- s
	return w.failure()
}

// run starts the app; the result is what Run said.
func (w *world) run() (app *menubar.App, ended chan error) {
	app = &menubar.App{
		Bar: w, Agents: w, Window: w, Desktop: browser{w}, Told: w.told,
		Replaced: func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.replaced },
		Gone:     func() bool { w.mu.Lock(); defer w.mu.Unlock(); return w.gone },
	}
	ended = make(chan error, 1)
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(cancel)
	go func() { ended <- app.Run(ctx) }()
	return app, ended
}

func (w *world) expect(want string) {
	w.t.Helper()
	if got := testkit.Get(w.t, want, w.calls); got != want {
		w.t.Errorf("called %q, want %q", got, want)
	}
}

// awaitNotice waits until the line of the app itself says so; "" for none.
func (w *world) awaitNotice(want string) {
	w.t.Helper()
	for {
		menu := testkit.Get(w.t, "a menu that says "+want, w.shown)
		if n := menu[1]; (want == "" && n.Hidden) || (want != "" && !n.Hidden && n.Label == want) {
			return
		}
	}
}

func send[T any](t *testing.T, c chan T, v T) {
	t.Helper()
	testkit.Put(t, "what happens", c, v)
}

func TestEachClickDoesItsOwn(t *testing.T) {
	k := tray.Key{Group: "garage", Role: "client"}
	w := newWorld(t)
	w.run()
	for _, c := range []struct {
		act  tray.Action
		want string
	}{
		{tray.Action{Verb: tray.Choose, Key: k, Mode: schedule.Paused}, "choose garage paused"},
		{tray.Action{Verb: tray.PauseAll}, "pause 1h0m0s"},
		{tray.Action{Verb: tray.ResumeAll}, "resume"},
		{tray.Action{Verb: tray.Dashboard, URL: "https://fleet.test"}, "browse https://fleet.test"},
		{tray.Action{Verb: tray.ShowWindow}, "window roles"},
		{tray.Action{Verb: tray.Edit, Key: k}, "window hours garage/client"},
		{tray.Action{Verb: tray.Logs, Key: k}, "window logs garage/client"},
		{tray.Action{Verb: tray.Updates}, "window updates"},
		{tray.Action{Verb: tray.About}, "window about"},
		{tray.Action{Verb: tray.Uninstall}, "window uninstall"},
	} {
		send(t, w.clicks, c.act)
		w.expect(c.want)
	}
	send(t, w.opened, struct{}{})
	w.expect("eager 1m0s")
	send(t, w.told, "updates")
	w.expect("window updates")
	send(t, w.news, tray.Wished)
	w.expect("eager 0s")
}

func TestUpdatesAreCheckedAndTheirEndIsShown(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.mu.Lock()
	w.hold = make(chan struct{})
	w.mu.Unlock()
	send(t, w.clicks, tray.Action{Verb: tray.CheckNow})
	w.awaitNotice("Checking for updates…")
	close(w.hold)
	w.expect("check")
	w.expect("eager 0s")
	w.awaitNotice("")
}

func TestWhatWasRefusedIsShownUntilTheNextClick(t *testing.T) {
	w := newWorld(t)
	w.err = fault.New(fault.DiskFull, "no room on the disk").WithHint("free some")
	w.run()
	send(t, w.clicks, tray.Action{Verb: tray.Choose})
	w.awaitNotice("no room on the disk")
	w.mu.Lock()
	mood := w.mood
	w.err = nil
	w.mu.Unlock()
	if mood != tray.Trouble {
		t.Errorf("the picture says %q", mood)
	}
	send(t, w.clicks, tray.Action{Verb: tray.Choose})
	w.awaitNotice("")
}

func TestAWindowThatBreaksIsSaid(t *testing.T) {
	w := newWorld(t)
	w.run()
	send(t, w.ended, nil) // closed by its owner
	send(t, w.ended, errors.New("the window ended: exit status 3"))
	w.awaitNotice("the window ended: exit status 3")
	w.mu.Lock()
	w.err = errors.New("start the window: no such file")
	w.mu.Unlock()
	send(t, w.clicks, tray.Action{Verb: tray.ShowWindow})
	w.awaitNotice("start the window: no such file")
}

func TestOfTwoClicksTheLastHolds(t *testing.T) {
	w := newWorld(t)
	w.run()
	var want []string
	for i := range 50 {
		m := []schedule.Mode{schedule.Paused, schedule.Always}[i%2]
		send(t, w.clicks, tray.Action{Verb: tray.Choose, Key: tray.Key{Group: "g"}, Mode: m})
		want = append(want, "choose g "+string(m))
	}
	var got []string
	for range want {
		got = append(got, testkit.Get(t, "a call", w.calls))
	}
	if !slices.Equal(got, want) {
		t.Errorf("in the order %s", strings.Join(got, ", "))
	}
}

func TestQuitAndUninstallEndTheApp(t *testing.T) {
	w := newWorld(t)
	app, ended := w.run()
	send(t, w.clicks, tray.Action{Verb: tray.Quit})
	if err := testkit.Get(t, "the end of the app", ended); err != nil || app.Removed() {
		t.Errorf("quit: %v, removed %v", err, app.Removed())
	}
	app, ended = w.run()
	send(t, w.news, tray.Uninstalled)
	if err := testkit.Get(t, "the end of the app", ended); err != nil || !app.Removed() {
		t.Errorf("uninstalled: %v, removed %v", err, app.Removed())
	}
}

func TestAnUpdateOfTheAppWaitsForTheWindow(t *testing.T) {
	w := newWorld(t)
	_, ended := w.run()
	w.mu.Lock()
	w.replaced, w.window = true, true
	w.mu.Unlock()
	send(t, w.changed, struct{}{})
	send(t, w.opened, struct{}{}) // it was taken, so the change before it did not end the app
	w.expect("eager 1m0s")
	w.mu.Lock()
	w.window = false
	w.mu.Unlock()
	send(t, w.changed, struct{}{})
	if err := testkit.Get(t, "the end of the app", ended); !errors.Is(err, menubar.ErrReplaced) {
		t.Error(err)
	}
}

func TestAnAppThatWasUninstalledByAnotherProgramLeaves(t *testing.T) {
	w := newWorld(t)
	_, ended := w.run()
	send(t, w.changed, struct{}{})
	w.mu.Lock()
	w.gone = true
	w.mu.Unlock()
	send(t, w.changed, struct{}{})
	if err := testkit.Get(t, "the end of the app", ended); err != nil {
		t.Error(err)
	}
}

func TestAStuckWishDoesNotKeepTheApp(t *testing.T) {
	w := newWorld(t)
	_, ended := w.run()
	w.mu.Lock()
	w.hold = make(chan struct{})
	w.mu.Unlock()
	send(t, w.clicks, tray.Action{Verb: tray.PauseAll})
	send(t, w.clicks, tray.Action{Verb: tray.ShowWindow}) // the menu still works
	w.expect("window roles")
	send(t, w.clicks, tray.Action{Verb: tray.Quit}) // nothing but the end of its context ends the call
	if err := testkit.Get(t, "the end of the app", ended); err != nil {
		t.Error(err)
	}
}
