package service

import (
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"howett.net/plist"
)

// launchd is the manager of macOS.
type launchd struct{}

const launchDaemons = "/Library/LaunchDaemons"

func (launchd) name() string { return "launchd" }
func (launchd) dir() string  { return launchDaemons }

func (launchd) render(u Unit) (map[string]string, error) { return renderLaunchd(u) }

// written is what has to be known of a list that is there.
type written struct {
	User string            `plist:"UserName"`
	Env  map[string]string `plist:"EnvironmentVariables"`
}

func readList(text string) (w written) {
	if _, err := plist.Unmarshal([]byte(text), &w); err != nil {
		return written{}
	}
	return w
}

func (launchd) userOf(text string) string { return readList(text).User }
func (launchd) homeOf(text string) string { return readList(text).Env[homeVariable] }
func (launchd) confines() bool            { return false }

func (launchd) unitOf(file string) string {
	if name, ok := strings.CutSuffix(file, ".plist"); ok && strings.HasPrefix(name, Prefix) {
		return name
	}
	return ""
}

func (launchd) extra(Unit) map[string]string { return nil }

// startAll loads what is idle. One whose list changed is loaded anew: launchd reads a list only then, and
// refuses to while the one before still ends.
func (launchd) startAll(changed, idle []Unit) []command {
	var out []command
	all := changed[:len(changed):len(changed)]
	for _, u := range changed {
		out = append(out, bootout(u.Name))
	}
	for _, u := range idle {
		if !slices.ContainsFunc(changed, func(c Unit) bool { return c.Name == u.Name }) {
			all = append(all, u)
		}
	}
	for _, u := range all {
		out = append(out, command{argv: []string{"launchctl", "enable", "system/" + u.Name}},
			command{argv: []string{"launchctl", "bootstrap", "system", launchDaemons + "/" + u.Name + ".plist"}, again: true})
	}
	return out
}

func (launchd) start(name string) []command {
	return []command{{argv: []string{"launchctl", "bootstrap", "system", launchDaemons + "/" + name + ".plist"}, again: true}}
}

func (launchd) stop(name string) []command { return []command{bootout(name)} }

// bootout ends a service. launchd refuses that for one that is not loaded, and answers before the end of one
// that takes long: what counts is that it knows the service no more.
func bootout(name string) command {
	return command{argv: []string{"launchctl", "bootout", "system/" + name}, gone: []string{"launchctl", "print", "system/" + name}}
}

func (launchd) stopAll(units []Unit) []command {
	var out []command
	for _, u := range units {
		out = append(out, bootout(u.Name))
	}
	return out
}

func (launchd) forget([]Unit) []command { return nil }

var (
	launchdState = regexp.MustCompile(`(?m)^\s*state = (.+)$`)
	launchdPid   = regexp.MustCompile(`(?m)^\s*pid = (\d+)$`)
	launchdRuns  = regexp.MustCompile(`(?m)^\s*runs = (\d+)$`)
)

func (launchd) states(ctx context.Context, run func(context.Context, ...string) (string, error), units []Unit) (map[string]State, error) {
	out := map[string]State{}
	for _, u := range units {
		text, err := run(ctx, "launchctl", "print", "system/"+u.Name)
		if err != nil { // it says only that it does not know the service
			out[u.Name] = State{Name: u.Name, Words: "not loaded"}
			continue
		}
		s := State{Name: u.Name, Installed: true, Enabled: true, Active: true, Words: "loaded"}
		if found := launchdState.FindStringSubmatch(text); found != nil {
			s.Words = found[1]
			s.Active = found[1] == "running" || u.Timer != nil
		}
		if found := launchdPid.FindStringSubmatch(text); found != nil {
			s.Pid, _ = strconv.Atoi(found[1])
		}
		if found := launchdRuns.FindStringSubmatch(text); found != nil {
			if n, _ := strconv.Atoi(found[1]); n > 1 && u.Timer == nil {
				s.Restarts = n - 1
			}
		}
		out[u.Name] = s
	}
	return out, nil
}
