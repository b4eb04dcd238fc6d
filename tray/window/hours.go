//go:build linux || cgo

package window

import (
	"context"
	"reflect"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/layout"
	"fyne.io/fyne/v2/widget"

	"interlock.sh/fault"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

// hoursPage edits when one role may work, and the other limits.
type hoursPage struct {
	v     *View
	key   tray.Key
	root  fyne.CanvasObject
	draft draft
	saved schedule.Availability

	modes   map[schedule.Mode]*widget.Button
	custom  fyne.CanvasObject // the spans, shown in their mode
	windows *spanList
	limits  *spanList
	idle    *widget.Entry
	idleErr *widget.Label
	wrong   *widget.Label // what belongs to no line
	save    *widget.Button
}

func newHoursPage(v *View, k tray.Key, s tray.Snapshot) *hoursPage {
	p := &hoursPage{v: v, key: k, modes: map[schedule.Mode]*widget.Button{}, wrong: warning(), idleErr: warning(), idle: widget.NewEntry()}
	a, ok := s.Find(k)
	title := v.back("Hours and limits of "+s.Title(a), tray.Page{Name: tray.RolesPage})
	if !ok || a.Reach != tray.Answers || a.Older() {
		p.root = inset(container.NewVBox(title, prose(unaskable(a, ok))))
		return p
	}
	p.saved = a.Status.Wish.Availability
	p.draft = draftOf(p.saved)
	if len(p.draft.windows) == 0 {
		p.draft.windows = []spanDraft{newSpan()}
	}
	p.build(title)
	return p
}

// unaskable says why nothing can be edited.
func unaskable(a tray.Agent, found bool) string {
	switch {
	case !found:
		return "This machine is no longer in that group."
	case a.Reach != tray.Answers:
		return sentence(a.Words(), "")
	}
	return "Hours and limits: " + tray.NeedsNewer + ". Update it: interlock agent update --now"
}

func (p *hoursPage) build(title fyne.CanvasObject) {
	row := container.NewGridWithColumns(4)
	for _, m := range []struct {
		mode  schedule.Mode
		label string
	}{{schedule.Always, "Always"}, {schedule.Night, "10 PM–7 AM"}, {schedule.Paused, "Paused"}, {schedule.Window, "Custom"}} {
		p.modes[m.mode] = widget.NewButton(m.label, func() { p.draft.mode = m.mode; p.check() })
		row.Add(p.modes[m.mode])
	}
	p.windows = newSpanList(p.check, func() { p.draft.windows = append(p.draft.windows, newSpan()) }, func(i int) {
		p.draft.windows = append(p.draft.windows[:i:i], p.draft.windows[i+1:]...)
	})
	p.limits = newSpanList(p.check, func() { p.draft.limits = append(p.draft.limits, limitDraft{newSpan(), "2"}) }, func(i int) {
		p.draft.limits = append(p.draft.limits[:i:i], p.draft.limits[i+1:]...)
	})
	p.windows.fill = p.fill
	p.limits.fill = p.fill
	p.windows.add.SetText("Add hours")
	p.limits.add.SetText("Limit downloads")
	p.custom = p.windows.root

	mains := widget.NewCheck("Only on mains power", func(on bool) { p.draft.onMains = on; p.check() })
	mains.Checked = p.draft.onMains
	used := widget.NewCheck("Only when nobody used it for", func(on bool) { p.draft.idleOn = on; p.check() })
	used.Checked = p.draft.idleOn
	p.idle.Text = p.draft.idle
	p.idle.OnChanged = func(s string) { p.draft.idle = s; p.check() }
	minutes := container.NewHBox(used, container.NewGridWrap(fyne.NewSize(52, p.idle.MinSize().Height), p.idle), widget.NewLabel("minutes"))

	p.save = widget.NewButton("Save", p.keep)
	p.save.Importance = widget.HighImportance
	cancel := widget.NewButton("Cancel", func() { p.v.Show(tray.Page{Name: tray.RolesPage}) })
	answers := container.NewBorder(nil, nil, nil, container.NewHBox(cancel, p.save), p.wrong)
	foot := newGround(container.NewVBox(widget.NewSeparator(), container.New(layout.NewCustomPaddedLayout(gap, gap, margin, margin), answers)))
	body := container.New(column(gap),
		newPanel(heading("When it may work"), row, p.custom),
		newPanel(heading("And only"), mains, minutes, p.idleErr),
		newPanel(heading("Downloads"), quiet("Outside these hours downloads are free. 0 stops them."), p.limits.root),
	)
	head := newGround(container.New(layout.NewCustomPaddedLayout(gap, 0, margin, margin), title))
	p.root = container.NewBorder(head, foot, nil, nil, container.NewVScroll(inset(body)))
	p.fill()
}

func (p *hoursPage) object() fyne.CanvasObject { return p.root }

// show leaves the page alone: what is being edited is not pulled away.
func (p *hoursPage) show(tray.Snapshot) {}

// fill makes the lines anew, after one came or went.
func (p *hoursPage) fill() {
	p.windows.clear()
	for i := range p.draft.windows {
		p.windows.line(&p.draft.windows[i], nil)
	}
	p.limits.clear()
	for i := range p.draft.limits {
		p.limits.line(&p.draft.limits[i].spanDraft, &p.draft.limits[i].rate)
	}
	p.check()
}

// check shows what is wrong, where it is wrong.
func (p *hoursPage) check() {
	for m, b := range p.modes {
		press(b, m == p.draft.mode)
	}
	visible(p.custom, p.draft.mode == schedule.Window)
	able(p.idle, p.draft.idleOn)
	a, err := p.value()
	field, text := "", words(err)
	if err != nil {
		field = fault.Of(err).Field
	}
	list, line := row(field)
	windows, changed := p.windows.accuse(list == "windows", line, text)
	limits, also := p.limits.accuse(list == "bandwidth", line, text)
	idle, rest := "", text
	switch {
	case windows || limits:
		rest = ""
	case field == "idleMinutes":
		idle, rest = text, ""
	}
	changed = say(p.idleErr, idle) || changed || also
	changed = say(p.wrong, rest) || changed
	if changed {
		arrange(p.root)
	}
	able(p.save, err == nil && !reflect.DeepEqual(a, p.saved))
}

// value is what would be saved. Spans that are not shown are kept as they were: they come back with their
// mode, and cannot be wrong meanwhile.
func (p *hoursPage) value() (schedule.Availability, error) {
	d := p.draft
	if d.mode != schedule.Window {
		d.windows = draftOf(p.saved).windows
	}
	return d.availability()
}

func (p *hoursPage) keep() {
	a, err := p.value()
	if err != nil {
		return // it is shown
	}
	p.save.Disable()
	p.v.wish(func(ctx context.Context) error { return p.v.o.Agents.SetAvailability(ctx, p.key, a) }, func(err error) {
		switch {
		case err != nil:
			p.check()
		case p.v.page == p:
			p.v.Show(tray.Page{Name: tray.RolesPage})
		}
	})
}
