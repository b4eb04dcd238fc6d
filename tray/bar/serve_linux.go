package bar

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"github.com/godbus/dbus/v5"
)

// serve answers one call: the body of the answer, or why there is none. What is asked comes from any program
// of the user, so nothing is believed about its shape.
func (b *Bar) serve(ctx context.Context, msg *dbus.Message) (body []any, fails string) {
	path, _ := msg.Headers[dbus.FieldPath].Value().(dbus.ObjectPath)
	face, _ := msg.Headers[dbus.FieldInterface].Value().(string)
	member, _ := msg.Headers[dbus.FieldMember].Value().(string)
	fails = fmt.Sprintf("%s has no %s.%s of this shape", path, face, member)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case face == "org.freedesktop.DBus.Peer" && member == "Ping":
		return nil, ""
	case face == "org.freedesktop.DBus.Introspectable":
		return []any{introspection(path)}, ""
	case face == propsFace && (path == itemPath || path == menuPath):
		if body = b.property(path, member, msg.Body); body != nil {
			return body, ""
		}
	case path == itemPath && (face == itemFace || face == ""):
		switch member {
		case "Activate", "SecondaryActivate", "ContextMenu", "Scroll": // the item is its menu
			return nil, ""
		}
	case path == menuPath && (face == menuFace || face == ""):
		if body, ok := b.menuCall(ctx, member, msg.Body); ok {
			return body, ""
		}
	}
	return nil, fails
}

// event is what happened to a line.
type event struct {
	ID   int32
	Kind string
	Data dbus.Variant
	At   uint32
}

// menuCall is a call of the menu; the lock is held.
func (b *Bar) menuCall(ctx context.Context, member string, args []any) (body []any, ok bool) {
	var id int32
	var ids []int32
	var names []string
	switch member {
	case "GetLayout":
		var depth int32
		if dbus.Store(args, &id, &depth, &names) != nil || b.nodes[id] == nil {
			return nil, false
		}
		return []any{b.revision, b.nodes[id].layout(depth, names)}, true
	case "GetGroupProperties":
		if dbus.Store(args, &ids, &names) != nil {
			return nil, false
		}
		out := []described{}
		for _, id := range ids {
			if n := b.nodes[id]; n != nil {
				out = append(out, described{id, n.pick(names)})
			}
		}
		return []any{out}, true
	case "GetProperty":
		var name string
		if dbus.Store(args, &id, &name) != nil || b.nodes[id] == nil || b.nodes[id].props[name].Signature().Empty() {
			return nil, false
		}
		return []any{b.nodes[id].props[name]}, true
	case "Event":
		var e event
		if dbus.Store(args, &e.ID, &e.Kind, &e.Data, &e.At) != nil {
			return nil, false
		}
		b.happened(ctx, e)
		return nil, true
	case "EventGroup":
		var all []event
		if dbus.Store(args, &all) != nil {
			return nil, false
		}
		unknown := []int32{}
		for _, e := range all {
			if !b.happened(ctx, e) {
				unknown = append(unknown, e.ID)
			}
		}
		return []any{unknown}, true
	case "AboutToShow":
		if dbus.Store(args, &id) != nil {
			return nil, false
		}
		if id == 0 {
			b.look()
		}
		return []any{false}, true // what is there is always the newest
	case "AboutToShowGroup":
		return []any{[]int32{}, []int32{}}, true
	}
	return nil, false
}

// happened passes a click on. It reports whether the line is there.
func (b *Bar) happened(ctx context.Context, e event) bool {
	n := b.nodes[e.ID]
	switch {
	case n == nil:
		return false
	case e.Kind == "opened" && e.ID == 0:
		b.look()
	case e.Kind == "clicked":
		select {
		case b.clicks <- n.action:
		case <-ctx.Done():
		default: // nobody takes clicks any more, or sixteen wait: one more is none
		}
	}
	return true
}

// look says that somebody opened the menu.
func (b *Bar) look() {
	select {
	case b.opened <- struct{}{}:
	default:
	}
}

// pixmap is a picture on the wire: colours in network order, alpha first.
type pixmap struct {
	W, H int32
	Pix  []byte
}

func pixmapOf(b []byte) pixmap {
	img, err := png.Decode(bytes.NewReader(b))
	if err != nil {
		return pixmap{}
	}
	size := img.Bounds().Size()
	flat := image.NewNRGBA(img.Bounds())
	out := pixmap{W: int32(size.X), H: int32(size.Y)}
	for y := range size.Y {
		for x := range size.X {
			c, _ := flat.ColorModel().Convert(img.At(x, y)).(color.NRGBA)
			out.Pix = append(out.Pix, c.A, c.R, c.G, c.B)
		}
	}
	return out
}

// tooltip is one on the wire: icon, pictures, title, text.
type tooltip struct {
	Icon  string
	Pics  []pixmap
	Title string
	Text  string
}

// property answers what is read of item and menu; nil for what is not there.
func (b *Bar) property(path dbus.ObjectPath, member string, args []any) []any {
	var face, name string
	all := map[string]dbus.Variant{
		"Version": dbus.MakeVariant(uint32(3)), "TextDirection": dbus.MakeVariant("ltr"), "Status": dbus.MakeVariant("normal"), "IconThemePath": dbus.MakeVariant([]string{}),
	}
	if path == itemPath {
		all = map[string]dbus.Variant{
			"Category": dbus.MakeVariant("ApplicationStatus"), "Id": dbus.MakeVariant("sh.interlock.nightshift"), "Title": dbus.MakeVariant(title),
			"Status": dbus.MakeVariant("Active"), "WindowId": dbus.MakeVariant(int32(0)), "IconName": dbus.MakeVariant(""), "IconThemePath": dbus.MakeVariant(""),
			"IconPixmap": dbus.MakeVariant([]pixmap{b.picture}), "ToolTip": dbus.MakeVariant(tooltip{Pics: []pixmap{}, Title: title, Text: b.tip}),
			"ItemIsMenu": dbus.MakeVariant(true), "Menu": dbus.MakeVariant(menuPath),
		}
	}
	switch member {
	case "GetAll":
		if dbus.Store(args, &face) == nil {
			return []any{all}
		}
	case "Get":
		if dbus.Store(args, &face, &name) == nil {
			if v, ok := all[name]; ok {
				return []any{v}
			}
		}
	}
	return nil
}

// introspection names the interfaces of a path, for tools that look around.
func introspection(path dbus.ObjectPath) string {
	face := map[dbus.ObjectPath]string{itemPath: itemFace, menuPath: menuFace}[path]
	if face == "" {
		return "<node/>"
	}
	return `<node><interface name="` + face + `"/><interface name="` + propsFace + `"/></node>`
}
