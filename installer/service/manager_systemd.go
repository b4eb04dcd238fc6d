package service

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// systemd is the manager of most Linux machines.
type systemd struct {
	facts  systemdFacts
	polkit bool // the machine decides about sleep by polkit
}

const (
	systemdUnits = "/etc/systemd/system"
	polkitRules  = "/etc/polkit-1/rules.d"
)

func (systemd) name() string { return "systemd" }
func (systemd) dir() string  { return systemdUnits }

func (m systemd) render(u Unit) (map[string]string, error) { return renderSystemd(u, m.facts) }

var userLine = regexp.MustCompile(`(?m)^User=(.*)$`)

func (systemd) userOf(text string) string {
	if found := userLine.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

var homeLine = regexp.MustCompile(`(?m)^Environment="?NIGHTSHIFT_HOME=([^"\n]*)"?$`)

func (systemd) homeOf(text string) string {
	if found := homeLine.FindStringSubmatch(text); found != nil {
		return strings.ReplaceAll(found[1], "%%", "%")
	}
	return ""
}

func (systemd) confines() bool { return true }

func (systemd) unitOf(file string) string {
	for _, kind := range []string{".service", ".timer"} {
		if name, ok := strings.CutSuffix(file, kind); ok && strings.HasPrefix(name, Prefix) {
			return name
		}
	}
	return ""
}

// extra lets the agent keep the machine awake while a task runs: polkit grants that to people at the
// machine, and a service is none.
func (m systemd) extra(u Unit) map[string]string {
	if !m.polkit || !u.Accelerator {
		return nil
	}
	return map[string]string{filepath.Join(polkitRules, "50-"+Prefix+u.User+".rules"): fmt.Sprintf(`// %s
polkit.addRule(function (action, subject) {
  if (action.id == "org.freedesktop.login1.inhibit-block-sleep" && subject.user == %q) {
    return polkit.Result.YES;
  }
});
`, strings.TrimPrefix(marker, "# "), u.User)}
}

// active is the unit that is enabled and started: of a service with a timer that is the timer.
func active(u Unit) string {
	if u.Timer != nil {
		return u.Name + ".timer"
	}
	return u.Name + ".service"
}

func (systemd) startAll(changed, idle []Unit) []command {
	var out []command
	if len(changed) > 0 {
		out = append(out, command{argv: []string{"systemctl", "daemon-reload"}})
	}
	if len(idle) > 0 {
		argv := []string{"systemctl", "enable", "--now"}
		for _, u := range idle {
			argv = append(argv, active(u))
		}
		out = append(out, command{argv: argv})
	}
	return out
}

func (systemd) start(name string) []command {
	return []command{{argv: []string{"systemctl", "start", name + ".service"}}}
}

func (systemd) stop(name string) []command {
	return []command{{argv: []string{"systemctl", "stop", name + ".service"}}}
}

func (systemd) stopAll(units []Unit) []command {
	argv, runs := []string{"systemctl", "disable", "--now"}, []string{"systemctl", "stop"}
	for _, u := range units {
		argv = append(argv, active(u))
		if u.Timer != nil {
			runs = append(runs, u.Name+".service")
		}
	}
	out := []command{{argv: argv}}
	if len(runs) > 2 {
		out = append(out, command{argv: runs, mayFail: true})
	}
	return out
}

func (systemd) forget(units []Unit) []command {
	failed := []string{"systemctl", "reset-failed"}
	for _, u := range units {
		failed = append(failed, u.Name+".service")
	}
	return []command{{argv: []string{"systemctl", "daemon-reload"}}, {argv: failed, mayFail: true}}
}

func (systemd) states(ctx context.Context, run func(context.Context, ...string) (string, error), units []Unit) (map[string]State, error) {
	out := map[string]State{}
	if len(units) == 0 {
		return out, nil
	}
	argv := []string{"systemctl", "show", "--property=Id,LoadState,ActiveState,SubState,UnitFileState,MainPID,NRestarts,Result"}
	for _, u := range units {
		argv = append(argv, active(u))
	}
	text, err := run(ctx, argv...)
	if err != nil {
		return nil, fmt.Errorf("ask systemd: %w", err)
	}
	for block := range strings.SplitSeq(text, "\n\n") {
		v := map[string]string{}
		for line := range strings.Lines(block) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			v[key] = value
		}
		name := systemd{}.unitOf(v["Id"])
		if name == "" {
			continue
		}
		s := State{
			Name: name, Installed: v["LoadState"] == "loaded", Enabled: v["UnitFileState"] == "enabled",
			Active: v["ActiveState"] == "active" || v["ActiveState"] == "activating" && v["SubState"] != "auto-restart", Words: v["ActiveState"],
		}
		if v["SubState"] != "" && v["SubState"] != v["ActiveState"] {
			s.Words += " (" + v["SubState"] + ")"
		}
		if v["Result"] != "" && v["Result"] != "success" {
			s.Words += ", last end: " + v["Result"]
		}
		s.Pid, _ = strconv.Atoi(v["MainPID"])
		s.Restarts, _ = strconv.Atoi(v["NRestarts"])
		out[name] = s
	}
	return out, nil
}

// systemdVersion is the number of the systemd that is installed; 0 when it does not say.
func systemdVersion() int {
	text, err := exec.Command("systemctl", "--version").Output()
	if err != nil {
		return 0
	}
	words := strings.Fields(string(text))
	if len(words) < 2 {
		return 0
	}
	number, _, _ := strings.Cut(words[1], ".")
	n, _ := strconv.Atoi(number)
	return n
}
