//go:build linux || cgo

package window

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/layout"
	"fyne.io/fyne/v2/theme"
	"fyne.io/fyne/v2/widget"
)

// The room around a page and between its panels.
const (
	margin = 12
	gap    = 10
)

// inset is the room around a page.
func inset(o fyne.CanvasObject) fyne.CanvasObject {
	return container.New(layout.NewCustomPaddedLayout(margin, margin, margin, margin), o)
}

// leaf is a page that scrolls when the window is too low for it.
func leaf(parts ...fyne.CanvasObject) fyne.CanvasObject {
	return container.NewVScroll(inset(container.New(column(gap), parts...)))
}

// column puts parts under each other, this far apart. Unlike the library's box it gives a part its width
// before it asks for its height, so text that wraps has the room it needs at once, also while the window is
// made narrower.
type column float32

// Layout puts the visible parts in their places.
func (c column) Layout(parts []fyne.CanvasObject, size fyne.Size) {
	y := float32(0)
	for _, p := range parts {
		if !p.Visible() {
			continue
		}
		p.Move(fyne.NewPos(0, y))
		p.Resize(fyne.NewSize(size.Width, p.MinSize().Height))
		height := p.MinSize().Height
		p.Resize(fyne.NewSize(size.Width, height))
		y += height + float32(c)
	}
}

// MinSize is the room that the parts need at the width they have.
func (c column) MinSize(parts []fyne.CanvasObject) fyne.Size {
	out, n := fyne.Size{}, 0
	for _, p := range parts {
		if p.Visible() {
			least := p.MinSize()
			out = fyne.NewSize(max(out.Width, least.Width), out.Height+least.Height)
			n++
		}
	}
	return out.AddWidthHeight(0, float32(max(n-1, 0))*float32(c))
}

// arrange gives everything its place again after text came or went. Text that wraps knows its height only
// when it has its width, and what scrolls only when its text does, so it takes two rounds.
func arrange(root fyne.CanvasObject) {
	root.Refresh()
	root.Refresh()
}

// ground is what stands beside a part that scrolls: it covers what that part draws beyond its edge, as it does
// with the text of a field that is scrolled out of sight. The whole window has one too, in the same colour: the
// library clears a window to nearly that.
type ground struct {
	widget.BaseWidget
	content fyne.CanvasObject
	cover   *canvas.Rectangle
}

func newGround(content fyne.CanvasObject) *ground {
	g := &ground{content: content, cover: canvas.NewRectangle(color.Transparent)}
	g.ExtendBaseWidget(g)
	return g
}

// CreateRenderer draws the cover in the colour of the window.
func (g *ground) CreateRenderer() fyne.WidgetRenderer {
	r := &painted{WidgetRenderer: widget.NewSimpleRenderer(container.NewStack(g.cover, g.content)), paint: func() {
		g.cover.FillColor = tint(theme.ColorNameBackground)
	}}
	r.paint()
	return r
}
