package bar

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"interlock.sh/tray"
	"interlock.sh/tray/icon"
)

// node is a line of the menu that panels know by its id.
type node struct {
	id     int32
	props  map[string]dbus.Variant
	below  []*node
	action tray.Action
}

// Show makes the item look so. What is shown already is left alone, and what changes keeps its place, so that
// an open menu does not jump.
func (b *Bar) Show(menu []tray.Item, mood tray.Mood, tip string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if mood != b.mood {
		b.mood, b.picture = mood, pixmapOf(icon.PNG(mood, pixels))
		b.emit(itemPath, itemFace+".NewIcon")
	}
	if tip != b.tip {
		b.tip = tip
		b.emit(itemPath, itemFace+".NewToolTip")
	}
	if !alike(b.shown, menu) {
		b.plant(menu)
		b.revision++
		b.emit(menuPath, menuFace+".LayoutUpdated", b.revision, int32(0))
	} else if changed := b.update(b.root.below, menu); len(changed) > 0 {
		b.emit(menuPath, menuFace+".ItemsPropertiesUpdated", changed, []removal{})
	}
	b.shown = menu
}

// plant makes the tree anew. Ids are never used twice, so a late click on a line that is gone does nothing.
func (b *Bar) plant(menu []tray.Item) {
	b.nodes = map[int32]*node{}
	b.root = &node{props: map[string]dbus.Variant{"children-display": dbus.MakeVariant("submenu")}}
	b.nodes[0] = b.root
	b.root.below = b.grow(menu)
}

func (b *Bar) grow(items []tray.Item) []*node {
	var out []*node
	for _, it := range items {
		b.lastID++
		n := &node{id: b.lastID, props: properties(it), action: it.Action}
		b.nodes[n.id] = n
		n.below = b.grow(it.Items)
		out = append(out, n)
	}
	return out
}

// described is a line's properties on the wire.
type described struct {
	ID    int32
	Props map[string]dbus.Variant
}

// removal names properties that are gone. A line always has all of its kind.
type removal struct {
	ID    int32
	Names []string
}

// update brings nodes to what they shall be and says what changed.
func (b *Bar) update(nodes []*node, items []tray.Item) []described {
	var out []described
	for i, n := range nodes {
		n.action = items[i].Action
		changed := map[string]dbus.Variant{}
		for k, v := range properties(items[i]) {
			if !reflect.DeepEqual(n.props[k].Value(), v.Value()) {
				n.props[k], changed[k] = v, v
			}
		}
		if len(changed) > 0 {
			out = append(out, described{n.id, changed})
		}
		out = append(out, b.update(n.below, items[i].Items)...)
	}
	return out
}

// properties are an item as panels read it.
func properties(it tray.Item) map[string]dbus.Variant {
	p := map[string]dbus.Variant{"visible": dbus.MakeVariant(!it.Hidden)}
	if it.Kind == tray.Separator {
		p["type"] = dbus.MakeVariant("separator")
		return p
	}
	p["label"] = dbus.MakeVariant(strings.ReplaceAll(it.Label, "_", "__")) // one alone marks a shortcut
	p["enabled"] = dbus.MakeVariant(it.Enabled)
	switch it.Kind {
	case tray.Choice:
		state := int32(0)
		if it.Checked {
			state = 1
		}
		p["toggle-type"], p["toggle-state"] = dbus.MakeVariant("checkmark"), dbus.MakeVariant(state)
	case tray.Submenu:
		p["children-display"] = dbus.MakeVariant("submenu")
	}
	return p
}

// branch is a node with what is below it on the wire.
type branch struct {
	ID    int32
	Props map[string]dbus.Variant
	Below []dbus.Variant
}

// layout is a node with depth levels below it; all of them for a negative depth.
func (n *node) layout(depth int32, names []string) branch {
	out := branch{n.id, n.pick(names), []dbus.Variant{}}
	if depth != 0 {
		for _, c := range n.below {
			out.Below = append(out.Below, dbus.MakeVariant(c.layout(depth-1, names)))
		}
	}
	return out
}

// pick is a copy of the properties of these names; all for none.
func (n *node) pick(names []string) map[string]dbus.Variant {
	out := maps.Clone(n.props)
	if len(names) > 0 {
		maps.DeleteFunc(out, func(k string, _ dbus.Variant) bool { return !slices.Contains(names, k) })
	}
	return out
}
