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

	"interlock.sh/tray"
)

// Theme is the look of the window, light and dark as the desktop wants it.
func Theme() fyne.Theme { return look{theme.DefaultTheme()} }

type look struct{ fyne.Theme }

// colorPanel is the ground of a panel.
const colorPanel fyne.ThemeColorName = "nightshiftPanel"

var light = map[fyne.ThemeColorName]color.NRGBA{
	theme.ColorNameBackground:        rgb(0xf4f5f9),
	colorPanel:                       rgb(0xffffff),
	theme.ColorNameForeground:        rgb(0x1d2233),
	theme.ColorNameDisabled:          rgb(0x646b85),
	theme.ColorNamePlaceHolder:       rgb(0x5f6780),
	theme.ColorNamePrimary:           rgb(0x4656c8),
	theme.ColorNameButton:            rgb(0xe6e8f2),
	theme.ColorNameDisabledButton:    rgb(0xeff0f6),
	theme.ColorNameInputBackground:   rgb(0xf0f1f7),
	theme.ColorNameInputBorder:       rgb(0xc5c9da),
	theme.ColorNameSeparator:         rgb(0xe0e2ec),
	theme.ColorNameSuccess:           rgb(0x1d8048),
	theme.ColorNameWarning:           rgb(0x94600a),
	theme.ColorNameError:             rgb(0xc63a2d),
	theme.ColorNameForegroundOnError: rgb(0xffffff),
	theme.ColorNameMenuBackground:    rgb(0xffffff),
	theme.ColorNameOverlayBackground: rgb(0xffffff),
}

var dark = map[fyne.ThemeColorName]color.NRGBA{
	theme.ColorNameBackground:        rgb(0x171a26),
	colorPanel:                       rgb(0x212637),
	theme.ColorNameForeground:        rgb(0xe8eaf4),
	theme.ColorNameDisabled:          rgb(0x8d95b0),
	theme.ColorNamePlaceHolder:       rgb(0xa3abc4),
	theme.ColorNamePrimary:           rgb(0x5869e0),
	theme.ColorNameButton:            rgb(0x323950),
	theme.ColorNameDisabledButton:    rgb(0x282e42),
	theme.ColorNameInputBackground:   rgb(0x2b3147),
	theme.ColorNameInputBorder:       rgb(0x464e6b),
	theme.ColorNameSeparator:         rgb(0x343b53),
	theme.ColorNameSuccess:           rgb(0x4fc97a),
	theme.ColorNameWarning:           rgb(0xf0b454),
	theme.ColorNameError:             rgb(0xf2705f),
	theme.ColorNameForegroundOnError: rgb(0x2a0f0b),
	theme.ColorNameMenuBackground:    rgb(0x262c40),
	theme.ColorNameOverlayBackground: rgb(0x262c40),
}

func rgb(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 0xff}
}

// Color is a colour of the look, else the default theme's.
func (l look) Color(n fyne.ThemeColorName, v fyne.ThemeVariant) color.Color {
	set := light
	if v == theme.VariantDark {
		set = dark
	}
	if c, ok := set[n]; ok {
		return c
	}
	return l.Theme.Color(n, v)
}

// Size is a measure of the look, else the default theme's.
func (l look) Size(n fyne.ThemeSizeName) float32 {
	switch n {
	case theme.SizeNameInputRadius, theme.SizeNameSelectionRadius:
		return 7
	case theme.SizeNameText:
		return 13.5
	case theme.SizeNameSubHeadingText:
		return 16
	case theme.SizeNameHeadingText:
		return 21
	}
	return l.Theme.Size(n)
}

// panel is a rounded ground with something on it.
type panel struct {
	widget.BaseWidget
	content fyne.CanvasObject
	ground  *canvas.Rectangle
}

func newPanel(content ...fyne.CanvasObject) *panel {
	p := &panel{content: container.NewPadded(container.New(column(6), content...)), ground: canvas.NewRectangle(color.Transparent)}
	p.ground.CornerRadius = 10
	p.ground.StrokeWidth = 1
	p.ExtendBaseWidget(p)
	return p
}

// CreateRenderer draws the ground in the colours of the look.
func (p *panel) CreateRenderer() fyne.WidgetRenderer {
	r := &painted{WidgetRenderer: widget.NewSimpleRenderer(container.NewStack(p.ground, container.NewPadded(p.content))), paint: func() {
		p.ground.FillColor, p.ground.StrokeColor = tint(colorPanel), tint(theme.ColorNameSeparator)
	}}
	r.paint()
	return r
}

// painted is a renderer that takes its colours anew when the theme changes.
type painted struct {
	fyne.WidgetRenderer
	paint func()
}

// Refresh paints and draws.
func (r *painted) Refresh() {
	r.paint()
	r.WidgetRenderer.Refresh()
}

func tint(n fyne.ThemeColorName) color.Color {
	s := fyne.CurrentApp().Settings()
	return s.Theme().Color(n, s.ThemeVariant())
}

// dot is a mood as a coloured point beside the words that say it.
type dot struct {
	widget.BaseWidget
	mood   tray.Mood
	circle *canvas.Circle
}

func newDot() *dot {
	d := &dot{circle: canvas.NewCircle(color.Transparent)}
	d.ExtendBaseWidget(d)
	return d
}

func (d *dot) set(m tray.Mood) {
	if m != d.mood {
		d.mood = m
		d.Refresh()
	}
}

// CreateRenderer draws the point.
func (d *dot) CreateRenderer() fyne.WidgetRenderer {
	size := fyne.NewSquareSize(11)
	inset := container.New(layout.NewCustomPaddedLayout(0, 0, 8, 0), container.NewGridWrap(size, d.circle))
	r := &painted{WidgetRenderer: widget.NewSimpleRenderer(container.NewCenter(inset)), paint: func() {
		d.circle.FillColor = tint(map[tray.Mood]fyne.ThemeColorName{
			tray.Working: theme.ColorNameSuccess, tray.Trouble: theme.ColorNameError, tray.Coming: theme.ColorNamePrimary,
		}[d.mood])
		if d.mood == tray.Resting || d.mood == tray.Idle || d.mood == "" {
			d.circle.FillColor = tint(theme.ColorNameDisabled)
		}
	}}
	r.paint()
	return r
}

// heading is text in bold, larger.
func heading(text string) *widget.Label {
	l := widget.NewLabelWithStyle(text, fyne.TextAlignLeading, fyne.TextStyle{Bold: true})
	l.SizeName = theme.SizeNameSubHeadingText
	l.Wrapping = fyne.TextWrapWord
	return l
}

// prose is text that wraps.
func prose(text string) *widget.Label {
	l := widget.NewLabel(text)
	l.Wrapping = fyne.TextWrapWord
	return l
}

// quiet is text that explains.
func quiet(text string) *widget.Label {
	l := prose(text)
	l.Importance = widget.LowImportance
	return l
}

// warning is text on what is wrong, hidden while there is nothing.
func warning() *widget.Label {
	l := prose("")
	l.Importance = widget.DangerImportance
	l.Hide()
	return l
}

// say sets a text that is hidden while it is empty, draws only what changed, and reports a change.
func say(l *widget.Label, text string) bool {
	changed := l.Text != text || l.Visible() != (text != "")
	if l.Text != text {
		l.SetText(text)
	}
	visible(l, text != "")
	return changed
}

func visible(o fyne.CanvasObject, on bool) {
	switch {
	case on && !o.Visible():
		o.Show()
	case !on && o.Visible():
		o.Hide()
	}
}

// able turns a control on or off, and draws only what changed.
func able(w fyne.Disableable, on bool) {
	switch {
	case on && w.Disabled():
		w.Enable()
	case !on && !w.Disabled():
		w.Disable()
	}
}

// press shows whether a button is the chosen one of several.
func press(b *widget.Button, on bool) {
	want := widget.MediumImportance
	if on {
		want = widget.HighImportance
	}
	if b.Importance != want {
		b.Importance = want
		b.Refresh()
	}
}
