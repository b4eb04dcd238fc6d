//go:build linux || cgo

package window

import (
	"context"
	"slices"
	"strings"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/layout"
	"fyne.io/fyne/v2/widget"

	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

// rolesPage lists the roles of the machine, a panel each.
type rolesPage struct {
	v       *View
	root    fyne.CanvasObject
	summary *widget.Label
	broken  *widget.Label
	empty   *widget.Label
	pause   *widget.Button
	resume  *widget.Button
	list    *fyne.Container
	cards   []*roleCard
}

func newRolesPage(v *View) *rolesPage {
	p := &rolesPage{v: v, summary: heading(""), broken: warning(), empty: quiet(""), list: container.New(column(gap))}
	p.pause = widget.NewButton("Pause all for an hour", func() {
		v.wish(func(ctx context.Context) error { return v.o.Agents.PauseAll(ctx, time.Hour) }, nil)
	})
	p.resume = widget.NewButton("Resume all", func() { v.wish(v.o.Agents.ResumeAll, nil) })
	p.resume.Hide()
	p.root = leaf(p.summary, p.broken, p.empty, p.list, container.NewHBox(p.pause, p.resume))
	return p
}

func (p *rolesPage) object() fyne.CanvasObject { return p.root }

func (p *rolesPage) show(s tray.Snapshot) {
	changed := say(p.summary, s.Summary())
	changed = say(p.broken, strings.Join(s.Broken, "\n")) || changed
	hint := ""
	if s.Loaded && len(s.Agents) == 0 && len(s.Broken) == 0 {
		hint = "Paste a group's install line on this machine: interlock models key rotate client prints one. The machine then appears here by itself."
	}
	changed = say(p.empty, hint) || changed
	if !slices.EqualFunc(p.cards, s.Agents, func(c *roleCard, a tray.Agent) bool { return c.key == a.Key }) {
		p.deal(s)
	}
	pausable, held := false, false
	for i, a := range s.Agents {
		changed = p.cards[i].show(s, a) || changed
		pausable = pausable || (a.Reach == tray.Answers && !a.Older())
		held = held || a.Held() != nil
	}
	able(p.pause, pausable)
	visible(p.resume, held)
	visible(p.pause, len(s.Agents) > 0)
	if changed {
		arrange(p.root)
	}
}

// deal has a card for each role, and keeps those that are there.
func (p *rolesPage) deal(s tray.Snapshot) {
	old := p.cards
	p.cards = nil
	p.list.Objects = nil
	for _, a := range s.Agents {
		i := slices.IndexFunc(old, func(c *roleCard) bool { return c.key == a.Key })
		c := (*roleCard)(nil)
		if i >= 0 {
			c = old[i]
		} else {
			c = newRoleCard(p.v, a.Key)
		}
		p.cards = append(p.cards, c)
		p.list.Add(c.root)
	}
	p.list.Refresh()
}

// roleCard is one role.
type roleCard struct {
	key       tray.Key
	root      fyne.CanvasObject
	dot       *dot
	title     *widget.Label
	state     *widget.Label
	models    *widget.Label
	note      *widget.Label
	choices   map[schedule.Mode]*widget.Button
	dashboard *widget.Button
	logs      *widget.Button
	hours     *widget.Button
	origin    string
}

func newRoleCard(v *View, k tray.Key) *roleCard {
	c := &roleCard{
		key: k, dot: newDot(), title: heading(""), state: prose(""), models: quiet(""), note: quiet(""),
		choices: map[schedule.Mode]*widget.Button{},
	}
	edit := func() { v.Show(tray.Page{Name: tray.HoursPage, Key: k}) }
	row := container.NewGridWithColumns(4)
	for _, ch := range []struct {
		mode  schedule.Mode
		label string
	}{{schedule.Always, "Always"}, {schedule.Night, "10 PM–7 AM"}, {schedule.Paused, "Paused"}, {schedule.Window, "Custom…"}} {
		tap := func() {
			v.wish(func(ctx context.Context) error { return v.o.Agents.Choose(ctx, k, ch.mode) }, nil)
		}
		if ch.mode == schedule.Window {
			tap = edit
		}
		b := widget.NewButton(ch.label, tap)
		c.choices[ch.mode] = b
		row.Add(b)
	}
	c.hours = link("Hours and limits…", edit)
	c.logs = link("Logs…", func() { v.Show(tray.Page{Name: tray.LogsPage, Key: k}) })
	c.dashboard = link("Open dashboard", func() {
		v.work(actIn, func(ctx context.Context) error { return v.o.Desktop.Open(ctx, c.origin) }, v.complain)
	})
	head := container.NewBorder(nil, nil, c.dot, nil, c.title)
	c.root = newPanel(container.New(column(-9), head, c.state, c.models, c.note), row,
		container.NewHBox(c.hours, c.logs, layout.NewSpacer(), c.dashboard))
	return c
}

func link(label string, tap func()) *widget.Button {
	b := widget.NewButton(label, tap)
	b.Importance = widget.LowImportance
	return b
}

// show brings the card to what is known, and reports whether text changed.
func (c *roleCard) show(s tray.Snapshot, a tray.Agent) bool {
	c.origin = a.Origin
	c.dot.set(a.Mood())
	changed := say(c.title, s.Title(a))
	words := a.Words()
	if v := a.Speed(); v != "" {
		words += ", " + v
	}
	changed = say(c.state, tray.Capital(words)) || changed
	changed = say(c.models, strings.Join(a.Models(), "\n")) || changed
	changed = say(c.note, note(a)) || changed
	ask := a.Reach == tray.Answers
	for mode, b := range c.choices {
		press(b, ask && a.Choice() == mode)
		able(b, ask && (!a.Older() || mode == schedule.Always || mode == schedule.Paused))
	}
	able(c.hours, ask && !a.Older())
	able(c.logs, ask)
	able(c.dashboard, tray.Web(a.Origin))
	return changed
}

// note is what stands beside the state: hours, a pause, a refused inhibitor, an older agent.
func note(a tray.Agent) string {
	if a.Reach == tray.Stopped {
		return "Start it: interlock agent start"
	}
	if a.Reach != tray.Answers {
		return ""
	}
	if a.Older() {
		return "Hours and limits: " + tray.NeedsNewer
	}
	var out []string
	if allowed := tray.AllowedWords(a.Status.Wish.Availability); allowed != "" {
		out = append(out, "Allowed: "+allowed)
	}
	if h := a.Held(); h != nil && h.Until != nil {
		out = append(out, "Paused until "+a.Clock(*h.Until).Format("15:04"))
	}
	if why := a.Status.Awake.Refused; why != "" {
		out = append(out, "This machine may fall asleep at work: "+tray.Plain(why))
	}
	if e := a.Status.LastError; e != "" {
		out = append(out, "The control plane was not reached: "+tray.Plain(e))
	}
	return strings.Join(out, "\n")
}
