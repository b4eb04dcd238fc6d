//go:build linux || cgo

package window_test

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
	"interlock.sh/tray"
	"interlock.sh/tray/window"
)

func several() tray.Snapshot {
	until := time.Date(2026, 11, 30, 15, 4, 0, 0, time.Local)
	s := loaded(
		agent("support-bot", nil),
		agent("night-writer", paused),
		agent("workshop", func(a *tray.Agent) {
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
	broken := loaded(agent("support-bot", nil), tray.Agent{Key: tray.Key{Group: "shed", Role: fleet.RoleClient}, GroupName: "shed", Origin: "https://fleet.test", Reach: tray.Stopped},
		tray.Agent{Key: tray.Key{Group: "cellar", Role: fleet.RoleClient}, GroupName: "cellar", Origin: "https://fleet.test", Reach: tray.Foreign, Why: "the agent's socket belongs to another user"})
	broken.Broken = []string{"garage (client) is half deleted: group.json is gone; enroll again or remove the folder"}
	long := agent("a-group-with-a-name-that-somebody-must-have-typed-for-a-very-long-time-indeed", custom)
	for name, s := range map[string]tray.Snapshot{
		"loading": {}, "empty": loaded(), "one": loaded(agent("support-bot", nil)), "several": several(), "broken": broken,
		"older": loaded(agent("workshop", older)), "custom": loaded(long),
	} {
		t.Run(name, func(t *testing.T) { newRig(t, s).picture("roles-" + name) })
	}
	t.Run("narrow", func(t *testing.T) {
		r := newRig(t, several())
		r.w.Resize(fyne.NewSize(r.w.Content().MinSize().Width, 560)) // as narrow as it goes
		r.picture("roles-narrow")
		if w := r.w.Content().MinSize().Width; w > 460 {
			t.Errorf("the window cannot be narrower than %.0f", w)
		}
	})
	t.Run("refused", func(t *testing.T) {
		r := newRig(t, loaded(agent("support-bot", nil)))
		r.m.err = refused()
		r.tap("Paused")
		r.settle()
		r.picture("roles-refused")
	})
	t.Run("dark", func(t *testing.T) {
		r := newRig(t, several())
		fyne.CurrentApp().Settings().SetTheme(night{window.Theme()})
		r.picture("roles-dark")
	})
}

// night shows the dark look, whatever the desktop says.
type night struct{ fyne.Theme }

func (n night) Color(name fyne.ThemeColorName, _ fyne.ThemeVariant) color.Color {
	return n.Theme.Color(name, theme.VariantDark)
}

func TestPicturesOfHoursAndLimits(t *testing.T) {
	k := tray.Key{Group: "support-bot", Role: fleet.RoleClient}
	show := func(t *testing.T, edit func(*tray.Agent)) *rig {
		r := newRig(t, loaded(agent("support-bot", edit)))
		r.v.Show(tray.Page{Name: tray.HoursPage, Key: k})
		return r
	}
	t.Run("always", func(t *testing.T) { show(t, nil).picture("hours-always") })
	t.Run("custom", func(t *testing.T) { show(t, custom).picture("hours-custom") })
	t.Run("older", func(t *testing.T) { show(t, older).picture("hours-older") })
	t.Run("narrow", func(t *testing.T) {
		r := show(t, custom)
		r.w.Resize(fyne.NewSize(r.w.Content().MinSize().Width, 640))
		r.picture("hours-narrow")
	})
	t.Run("wrong", func(t *testing.T) {
		r := show(t, custom)
		e := r.entries()[0]
		e.SetText("25:00")
		r.picture("hours-wrong")
	})
}

func TestPicturesOfTheOtherPages(t *testing.T) {
	news := func(state, why string) tray.Snapshot {
		return loaded(agent("support-bot", func(a *tray.Agent) {
			a.Status.Update = &fleet.UpdateReport{State: state, Version: "0.5.0", Why: why, At: time.Date(2026, 11, 30, 12, 0, 0, 0, time.Local)}
		}))
	}
	for name, s := range map[string]tray.Snapshot{
		"updates-available": news("available", ""), "updates-reverted": news("reverted", "support-bot (client) never answered"), "updates-none": loaded(),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, s)
			r.v.Show(tray.Page{Name: tray.UpdatesPage})
			r.picture(name)
		})
	}
	t.Run("updates-failed", func(t *testing.T) {
		r := newRig(t, news("stopped", "the metadata expired on 1 Nov"))
		r.v.Show(tray.Page{Name: tray.UpdatesPage})
		r.m.err = fault.New(fault.Unavailable, "updates cannot be checked: the origin does not answer").WithHint("look at the network")
		r.tap("Check now")
		r.settle()
		r.picture("updates-failed")
	})
	t.Run("about", func(t *testing.T) {
		r := newRig(t, loaded())
		r.v.Show(tray.Page{Name: tray.AboutPage})
		r.picture("about")
	})
	t.Run("logs", func(t *testing.T) {
		r := newRig(t, loaded(agent("support-bot", nil)))
		r.m.lines = strings.Split(strings.Repeat("time=12:00:00 level=INFO msg=\"model ready\" deployment=smollm2-135m slots=4 after=310ms\n", 40)+"the newest line", "\n")
		r.v.Show(tray.Page{Name: tray.LogsPage, Key: tray.Key{Group: "support-bot", Role: fleet.RoleClient}})
		r.settle()
		r.picture("logs")
	})
	t.Run("uninstall", func(t *testing.T) {
		r := newRig(t, loaded(agent("support-bot", nil)))
		r.v.Show(tray.Page{Name: tray.UninstallPage})
		r.picture("uninstall")
		r.m.err, r.m.output = errors.New("not everything was removed: pkexec was refused"), "left: /etc/systemd/system/sh.interlock.updater.timer\nleft: /etc/systemd/system/sh.interlock.updater.service\n"
		r.tap("Uninstall")
		r.settle()
		r.picture("uninstall-refused")
	})
}
