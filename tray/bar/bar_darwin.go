//go:build cgo

package bar

import (
	"context"
	"sync"

	"fyne.io/systray"

	"interlock.sh/tray"
	"interlock.sh/tray/icon"
)

// Bar is the item of this process. There is one a process: the library below keeps it in globals.
type Bar struct {
	clicks chan tray.Action
	done   chan struct{}

	mu    sync.Mutex
	built []place
	shown []tray.Item
	mood  tray.Mood
	tip   string
}

// place is one line of the menu that stands there; nil for a separator.
type place struct {
	item   *systray.MenuItem
	below  []place
	action *action
}

// action is what a place means now.
type action struct {
	mu sync.Mutex
	is tray.Action
}

func (a *action) set(is tray.Action) { a.mu.Lock(); a.is = is; a.mu.Unlock() }
func (a *action) get() tray.Action   { a.mu.Lock(); defer a.mu.Unlock(); return a.is }

// New makes the item; Run shows it.
func New() *Bar {
	return &Bar{clicks: make(chan tray.Action, 16), done: make(chan struct{})}
}

// Run shows the item and stays until ctx ends. It must run on the main thread. ready shows the first menu.
func (b *Bar) Run(ctx context.Context, ready func()) error {
	defer close(b.done)
	stop := context.AfterFunc(ctx, systray.Quit)
	defer stop()
	systray.Run(ready, func() {})
	return nil
}

// Clicks are the actions of what was clicked.
func (b *Bar) Clicks() <-chan tray.Action { return b.clicks }

// Opened gets a value when somebody opens the menu, where the system tells.
func (b *Bar) Opened() <-chan struct{} { return systray.TrayOpenedCh }

// Show makes the item look so. What is shown already is left alone: each change costs a round through the
// panel, and an open menu must not jump.
func (b *Bar) Show(menu []tray.Item, mood tray.Mood, tip string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mood != b.mood {
		systray.SetTemplateIcon(icon.Template(mood, pixels), icon.PNG(mood, pixels))
		b.mood = mood
	}
	if tip != b.tip {
		systray.SetTooltip(title + ": " + tip)
		b.tip = tip
	}
	if b.built == nil || !alike(b.shown, menu) {
		systray.ResetMenu()
		b.built = b.build(nil, menu)
	} else {
		update(b.built, b.shown, menu)
	}
	b.shown = menu
}

func (b *Bar) build(parent *systray.MenuItem, items []tray.Item) []place {
	out := make([]place, len(items))
	for i, it := range items {
		if it.Kind == tray.Separator {
			separator(parent)
			continue
		}
		p := place{item: add(parent, it), action: &action{is: it.Action}}
		if it.Kind == tray.Submenu {
			p.below = b.build(p.item, it.Items)
		}
		if !it.Enabled {
			p.item.Disable()
		}
		if it.Hidden {
			p.item.Hide()
		}
		go b.listen(p)
		out[i] = p
	}
	return out
}

// listen passes on the clicks of a place until the place is taken away, or the bar ends.
func (b *Bar) listen(p place) {
	for {
		select {
		case _, there := <-p.item.ClickedCh:
			if !there {
				return
			}
			select {
			case b.clicks <- p.action.get():
			case <-b.done:
				return
			}
		case <-b.done:
			return
		}
	}
}

func separator(parent *systray.MenuItem) {
	if parent == nil {
		systray.AddSeparator()
	} else {
		parent.AddSeparator()
	}
}

func add(parent *systray.MenuItem, it tray.Item) *systray.MenuItem {
	label := it.Label
	switch {
	case it.Kind == tray.Choice && parent == nil:
		return systray.AddMenuItemCheckbox(label, "", it.Checked)
	case it.Kind == tray.Choice:
		return parent.AddSubMenuItemCheckbox(label, "", it.Checked)
	case parent == nil:
		return systray.AddMenuItem(label, "")
	}
	return parent.AddSubMenuItem(label, "")
}

// update brings places from what they show to what they shall show.
func update(places []place, from, to []tray.Item) {
	for i, p := range places {
		was, is := from[i], to[i]
		if p.item == nil {
			continue
		}
		p.action.set(is.Action)
		if was.Label != is.Label {
			p.item.SetTitle(is.Label)
		}
		if was.Checked != is.Checked {
			toggle(is.Checked, p.item.Check, p.item.Uncheck)
		}
		if was.Enabled != is.Enabled {
			toggle(is.Enabled, p.item.Enable, p.item.Disable)
		}
		if was.Hidden != is.Hidden {
			toggle(is.Hidden, p.item.Hide, p.item.Show)
		}
		update(p.below, was.Items, is.Items)
	}
}

func toggle(on bool, yes, no func()) {
	if on {
		yes()
	} else {
		no()
	}
}
