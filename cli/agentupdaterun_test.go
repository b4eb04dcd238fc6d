package cli

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/localapi"
	"interlock.sh/fleet"
	"interlock.sh/updater"
)

// healthyAgent answers on the lab's socket as an agent that always runs what current names and is well.
func (l *lab) healthyAgent() {
	l.Helper()
	socket, err := l.home.Socket(l.e.Group, l.e.Role)
	if err != nil {
		l.Fatal(err)
	}
	ln, err := net.Listen("unix", socket)
	if err != nil {
		l.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		now := time.Now()
		_ = json.NewEncoder(w).Encode(localapi.Status{
			Pid: 7, Version: l.link("current"), Owner: fleet.Active, Server: fleet.Active, Hours: fleet.Hours{Mode: "always", Open: true}, LastSeen: &now,
		})
	})}
	go s.Serve(ln) //nolint:errcheck // ends with the test
	l.Cleanup(func() { _ = s.Close() })
}

func (l *lab) link(name string) string {
	return linkTarget(filepath.Join(string(l.home), "app", name))
}

// A version whose agent is well runs the updater only when it can: whatever is wrong with its own, the next
// version comes by the old one.
func TestANewVersionRunsTheUpdaterWhenItCan(t *testing.T) {
	pass := []string{"updater", "run", "--steady", "20ms", "--look-every", "10ms", "--min-every", "1ms"}
	for name, c := range map[string]struct {
		does string // its updater
		can  bool
		says string
	}{
		"it can":                  {`echo '{"current":"1.1.0","mirrors":[]}'`, true, ""},
		"it exits 1":              {`echo "panic: no such thing" >&2; exit 1`, false, "exit status 1: panic: no such thing"},
		"it dies":                 {`kill -SEGV $$`, false, "signal: segmentation fault"},
		"it does not know how":    {`echo "unknown flag: --self-test" >&2; exit 2`, false, "unknown flag"},
		"it says nothing":         {`true`, false, "its self-test said"},
		"it says something else":  {`echo interlock 1.1.0`, false, "its self-test said"},
		"it finds another folder": {`echo '{"current":"1.0.0","mirrors":[]}'`, false, "its self-test said"},
		"it leaves a child":       {`sleep 60 & echo '{"current":"1.1.0","mirrors":[]}'`, false, "WaitDelay"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.healthyAgent()
			l.release("interlock", "1.1.0", "#!/bin/sh\nif [ \"$1\" = updater ]; then\n"+c.does+"\nelse echo interlock 1.1.0\nfi\n")
			l.wants(0, nil, pass...)
			want := map[bool]string{true: "1.1.0", false: "1.0.0"}[c.can]
			if l.link("current") != "1.1.0" || l.link("updater") != want {
				t.Fatalf("current is %s, the updater's is %s, want %s", l.link("current"), l.link("updater"), want)
			}
			l.wants(0, []string{"current 1.1.0", c.says}, "agent", "update")
			l.release("interlock", "1.2.0", "#!/bin/sh\n"+`echo '{"current":"1.2.0","mirrors":[]}'`+"\n")
			l.wants(0, nil, pass...)
			if l.link("current") != "1.2.0" || l.link("updater") != "1.2.0" {
				t.Errorf("current is %s, the updater's is %s", l.link("current"), l.link("updater"))
			}
		})
	}
}

// The self-test is asked for as the timer asks for a pass: by the same words, and it does its work.
func TestSelfTestOfTheUpdater(t *testing.T) {
	l := newLab(t)
	l.wants(1, []string{"state"}, "updater", "run", "--self-test")
	l.release("interlock", "1.1.0", l.program("1.1.0"))
	l.wants(0, nil, "updater", "run")
	l.release("interlock", "1.2.0", l.program("1.2.0"))
	var n updater.News
	out := l.wants(0, nil, "updater", "run", "--self-test", "--app", filepath.Join(string(l.home), "app"))
	if err := json.Unmarshal([]byte(out), &n); err != nil || n.Current != "1.1.0" || n.Newest != "1.2.0" {
		t.Fatalf("%+v, %v", n, err)
	}
	if l.link("current") != "1.1.0" || l.link("updater") != "1.0.0" {
		t.Error("a self-test changed something")
	}
	entries, err := os.ReadDir(filepath.Join(string(l.home), "app"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left", e.Name())
		}
	}
}

// An update by hand that was reverted is a failure for whoever asked for it, in every program; going back is not.
func TestTheExitCodeOfAnUpdateByHand(t *testing.T) {
	for _, state := range []string{updater.Current, updater.Waiting, updater.Watching, updater.Stopped, updater.Unoffered, updater.Reverted} {
		for _, asked := range []bool{true, false} {
			n := updater.News{Report: fleet.UpdateReport{State: state}}
			if err := updateEnd(n, asked); (err != nil) != (asked && state == updater.Reverted) {
				t.Errorf("%s, asked %v: %v", state, asked, err)
			}
		}
	}
}
