package cli

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
)

// halves are the files of which one may be gone, by what is left to name the group by.
var halves = map[string]string{
	"groups/garage-aaaaaa/group.json":              "garage-aaaaaa",
	"groups/garage-aaaaaa/roles/client/role.json":  "garage",
	"groups/garage-aaaaaa/roles/client/worker.env": "garage-aaaaaa",
}

// halve takes one file from the enrollment of the group garage.
func halve(t *testing.T, file string) enrollment.Home {
	t.Helper()
	home, err := enrollment.DefaultHome()
	if err == nil {
		err = os.Remove(filepath.Join(string(home), file))
	}
	if err != nil {
		t.Fatal(err)
	}
	return home
}

// Whatever somebody deleted of an enrollment, its owner sees it, and can pause the agent that runs.
func TestARunningAgentOfAHalfDeletedGroupObeysItsOwner(t *testing.T) {
	for file, name := range halves {
		t.Run(filepath.Base(file), func(t *testing.T) {
			all := keepers(t, "garage-aaaaaa", "studio-aaaaaa")
			halve(t, file)
			gone := filepath.Base(file) + " is gone"
			for _, c := range []struct {
				args string
				code int
				want string // said of it
			}{
				{"status", ExitError, gone},
				{"status --group garage-aaaaaa", ExitError, gone},
				{"status --group studio", ExitOK, ""},
				{"pause --all", ExitOK, gone},
				{"pause --group " + name, ExitOK, ""},
				{"resume --group " + name, ExitOK, ""},
				{"drain --all", ExitOK, gone},
				{"hours night --group " + name, ExitOK, ""},
				{"hours", ExitOK, gone},
				{"pause", ExitError, "2 enrollments"},
				{"start --group " + name, ExitError, gone},
				{"doctor --group " + name, ExitError, ""},
			} {
				code, out, errs := runCLI(t, append([]string{"agent"}, strings.Fields(c.args)...)...)
				if code != c.code || !strings.Contains(errs, c.want) || strings.Contains(out+errs, "not enrolled") {
					t.Errorf("%s: %d\n%s%s", c.args, code, out, errs)
				}
			}
			if got := all[0].asked; !slices.Equal(got, []string{"pause 0s", "pause 0s", "active", "draining"}) || all[0].availability().Mode != "night" {
				t.Errorf("asked %q, %+v", got, all[0].availability())
			}
			if got := all[1].asked; !slices.Equal(got, []string{"pause 0s", "draining"}) {
				t.Errorf("the other one was asked %q", got)
			}
			_, out, _ := runCLI(t, "agent", "status", "--json")
			var st struct{ Agents []localapi.Status }
			if err := json.Unmarshal([]byte(out), &st); err != nil || len(st.Agents) != 2 || !strings.Contains(st.Agents[1].LastError, gone) {
				t.Errorf("as JSON: %v %s", err, out)
			}
			if code, out, _ := runCLI(t, "agent", "doctor", "--group", name); code != ExitError || !strings.HasPrefix(out, "FAIL  enrollment") || !strings.Contains(out, gone) {
				t.Errorf("doctor: %d %s", code, out)
			}
			if code, out, errs := runCLI(t, "agent", "uninstall", "--group", name, "--dry-run"); code != ExitOK || !strings.Contains(out, "garage-aaaaaa") {
				t.Errorf("uninstall: %d %s%s", code, out, errs)
			}
		})
	}
}

// With nothing behind the door either, it is no machine without an enrollment.
func TestAHalfDeletedGroupWithoutAnAgentIsNamed(t *testing.T) {
	for file := range halves {
		if strings.HasSuffix(file, "worker.env") { // an enrollment that broke off is none
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Setenv(enrollment.EnvHome, filepath.Join(t.TempDir(), "ns"))
			home, err := enrollment.DefaultHome()
			if err != nil {
				t.Fatal(err)
			}
			enroll(t, home, "garage-aaaaaa")
			halve(t, file)
			for _, args := range []string{"status", "pause --all", "pause", "hours night", "hours night --all", "stop", "doctor", "logs", "start", "service install"} {
				code, out, errs := runCLI(t, append([]string{"agent"}, strings.Fields(args)...)...)
				if code != ExitError || strings.Contains(out+errs, "not enrolled") {
					t.Errorf("%s: %d %s%s", args, code, out, errs)
				}
				if strings.HasPrefix(args, "s") && args != "stop" && !strings.Contains(errs, filepath.Base(file)+" is gone") {
					t.Errorf("%s does not name it: %s%s", args, out, errs)
				}
			}
			if code, out, errs := runCLI(t, "agent", "uninstall", "--yes"); code != ExitOK {
				t.Errorf("uninstall: %d %s%s", code, out, errs)
			}
			if _, err := os.Stat(home.Group("garage-aaaaaa")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("its folder: %v", err)
			}
		})
	}
}

// Its process is found and told to stop all the same.
func TestAnAgentOfAHalfDeletedGroupCanBeStopped(t *testing.T) {
	l := newLab(t)
	ended := l.hang()
	if err := os.Remove(filepath.Join(l.home.Group(l.e.Group), "group.json")); err != nil {
		t.Fatal(err)
	}
	code, out, errs := l.interlock("agent", "stop")
	if is := ended(); !is.Signaled() || code != ExitOK {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if _, runs := agent.Running(l.e); runs {
		t.Error("it runs")
	}
}

// What an agent warns of is shown where its owner looks, and after they set a limit.
func TestALimitThatDoesNotHoldIsSaid(t *testing.T) {
	const warning = "the owner's limit does not hold: whether somebody uses it is not known"
	garage := keepers(t, "garage-aaaaaa")[0]
	garage.warnings = []string{warning}
	for _, args := range []string{"status", "hours", "hours --idle-minutes 10", "hours night --all"} {
		if code, _, errs := runCLI(t, append([]string{"agent"}, strings.Fields(args)...)...); code != ExitOK || !strings.Contains(errs, "garage/client: warning: "+warning) {
			t.Errorf("%s: %d %s", args, code, errs)
		}
	}
	for _, args := range []string{"status --json", "hours --json"} {
		if _, out, _ := runCLI(t, append([]string{"agent"}, strings.Fields(args)...)...); !strings.Contains(out, warning) {
			t.Errorf("%s: %s", args, out)
		}
	}
}

// While its agent is replaced, a wish at the command line waits for the next image.
func TestAPauseWhileTheAgentIsReplacedArrives(t *testing.T) {
	l := newLab(t)
	end := l.hang() // its process runs, and has no door yet
	defer end()
	k := &keeper{group: l.e.Group}
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		l.serve(localapi.Handler(k))
	}()
	code, out, errs := l.interlock("agent", "pause")
	<-opened
	if code != ExitOK || !slices.Equal(k.asked, []string{"pause 0s"}) {
		t.Errorf("%d %s%s, asked %q", code, out, errs, k.asked)
	}
	if door, err := agent.Door(l.e); err != nil {
		t.Error(err)
	} else if _, err := door.SetOwner(t.Context(), fleet.Active); err != nil {
		t.Error(err)
	}
}

// serve opens the lab's door.
func (l *lab) serve(h http.Handler) {
	l.Helper()
	socket, err := l.home.Socket(l.e.Group, l.e.Role)
	if err != nil {
		l.Error(err)
		return
	}
	serveAt(l.T, socket, h)
}
