package tray_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/tray"
)

func answering(group string, change func(*localapi.Status)) tray.Agent {
	tps := 38.4
	a := tray.Agent{
		Key: tray.Key{Group: group, Role: fleet.RoleClient}, GroupName: group, Origin: "https://fleet.test", Reach: tray.Answers,
		Status: localapi.Status{
			Words: "ready", State: fleet.State{Kind: fleet.StateReady}, Hours: fleet.Hours{Mode: "always", Open: true},
			Wish: localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}},
			Report: fleet.Heartbeat{Deployments: []fleet.DeploymentReport{{
				Alias: "tiny", State: fleet.State{Kind: fleet.StateReady}, TokensPerSecond: &tps, Slots: 4, Busy: 1,
			}}},
		},
	}
	if change != nil {
		change(&a.Status)
	}
	return a
}

func older(s *localapi.Status) {
	s.Hours, s.Wish, s.Owner = fleet.Hours{}, localapi.Wish{}, fleet.Active
}

func machine(agents ...tray.Agent) tray.Snapshot { return tray.Snapshot{Loaded: true, Agents: agents} }

// lines writes what is seen of a menu: [x] for a mark, (…) for what cannot be clicked.
func lines(items []tray.Item, indent string) []string {
	var out []string
	for _, it := range items {
		if it.Hidden {
			continue
		}
		text := it.Label
		switch {
		case it.Kind == tray.Separator:
			text = "--"
		case it.Kind == tray.Choice && it.Checked:
			text = "[x] " + text
		case it.Kind == tray.Choice:
			text = "[ ] " + text
		}
		if !it.Enabled && it.Kind != tray.Separator {
			text = "(" + text + ")"
		}
		out = append(out, indent+text)
		out = append(out, lines(it.Items, indent+"  ")...)
	}
	return out
}

func expect(t *testing.T, items []tray.Item, want string) {
	t.Helper()
	if d := cmp.Diff(strings.Split(strings.TrimSpace(want), "\n"), lines(items, "")); d != "" {
		t.Errorf("menu (-want +got):\n%s", d)
	}
}

const foot = `
--
Pause all for an hour
Open Nightshift…
--
Updates
  (No news of updates yet)
  Check now
  Show…
About Nightshift…
Quit
--
Uninstall Nightshift…`

func TestTheMenuOfAMachineThatWorks(t *testing.T) {
	expect(t, tray.Menu(machine(answering("support-bot", nil)), ""), `
(1 working)
--
support-bot (client): ready, 38 tok/s
  (tiny: ready, 38 tok/s, 1 of 4 busy)
  --
  [x] Always
  [ ] 10 PM–7 AM
  [ ] Paused
  [ ] Custom hours…
  --
  Open dashboard
  Logs…`+foot)
}

func TestTheMenuWithoutAgents(t *testing.T) {
	none := strings.Replace(foot, "Pause all for an hour", "(Pause all for an hour)", 1)
	expect(t, tray.Menu(tray.Snapshot{}, ""), "(Looking for agents…)"+none)
	expect(t, tray.Menu(tray.Snapshot{Loaded: true}, ""), "(This machine is in no model group)"+none)
}

func TestTheMenuSaysWhatIsWrong(t *testing.T) {
	stopped := tray.Agent{Key: tray.Key{Group: "shed", Role: fleet.RoleTrainer}, Origin: "file:///etc/passwd", Reach: tray.Stopped}
	s := machine(stopped)
	s.Broken = []string{"group.json is damaged", "b", "c"}
	expect(t, tray.Menu(s, "garage: no room on the disk"), `
(4 need attention)
(garage: no room on the disk)
(group.json is damaged)
(and 2 more that cannot be read)
--
shed (trainer): the agent does not run
  (The agent does not run)
  (Start it: interlock agent start)
  --
  ([ ] Always)
  ([ ] 10 PM–7 AM)
  ([ ] Paused)
  ([ ] Custom hours…)
  --
  (Open dashboard)
  (Logs…)`+strings.Replace(foot, "Pause all for an hour", "(Pause all for an hour)", 1))
}

// choices are the choices of the first role, as they are seen.
func choices(t *testing.T, s tray.Snapshot) string {
	t.Helper()
	for _, it := range tray.Menu(s, "") {
		if it.Kind == tray.Submenu {
			var out []string
			for _, l := range lines(it.Items, "") {
				if strings.Contains(l, "[") {
					out = append(out, l)
				}
			}
			return strings.Join(out, " | ")
		}
	}
	t.Fatal("no role")
	return ""
}

func TestChoices(t *testing.T) {
	for want, change := range map[string]func(*localapi.Status){
		"[x] Always | [ ] 10 PM–7 AM | [ ] Paused | [ ] Custom hours…":                                                nil,
		"[ ] Always | [x] 10 PM–7 AM | [ ] Paused | [ ] Custom hours…":                                                func(s *localapi.Status) { s.Wish.Mode = schedule.Night },
		"[ ] Always | [ ] 10 PM–7 AM | [x] Paused | [ ] Custom hours…":                                                func(s *localapi.Status) { s.Wish.Mode = schedule.Paused },
		"[x] Always | ([ ] 10 PM–7 AM (needs a newer agent)) | [ ] Paused | ([ ] Custom hours (needs a newer agent))": older,
		"[ ] Always | ([ ] 10 PM–7 AM (needs a newer agent)) | [x] Paused | ([ ] Custom hours (needs a newer agent))": func(s *localapi.Status) { older(s); s.Owner = fleet.Paused },
		"[ ] Always | [ ] 10 PM–7 AM | [ ] Paused | [x] Custom hours: Sat, Sun 20:00–06:30…": func(s *localapi.Status) {
			s.Wish.Mode, s.Wish.Windows = schedule.Window, []schedule.Span{{Start: "20:00", End: "06:30", Days: []string{"sat", "sun"}}}
		},
	} {
		if got := choices(t, machine(answering("g", change))); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// find is the first item of a verb, hidden ones included.
func find(items []tray.Item, v tray.Verb) tray.Item {
	for _, it := range items {
		if it.Action.Verb == v {
			return it
		}
		if in := find(it.Items, v); in.Action.Verb == v {
			return in
		}
	}
	return tray.Item{}
}

func TestPausedForAnHour(t *testing.T) {
	until := time.Date(2026, 11, 30, 15, 4, 0, 0, time.Local)
	s := machine(answering("a", nil), answering("b", func(s *localapi.Status) { s.Wish.Hold = &schedule.Hold{Until: &until} }))
	if it := find(tray.Menu(s, ""), tray.ResumeAll); it.Hidden || it.Label != "Resume all (paused until 15:04)" {
		t.Errorf("resume: %+v", it)
	}
	// The machine is somewhere else since this process began.
	away := machine(answering("a", func(s *localapi.Status) {
		end := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
		s.Wish.Hold, s.Report.Host.Zone = &schedule.Hold{Until: &end}, "Asia/Kolkata"
	}))
	if it := find(tray.Menu(away, ""), tray.ResumeAll); it.Label != "Resume all (paused until 17:30)" {
		t.Errorf("resume in another zone: %+v", it)
	}
	if it := find(tray.Menu(machine(answering("a", nil)), ""), tray.ResumeAll); !it.Hidden {
		t.Errorf("nothing is paused: %+v", it)
	}
	if it := find(tray.Menu(machine(answering("a", older)), ""), tray.PauseAll); it.Enabled {
		t.Errorf("an older agent would pause for ever: %+v", it)
	}
}

// shape is what a menu needs of places: a panel that shows one with the same shape need not begin anew.
func shape(items []tray.Item) string {
	var b strings.Builder
	for _, it := range items {
		fmt.Fprintf(&b, "%d", it.Kind)
		if len(it.Items) > 0 {
			b.WriteString("(" + shape(it.Items) + ")")
		}
	}
	return b.String()
}

func TestTheMenuKeepsItsPlaces(t *testing.T) {
	var five []tray.Agent
	for i := range 5 {
		five = append(five, answering(fmt.Sprint("g", i), nil))
	}
	s := machine(five[:1]...)
	one := shape(tray.Menu(s, ""))
	s.Broken = []string{"x", "y", "z"}
	s.Agents[0].Reach = tray.Stopped
	if shape(tray.Menu(s, "notice")) != one || shape(tray.Menu(machine(five[:4]...), "")) != one {
		t.Error("a change of words or a few more roles built the menu anew")
	}
	if n := strings.Count(strings.Join(lines(tray.Menu(machine(five...), ""), ""), "\n"), "(client)"); n != 5 {
		t.Errorf("%d of 5 roles are shown", n)
	}
}

func TestNamesOfOthersCannotDisturb(t *testing.T) {
	for in, want := range map[string]string{
		"garage":                "garage",
		"two\nlines\tand tab":   "two lines and tab",
		"\u202egnp.exe":         "gnp.exe",
		"a\x00b\x1b[31m":        "ab[31m",
		"  much   room ":        "much room",
		"日本語 группа 🌙":          "日本語 группа 🌙",
		strings.Repeat("ä", 70): strings.Repeat("ä", 59) + "…",
	} {
		if got := tray.Plain(in); got != want {
			t.Errorf("Plain(%q) = %q, want %q", in, got, want)
		}
	}
	for address, web := range map[string]bool{
		"https://fleet.test": true, "http://127.0.0.1:8090": true, "file:///etc/passwd": false, "javascript:alert(1)": false,
		"": false, "https://": false, "-h": false, "ssh://x": false, "://": false,
	} {
		if tray.Web(address) != web {
			t.Errorf("Web(%q) = %v", address, !web)
		}
	}
}

func TestTwoGroupsOfOneNameAreToldApart(t *testing.T) {
	a, b := answering("id-1", nil), answering("id-2", nil)
	a.GroupName, b.GroupName, b.Origin = "bot", "bot", "https://other.test:8443"
	s := machine(a, b)
	if s.Title(a) != "bot (client at fleet.test)" || s.Title(b) != "bot (client at other.test:8443)" {
		t.Errorf("%q, %q", s.Title(a), s.Title(b))
	}
}

func TestSummaryAndMood(t *testing.T) {
	is := func(k fleet.StateKind) tray.Agent {
		return answering("g", func(s *localapi.Status) { s.State.Kind = k })
	}
	for _, c := range []struct {
		s       tray.Snapshot
		summary string
		mood    tray.Mood
	}{
		{machine(is(fleet.StateReady), is(fleet.StateFull)), "2 working", tray.Working},
		{machine(is(fleet.StatePaused)), "1 paused", tray.Resting},
		{machine(is(fleet.StateIdle), is(fleet.StatePaused)), "1 idle, 1 paused", tray.Idle},
		{machine(is(fleet.StateLoading), is(fleet.StateReady)), "1 working, 1 starting", tray.Working},
		{machine(is(fleet.StateReady), is(fleet.StateParked)), "1 needs attention, 1 working", tray.Trouble},
		{machine(is("a word of a newer agent")), "1 needs attention", tray.Trouble},
		{machine(tray.Agent{Reach: tray.Asking}), "1 starting", tray.Coming},
		{tray.Snapshot{Loaded: true, Broken: []string{"x"}}, "1 needs attention", tray.Trouble},
	} {
		if c.s.Summary() != c.summary || c.s.Mood() != c.mood {
			t.Errorf("%q %q, want %q %q", c.s.Summary(), c.s.Mood(), c.summary, c.mood)
		}
	}
}

func TestTheNewestNewsOfUpdates(t *testing.T) {
	at := time.Unix(1e9, 0)
	with := func(u fleet.UpdateReport) tray.Agent {
		return answering("g", func(s *localapi.Status) { s.Update = &u })
	}
	s := machine(with(fleet.UpdateReport{State: "current", Version: "1.0.0", At: at}), with(fleet.UpdateReport{State: "reverted", Version: "1.1.0", Why: "it never answered", At: at.Add(1)}))
	u, known := s.Update()
	if got := tray.UpdateWords(u, known); got != "Version 1.1.0 was taken back: it never answered" {
		t.Errorf("%q", got)
	}
	for state, want := range map[string]string{
		"current": "Up to date 2.0.0", "available": "Version 2.0.0 is available", "waiting": "Version 2.0.0 waits", "staged": "Version 2.0.0 is downloaded",
		"watching": "Version 2.0.0 is being watched", "stopped": "Updates have stopped",
		"none": "No signed releases are offered to this machine yet", "new word": "new word 2.0.0",
	} {
		if got := tray.UpdateWords(fleet.UpdateReport{State: state, Version: "2.0.0"}, true); got != want {
			t.Errorf("%s: %q, want %q", state, got, want)
		}
	}
}

func TestPagesAndKeysAreReadAsWritten(t *testing.T) {
	k := tray.Key{Group: "garage-abc123", Role: fleet.RoleTrainer}
	for _, p := range []tray.Page{{Name: tray.RolesPage}, {Name: tray.HoursPage, Key: k}, {Name: tray.LogsPage, Key: k}, {Name: tray.AboutPage}, {Name: tray.UpdatesPage}, {Name: tray.UninstallPage}} {
		if got := tray.ParsePage(p.String()); got != p {
			t.Errorf("%q is read as %+v", p, got)
		}
	}
	for _, s := range []string{"", "nonsense", "hours", "hours /client", "logs garage", "hours garage/"} {
		if got := tray.ParsePage(s); got != (tray.Page{Name: tray.RolesPage}) {
			t.Errorf("%q is read as %+v", s, got)
		}
	}
}
