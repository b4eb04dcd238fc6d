//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakeagents"
	"interlock.sh/internal/testkit/sessionbus"
)

// The test binary is the program when the variable is set.
const envProgram = "NIGHTSHIFT_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(envProgram) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// session is a desktop with a bus and no display, and a machine with agents.
type session struct {
	t    *testing.T
	bus  *sessionbus.Bus
	home enrollment.Home
	user string
}

func newSession(t *testing.T, agents ...*fakeagents.Agent) *session {
	t.Helper()
	bus, err := sessionbus.Start()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "ns") // not t.TempDir: a socket's path has 104 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Stop(); _ = os.RemoveAll(dir) })
	s := &session{t: t, bus: bus, home: enrollment.Home(filepath.Join(dir, "ns")), user: dir}
	for _, a := range agents {
		s.start(a)
	}
	return s
}

func (s *session) start(a *fakeagents.Agent) {
	s.t.Helper()
	if err := a.Start(s.home); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = a.Stop() })
}

// command is a start of the program in the session. There is no X server: the bar needs none, and a window
// says so.
func (s *session) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = []string{
		envProgram + "=1", "HOME=" + s.user, enrollment.EnvHome + "=" + string(s.home), "PATH=" + os.Getenv("PATH"),
		"DBUS_SESSION_BUS_ADDRESS=" + s.bus.Address, "WAYLAND_DISPLAY=wayland-none",
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	return cmd, &out
}

// nightshift starts the app and waits for its item.
func (s *session) nightshift() (sessionbus.Item, *exec.Cmd) {
	s.t.Helper()
	cmd, out := s.command()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("the app said: %s", out)
		}
	})
	item := s.bus.Item(cmd.Process.Pid)
	s.await("an item in the bar", func() bool { _, err := item.Menu(); return err == nil })
	return item, cmd
}

// await asks until it is so.
func (s *session) await(what string, so func() bool) {
	s.t.Helper()
	for end := time.Now().Add(testkit.Patience); !so(); {
		if time.Now().After(end) {
			s.t.Fatalf("waited in vain for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// ended waits for the end of a program; one that does not end is killed.
func (s *session) ended(cmd *exec.Cmd) error {
	late := time.AfterFunc(testkit.Patience, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	return cmd.Wait()
}

func (s *session) awaitLine(i sessionbus.Item, line string) {
	s.t.Helper()
	var got []string
	defer func() {
		if s.t.Failed() {
			s.t.Logf("the menu: %q", got)
		}
	}()
	s.await(line, func() bool {
		m, err := i.Menu()
		got = m.Text()
		return err == nil && slices.Contains(got, line)
	})
}

func TestTheMenuFollowsTheAgentsAndTheAgentsTheMenu(t *testing.T) {
	bot := fakeagents.Ready("support-bot", "tiny", 38.4)
	s := newSession(t, bot)
	item, cmd := s.nightshift()
	s.awaitLine(item, "support-bot (client): ready, 38 tok/s")
	changed := bot.Changed()
	if err := item.Click("Paused"); err != nil {
		t.Fatal(err)
	}
	testkit.Get(t, "the wish", changed)
	if w, _ := bot.Wish(); w.Mode != schedule.Paused {
		t.Errorf("the agent has %+v", w)
	}
	s.awaitLine(item, "support-bot (client): paused (by owner)")
	s.awaitLine(item, "  [x] Paused")

	if err := item.Click("Pause all for an hour"); err != nil {
		t.Fatal(err)
	}
	s.await("the pause", func() bool { w, _ := bot.Wish(); return w.Hold != nil && w.Hold.Until != nil })
	if err := bot.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := item.Click("Always"); err != nil { // it is asked, and is not there
		t.Fatal(err)
	}
	s.awaitLine(item, "support-bot (client): the agent does not run")
	s.awaitLine(item, "(1 needs attention)")
	if err := item.Click("Quit"); err != nil {
		t.Fatal(err)
	}
	if err := s.ended(cmd); err != nil {
		t.Errorf("quit: %v", err)
	}
}

// TestFromClickToAgent carries each of many clicks to the agent and back into the menu, and logs how long that
// takes. The benchmark holds it to its bound.
func TestFromClickToAgent(t *testing.T) {
	bot := fakeagents.Ready("support-bot", "tiny", 38.4)
	s := newSession(t, bot)
	item, _ := s.nightshift()
	s.awaitLine(item, "  [x] Always")
	m, err := item.Menu()
	if err != nil {
		t.Fatal(err)
	}
	var toAgent, toMenu []time.Duration
	for n := range 20 {
		label := []string{"Paused", "Always"}[n%2]
		it, _ := m.Find(label)
		changed := bot.Changed()
		began := time.Now()
		if err := item.ClickID(it.ID); err != nil {
			t.Fatal(err)
		}
		testkit.Get(t, "the wish", changed)
		toAgent = append(toAgent, time.Since(began))
		s.awaitLine(item, "  [x] "+label)
		toMenu = append(toMenu, time.Since(began))
	}
	slices.Sort(toAgent)
	slices.Sort(toMenu)
	t.Logf("click to agent: median %s, longest %s; to the mark in the menu: median %s", toAgent[10], toAgent[19], toMenu[10])
}

func TestTheSecondOneTellsTheFirstAndLeaves(t *testing.T) {
	s := newSession(t)
	item, _ := s.nightshift()
	s.awaitLine(item, "(This machine is in no model group)")
	// It gives an app up that is too busy to answer soon, as its owner would, who tries again.
	s.await("a second that is heard", func() bool {
		second, out := s.command("--page", "about")
		if err := second.Start(); err != nil {
			t.Fatal(err)
		}
		err := s.ended(second)
		if err != nil {
			t.Logf("the second: %v: %s", err, out)
		}
		return err == nil
	})
	s.awaitLine(item, "(the window ended: exit status 3)") // it tried to open its window, on no display
}

func TestAnUpdatedAppBecomesTheNewVersion(t *testing.T) {
	s := newSession(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []string{"1.0.0", "1.1.0"} {
		// Two files, not two links to one: the kernel names a running file by one of its names.
		testkit.WriteProgram(t, filepath.Join(string(s.home), "app", v, "nightshift"), program)
	}
	current := filepath.Join(string(s.home), "app", "current")
	if err := os.Symlink("1.0.0", current); err != nil {
		t.Fatal(err)
	}
	cmd, out := s.command()
	cmd.Path = filepath.Join(current, "nightshift")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	runs := func() string {
		p, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", cmd.Process.Pid))
		return filepath.Base(filepath.Dir(p))
	}
	item := s.bus.Item(cmd.Process.Pid)
	s.awaitLine(item, "(This machine is in no model group)")
	if runs() != "1.0.0" {
		t.Fatalf("runs %s: %s", runs(), out)
	}
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("1.1.0", current); err != nil {
		t.Fatal(err)
	}
	if err := item.Click("Check now"); err != nil { // whatever it says, the app looks again
		t.Fatal(err)
	}
	s.await("the new version", func() bool { return runs() == "1.1.0" })
	s.awaitLine(item, "(This machine is in no model group)")
}

func TestTheEndOfTheSessionEndsTheApp(t *testing.T) {
	s := newSession(t)
	_, cmd := s.nightshift()
	if err := s.bus.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := s.ended(cmd); err == nil || cmd.ProcessState.ExitCode() != exitNoDesktop {
		t.Errorf("ended with %v", err)
	}
}

func TestFlagsAndPlacesThatAreRefused(t *testing.T) {
	s := newSession(t)
	for _, c := range []struct {
		name string
		args []string
		env  []string
		code int
		says string
	}{
		{"version", []string{"--version"}, nil, 0, "nightshift 0.1.0"},
		{"help", []string{"--help"}, nil, 0, "-install-autostart"},
		{"an unknown flag", []string{"--fast"}, nil, exitUsage, "fast"},
		{"an argument", []string{"now"}, nil, exitUsage, `takes no argument "now"`},
		{"no desktop", nil, []string{"WAYLAND_DISPLAY="}, exitNoDesktop, "needs a desktop, and neither DISPLAY nor WAYLAND_DISPLAY is set (start it in a desktop session; without one use: interlock agent status)"},
		{"no bus", nil, []string{"DBUS_SESSION_BUS_ADDRESS="}, exitNoDesktop, "needs the session bus"},
		{"a bus that is gone", nil, []string{"DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent/bus"}, exitNoDesktop, "the session bus cannot be reached"},
		{"a window without X", []string{windowVerb}, []string{"DISPLAY="}, exitNoDesktop, "needs DISPLAY"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, out := s.command(c.args...)
			cmd.Env = append(cmd.Env, c.env...)
			ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
			defer cancel()
			stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
			defer stop()
			_ = cmd.Run() // the code is looked at
			if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("code %d, said %s", code, out)
			}
		})
	}
}

func TestAutostartIsInstalledAndRemoved(t *testing.T) {
	s := newSession(t)
	file := filepath.Join(s.user, ".config", "autostart", "sh.interlock.nightshift.desktop")
	cmd, out := s.command("--install-autostart")
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), file) {
		t.Fatalf("%v: %s", err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), string(s.home)) || !strings.Contains(string(b), filepath.Base(os.Args[0])) {
		t.Errorf("%v: %s", err, b)
	}
	cmd, out = s.command("--remove-autostart")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
}
