//go:build linux || cgo

package window

import (
	"context"
	"fmt"
	"strings"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"interlock.sh/tray"
	"interlock.sh/tray/icon"
)

// logLines is how much of a log is read.
const logLines = 200

// logsPage shows the newest lines of a role's agent.
type logsPage struct {
	v     *View
	key   tray.Key
	root  fyne.CanvasObject
	state *widget.Label
	text  *widget.Label
	view  *container.Scroll
	again *widget.Button
}

func newLogsPage(v *View, k tray.Key) *logsPage {
	p := &logsPage{v: v, key: k, state: quiet(""), text: widget.NewLabelWithStyle("", fyne.TextAlignLeading, fyne.TextStyle{Monospace: true})}
	p.text.Selectable = true
	p.view = container.NewScroll(p.text)
	p.again = widget.NewButton("Read again", p.read)
	s := v.o.Agents.Snapshot()
	title := k.String()
	if a, ok := s.Find(k); ok {
		title = "Log of " + s.Title(a)
	}
	head := container.NewBorder(nil, nil, nil, p.again, v.back(title, tray.Page{Name: tray.RolesPage}))
	p.root = inset(container.NewBorder(container.NewVBox(head, p.state), nil, nil, nil, p.view))
	p.read()
	return p
}

func (p *logsPage) object() fyne.CanvasObject { return p.root }

func (p *logsPage) show(tray.Snapshot) {}

func (p *logsPage) read() {
	p.again.Disable()
	say(p.state, "Reading…")
	var lines []string
	p.v.work(actIn, func(ctx context.Context) (err error) {
		lines, err = p.v.o.Agents.Logs(ctx, p.key, logLines)
		return err
	}, func(err error) {
		p.again.Enable()
		switch {
		case err != nil:
			say(p.state, words(err))
		case len(lines) == 0:
			say(p.state, "The log is empty.")
		default:
			say(p.state, "")
		}
		p.text.SetText(strings.Join(lines, "\n"))
		arrange(p.root)
		p.view.ScrollToBottom()
	})
}

// updatesPage shows the updater's news.
type updatesPage struct {
	v        *View
	root     fyne.CanvasObject
	news     *widget.Label
	versions *widget.Label
	outcome  *widget.Label
	check    *widget.Button
	busy     *widget.ProgressBarInfinite
}

func newUpdatesPage(v *View) *updatesPage {
	p := &updatesPage{v: v, news: heading(""), versions: quiet(""), outcome: prose(""), busy: widget.NewProgressBarInfinite()}
	p.outcome.Hide()
	p.stopBusy()
	p.check = widget.NewButton("Check now", p.look)
	p.root = leaf(newPanel(p.news, p.versions, p.busy, p.outcome, container.NewHBox(p.check)),
		quiet("Updates are signed and looked for every 20 minutes. A new version is watched after it started, and taken back once when it does not work. Nightshift itself is updated the same way, on its own."))
	return p
}

func (p *updatesPage) stopBusy() {
	p.busy.Stop()
	p.busy.Hide()
}

func (p *updatesPage) object() fyne.CanvasObject { return p.root }

func (p *updatesPage) show(s tray.Snapshot) {
	u, known := s.Update()
	changed := say(p.news, tray.UpdateWords(u, known))
	var lines []string
	for _, a := range s.Agents {
		if a.Reach == tray.Answers && a.Status.Version != "" {
			lines = append(lines, fmt.Sprintf("%s runs %s", s.Title(a), tray.Plain(a.Status.Version)))
		}
	}
	if known && !u.At.IsZero() {
		lines = append(lines, "As of "+u.At.Local().Format("2 Jan 15:04"))
	}
	if say(p.versions, strings.Join(lines, "\n")) || changed {
		arrange(p.root)
	}
}

func (p *updatesPage) look() {
	p.check.Disable()
	say(p.outcome, "")
	p.busy.Show()
	p.busy.Start()
	arrange(p.root)
	p.v.work(checkIn, p.v.o.Desktop.CheckUpdates, func(err error) {
		p.check.Enable()
		p.stopBusy()
		p.outcome.Importance = widget.MediumImportance
		text := "Looked just now."
		if err != nil {
			p.outcome.Importance, text = widget.DangerImportance, words(err)
		}
		say(p.outcome, text)
		arrange(p.root)
		p.v.o.Tell(tray.Wished)
		p.v.Renew()
	})
}

// aboutPage says what this is.
type aboutPage struct{ root fyne.CanvasObject }

func newAboutPage(v *View) *aboutPage {
	picture := canvas.NewImageFromResource(fyne.NewStaticResource("nightshift.png", icon.App(128)))
	picture.FillMode = canvas.ImageFillContain
	picture.SetMinSize(fyne.NewSquareSize(64))
	name := heading("Nightshift " + v.o.Version)
	return &aboutPage{leaf(newPanel(
		container.NewBorder(nil, nil, picture, nil, container.NewVBox(name, quiet("When this machine may work for its model groups."))),
		prose("The choice is a ceiling: models, placements and releases remain the control plane's, and this machine never works beyond what you allow here."),
		quiet("Everything is kept under "+v.o.Home),
		container.NewHBox(link("Uninstall Nightshift…", func() { v.Show(tray.Page{Name: tray.UninstallPage}) })),
	))}
}

func (p *aboutPage) object() fyne.CanvasObject { return p.root }

func (p *aboutPage) show(tray.Snapshot) {}

// What the owner is asked before everything goes.
const (
	removes = "This is about the whole machine. It stops every registered Interlock model worker on it and removes their services, " +
		"local group versions, machine credentials, Nightshift's services, helper and this app."
	keeps = "It does not delete shared model caches, source checkouts, unrelated services or databases, or any model, dataset, " +
		"evaluation, training run, release or history stored in Interlock."
	after = "The host becomes offline in Interlock; revoke its machine credential from the Models fleet when the machine is no longer " +
		"trusted. Installing again needs a fresh client or trainer key."
)

// uninstallIn is long: the system may ask for a password first.
const uninstallIn = 15 * time.Minute

// uninstallPage asks, does it, and says what is left.
type uninstallPage struct {
	v       *View
	root    fyne.CanvasObject
	outcome *widget.Label
	output  *widget.Label
	busy    *widget.ProgressBarInfinite
	cancel  *widget.Button
	remove  *widget.Button
}

func newUninstallPage(v *View) *uninstallPage {
	p := &uninstallPage{v: v, outcome: prose(""), output: widget.NewLabelWithStyle("", fyne.TextAlignLeading, fyne.TextStyle{Monospace: true}), busy: widget.NewProgressBarInfinite()}
	p.output.Wrapping, p.output.Selectable = fyne.TextWrapBreak, true
	p.outcome.Hide()
	p.output.Hide()
	p.busy.Stop()
	p.busy.Hide()
	p.cancel = widget.NewButton("Cancel", func() { v.Show(tray.Page{Name: tray.RolesPage}) })
	p.remove = widget.NewButton("Uninstall", p.run)
	p.remove.Importance = widget.DangerImportance
	p.root = leaf(newPanel(heading("Uninstall Nightshift from this machine?"), prose(removes), prose(keeps), quiet(after),
		p.busy, p.outcome, p.output, container.NewHBox(p.cancel, p.remove)))
	return p
}

func (p *uninstallPage) object() fyne.CanvasObject { return p.root }

func (p *uninstallPage) show(tray.Snapshot) {}

func (p *uninstallPage) run() {
	p.cancel.Disable()
	p.remove.Disable()
	say(p.outcome, "")
	say(p.output, "")
	p.busy.Show()
	p.busy.Start()
	arrange(p.root)
	var out string
	p.v.work(uninstallIn, func(ctx context.Context) (err error) {
		out, err = p.v.o.Desktop.Uninstall(ctx)
		return err
	}, func(err error) {
		p.busy.Stop()
		p.busy.Hide()
		p.cancel.Enable()
		say(p.output, strings.TrimRight(out, "\n"))
		defer arrange(p.root)
		if err != nil {
			p.outcome.Importance = widget.DangerImportance
			say(p.outcome, words(err))
			p.remove.SetText("Try again")
			p.remove.Enable()
			return
		}
		p.outcome.Importance = widget.SuccessImportance
		say(p.outcome, "Everything was removed.")
		p.remove.Hide()
		p.cancel.SetText("Close")
		p.cancel.OnTapped = p.v.o.Close
		p.v.o.Tell(tray.Uninstalled)
	})
}
