//go:build linux || cgo

// Package pictures_test compares what the window draws, state by state, with pictures that were looked at. It
// stands apart from the window's other tests because drawing is slow under the race detector.
package pictures_test

import (
	"errors"
	"image/color"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/theme"

	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit/nightwindow"
	"interlock.sh/tray"
	"interlock.sh/tray/window"
)

func several() tray.Snapshot {
	until := time.Date(2026, 11, 30, 15, 4, 0, 0, time.Local)
	s := nightwindow.Loaded(
		nightwindow.Agent("support-bot", nil),
		nightwindow.Agent("night-writer", nightwindow.Paused),
		nightwindow.Agent("workshop", func(a *tray.Agent) {
			a.Key.Role = fleet.RoleTrainer
			a.Status.Words, a.Status.State = "parked: llama-server ended 5 times in a row", fleet.State{Kind: fleet.StateParked}
			a.Status.Report.Deployments = nil
			a.Status.Wish.Hold = &schedule.Hold{Until: &until}
			a.Status.Awake.Refused = "org.freedesktop.login1 is not there"
		}),
	)
	return s
}

func TestPicturesOfTheRoles(t *testing.T) {
	broken := nightwindow.Loaded(nightwindow.Agent("support-bot", nil), tray.Agent{Key: tray.Key{Group: "shed", Role: fleet.RoleClient}, GroupName: "shed", Origin: "https://fleet.test", Reach: tray.Stopped},
		tray.Agent{Key: tray.Key{Group: "cellar", Role: fleet.RoleClient}, GroupName: "cellar", Origin: "https://fleet.test", Reach: tray.Foreign, Why: "the agent's socket belongs to another user"})
	broken.Broken = []string{"garage (client) is half deleted: group.json is gone; enroll again or remove the folder"}
	long := nightwindow.Agent("a-group-with-a-name-that-somebody-must-have-typed-for-a-very-long-time-indeed", nightwindow.Custom)
	umlauts := nightwindow.Agent("Größenänderungen fürs Büro in Köln-Mülheim & Straßburg", nightwindow.Paused)
	umlauts.Status.Words = "blocked: für „Übersetzer“ fehlt llama-server"
	umlauts.Status.State = fleet.State{Kind: fleet.StateBlocked}
	for name, s := range map[string]tray.Snapshot{
		"umlauts": nightwindow.Loaded(umlauts),
		"loading": {}, "empty": nightwindow.Loaded(), "one": nightwindow.Loaded(nightwindow.Agent("support-bot", nil)), "several": several(), "broken": broken,
		"older": nightwindow.Loaded(nightwindow.Agent("workshop", nightwindow.Older)), "custom": nightwindow.Loaded(long),
	} {
		t.Run(name, func(t *testing.T) { nightwindow.New(t, s).Picture("roles-" + name) })
	}
	t.Run("narrow", func(t *testing.T) {
		r := nightwindow.New(t, several())
		r.Window.Resize(fyne.NewSize(r.Window.Content().MinSize().Width, 560)) // as narrow as it goes
		r.Picture("roles-narrow")
		if w := r.Window.Content().MinSize().Width; w > 460 {
			t.Errorf("the window cannot be narrower than %.0f", w)
		}
	})
	t.Run("refused", func(t *testing.T) {
		r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
		r.Machine.Err = nightwindow.Refused()
		r.Tap("Paused")
		r.Settle()
		r.Picture("roles-refused")
	})
	t.Run("dark", func(t *testing.T) {
		r := nightwindow.New(t, several())
		fyne.CurrentApp().Settings().SetTheme(night{window.Theme()})
		r.Picture("roles-dark")
	})
}

// night shows the dark look, whatever the desktop says.
type night struct{ fyne.Theme }

func (n night) Color(name fyne.ThemeColorName, _ fyne.ThemeVariant) color.Color {
	return n.Theme.Color(name, theme.VariantDark)
}

func TestPicturesOfHoursAndLimits(t *testing.T) {
	k := tray.Key{Group: "support-bot", Role: fleet.RoleClient}
	show := func(t *testing.T, edit func(*tray.Agent)) *nightwindow.Rig {
		r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", edit)))
		r.View.Show(tray.Page{Name: tray.HoursPage, Key: k})
		return r
	}
	t.Run("always", func(t *testing.T) { show(t, nil).Picture("hours-always") })
	t.Run("custom", func(t *testing.T) { show(t, nightwindow.Custom).Picture("hours-custom") })
	t.Run("older", func(t *testing.T) { show(t, nightwindow.Older).Picture("hours-older") })
	t.Run("narrow", func(t *testing.T) {
		r := show(t, nightwindow.Custom)
		r.Window.Resize(fyne.NewSize(r.Window.Content().MinSize().Width, 640))
		r.Picture("hours-narrow")
	})
	t.Run("wrong", func(t *testing.T) {
		r := show(t, nightwindow.Custom)
		e := r.Entries()[0]
		e.SetText("25:00")
		r.Picture("hours-wrong")
	})
}

func TestPicturesOfTheOtherPages(t *testing.T) {
	news := func(state, why string) tray.Snapshot {
		return nightwindow.Loaded(nightwindow.Agent("support-bot", func(a *tray.Agent) {
			a.Status.Update = &fleet.UpdateReport{State: state, Version: "0.5.0", Why: why, At: time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)}
		}))
	}
	for name, s := range map[string]tray.Snapshot{
		"updates-available": news("available", ""), "updates-reverted": news("reverted", "support-bot (client) never answered"), "updates-none": nightwindow.Loaded(),
	} {
		t.Run(name, func(t *testing.T) {
			r := nightwindow.New(t, s)
			r.View.Show(tray.Page{Name: tray.UpdatesPage})
			r.Picture(name)
		})
	}
	t.Run("updates-failed", func(t *testing.T) {
		r := nightwindow.New(t, news("stopped", "the metadata expired on 1 Nov"))
		r.View.Show(tray.Page{Name: tray.UpdatesPage})
		r.Machine.Err = fault.New(fault.Unavailable, "updates cannot be checked: the origin does not answer").WithHint("look at the network")
		r.Tap("Check now")
		r.Settle()
		r.Picture("updates-failed")
	})
	t.Run("about", func(t *testing.T) {
		r := nightwindow.New(t, nightwindow.Loaded())
		r.View.Show(tray.Page{Name: tray.AboutPage})
		r.Picture("about")
	})
	t.Run("logs", func(t *testing.T) {
		r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
		r.Machine.Lines = strings.Split(strings.Repeat("time=12:00:00 level=INFO msg=\"model ready\" deployment=smollm2-135m slots=4 after=310ms\n", 40)+"the newest line", "\n")
		r.View.Show(tray.Page{Name: tray.LogsPage, Key: tray.Key{Group: "support-bot", Role: fleet.RoleClient}})
		r.Settle()
		r.Picture("logs")
	})
	t.Run("uninstall", func(t *testing.T) {
		r := nightwindow.New(t, nightwindow.Loaded(nightwindow.Agent("support-bot", nil)))
		r.View.Show(tray.Page{Name: tray.UninstallPage})
		r.Picture("uninstall")
		r.Machine.Err, r.Machine.Output = errors.New("not everything was removed: pkexec was refused"), "left: /etc/systemd/system/sh.interlock.updater.timer\nleft: /etc/systemd/system/sh.interlock.updater.service\n"
		r.Tap("Uninstall")
		r.Settle()
		r.Picture("uninstall-refused")
	})
}
