package main

import (
	"bytes"
	"strings"
	"testing"

	"interlock.sh/fault"
)

func runWith(t *testing.T, args ...string) (out, errs string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	err = run(t.Context(), append([]string{"interlock-tui"}, args...), strings.NewReader(""), &o, &e)
	return o.String(), e.String(), err
}

func TestFramePrintsEachPage(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("INTERLOCK_SDK_KEY", "test-key")
	s := newFleetServer(t)
	for page, want := range map[string]string{
		"fleet": "studio-mac", "machine": "Processes", "tasks": "outcome-unknown", "ask": "2 of 4 machines ready", "help": "States of a machine",
	} {
		for _, size := range []string{"120x40", "60x20"} {
			out, _, err := runWith(t, "--api", s.URL, "--frame", size, "--page", page)
			if err != nil {
				t.Fatalf("%s at %s: %v", page, size, err)
			}
			if page != "help" && !strings.Contains(out, want) {
				t.Errorf("%s at %s lacks %q:\n%s", page, size, want, out)
			}
			if lines := strings.Count(out, "\n"); size == "60x20" && lines != 20 || size == "120x40" && lines != 40 {
				t.Errorf("%s at %s has %d lines", page, size, lines)
			}
			if strings.Contains(out, "\x1b") {
				t.Errorf("%s at %s: escape sequences go into a pipe", page, size)
			}
		}
	}
}

func TestFrameOfNoServerFailsAndSaysSo(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := newFleetServer(t)
	s.stop()
	out, _, err := runWith(t, "--api", s.URL, "--frame", "80x24")
	if err == nil || !strings.Contains(out, "No connection to "+s.URL) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("err %v, frame:\n%s", err, out)
	}
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--frame", "wide"}, `"wide" is no size of a frame (give width and height, as in 120x40)`},
		{[]string{"--frame", "40x10"}, "a frame of 40x10 cells is out of bounds (it goes from 60x20 to 1000x1000)"},
		{[]string{"--frame", "120x40", "--page", "flet"}, `"flet" is no page (the pages are fleet, machine, tasks, ask and help)`},
		{[]string{"--api", "http://fleet.example.com", "--frame", "80x24"}, "plain http to another machine"},
		{nil, "the dashboard needs a terminal for input and output (in a script print one frame with --frame 120x40)"},
		{[]string{"--nonsense"}, errUsage.Error()},
	} {
		if _, _, err := runWith(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.args, err, c.want)
		}
	}
}

func TestNoLoginIsSaidBeforeTheServersWords(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	s := newFleetServer(t)
	s.backend.Err = fault.New(fault.Unauthenticated, "a bearer token is missing")
	out, _, err := runWith(t, "--api", s.URL, "--frame", "120x40")
	for _, want := range []string{"Not logged in to " + s.URL, "profile prod has no login for it", "interlock login --api " + s.URL} {
		if err == nil || !strings.Contains(out, want) {
			t.Errorf("%v, the frame lacks %q:\n%s", err, want, out)
		}
	}
}

func TestVersion(t *testing.T) {
	out, _, err := runWith(t, "--version")
	if err != nil || out != "interlock-tui "+version+"\n" {
		t.Errorf("%q, %v", out, err)
	}
}
