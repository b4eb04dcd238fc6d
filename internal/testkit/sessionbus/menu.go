package sessionbus

import (
	"fmt"

	"github.com/godbus/dbus/v5"
)

// Item is an item in the bar, as a panel sees it.
type Item struct {
	Name string // on the bus

	item, menu dbus.BusObject
}

// Layout is a menu.
type Layout struct {
	ID    int32
	Props map[string]dbus.Variant
	Below []Layout
}

// wire is a Layout as it crosses the bus.
type wire struct {
	ID    int32
	Props map[string]dbus.Variant
	Below []dbus.Variant
}

// Property is a property of the item.
func (i Item) Property(name string) (dbus.Variant, error) {
	return i.item.GetProperty("org.kde.StatusNotifierItem." + name)
}

// Menu reads the whole menu.
func (i Item) Menu() (Layout, error) {
	var revision uint32
	var w wire
	if err := i.menu.Call("com.canonical.dbusmenu.GetLayout", 0, int32(0), int32(-1), []string{}).Store(&revision, &w); err != nil {
		return Layout{}, fmt.Errorf("read the menu: %w", err)
	}
	return unwire(w)
}

func unwire(w wire) (Layout, error) {
	l := Layout{ID: w.ID, Props: w.Props}
	for _, v := range w.Below {
		var c wire
		if err := dbus.Store([]any{v.Value()}, &c); err != nil {
			return l, fmt.Errorf("read the menu: %w", err)
		}
		in, err := unwire(c)
		if err != nil {
			return l, err
		}
		l.Below = append(l.Below, in)
	}
	return l, nil
}

// Text is what a panel shows, a line an item: [x] for a mark, (…) for what cannot be clicked.
func (l Layout) Text() []string { return l.text("") }

func (l Layout) text(indent string) []string {
	var out []string
	for _, c := range l.Below {
		get := func(k string) any { return c.Props[k].Value() }
		if get("visible") == false {
			continue
		}
		line := fmt.Sprint(get("label"))
		if get("type") == "separator" {
			line = "--"
		}
		if get("toggle-type") == "checkmark" {
			mark := "[ ] "
			if fmt.Sprint(get("toggle-state")) == "1" {
				mark = "[x] "
			}
			line = mark + line
		}
		if get("enabled") == false {
			line = "(" + line + ")"
		}
		out = append(out, indent+line)
		out = append(out, c.text(indent+"  ")...)
	}
	return out
}

// Find is the first item with a label, at any depth.
func (l Layout) Find(label string) (Layout, bool) {
	for _, c := range l.Below {
		if c.Props["label"].Value() == label {
			return c, true
		}
		if in, ok := c.Find(label); ok {
			return in, true
		}
	}
	return Layout{}, false
}

// Open tells the item that the menu is about to be shown.
func (i Item) Open() error {
	return i.menu.Call("com.canonical.dbusmenu.AboutToShow", 0, int32(0)).Err
}

// Click clicks the first item with a label.
func (i Item) Click(label string) error {
	m, err := i.Menu()
	if err != nil {
		return err
	}
	it, ok := m.Find(label)
	if !ok {
		return fmt.Errorf("the menu has no %q: %q", label, m.Text())
	}
	return i.ClickID(it.ID)
}

// ClickID clicks an item that was read before.
func (i Item) ClickID(id int32) error {
	return i.menu.Call("com.canonical.dbusmenu.Event", 0, id, "clicked", dbus.MakeVariant(0), uint32(0)).Err
}
