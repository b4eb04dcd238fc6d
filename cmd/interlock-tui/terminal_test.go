package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
)

// asProgram makes the test binary be the program itself.
const asProgram = "INTERLOCK_TUI_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// terminal is the program in a real terminal.
type terminal struct {
	t      *testing.T
	socket string
	dir    string
}

// open starts the program against s in a terminal of 120 × 40 cells.
func open(t *testing.T, s *fleetServer, env ...string) *terminal {
	t.Helper()
	dir, err := os.MkdirTemp("", "tui") // short: a socket's path has a limit
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	term := &terminal{t: t, socket: filepath.Join(dir, "s"), dir: dir}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"new-session", "-d", "-x", "120", "-y", "40", "-c", dir, "env", "-i", "PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=screen-256color",
		asProgram + "=1", "INTERLOCK_URL=" + s.URL, "INTERLOCK_SDK_KEY=test-key"}
	args = append(append(args, env...), program)
	term.tmux(args...)
	t.Cleanup(func() { _ = exec.Command("tmux", "-S", term.socket, "kill-server").Run() })
	return term
}

func (m *terminal) tmux(args ...string) string {
	m.t.Helper()
	out, err := exec.Command("tmux", append([]string{"-u", "-f", "/dev/null", "-S", m.socket}, args...)...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %s: %v: %s", args[0], err, out)
	}
	return string(out)
}

func (m *terminal) screen() string { return m.tmux("capture-pane", "-p") }

func (m *terminal) keys(keys ...string) { m.tmux(append([]string{"send-keys"}, keys...)...) }

// sees waits until the screen has every one of the words.
func (m *terminal) sees(words ...string) string {
	m.t.Helper()
	var screen string
	m.until("the screen to show "+strings.Join(words, ", "), func() bool {
		screen = m.screen()
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(screen, w) })
	}, func() string { return screen })
	return screen
}

func (m *terminal) until(what string, holds func() bool, now func() string) {
	m.t.Helper()
	deadline := time.After(testkit.Patience)
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !holds() {
		select {
		case <-deadline:
			m.t.Fatalf("gave up waiting for %s; now:\n%s", what, now())
		case <-again.C:
		}
	}
}

func TestDashboardInATerminal(t *testing.T) {
	s := newFleetServer(t)
	m := open(t, s)
	m.sees("● connected", "studio-mac", "7 machines", "▸ attic")

	m.keys("Down", "Down", "Enter")
	m.sees("garage-mac", "Processes", "Telemetry", "Log of qwen3-6-35b-a3b", "main: server is listening")
	m.keys("p")
	m.sees("Pause garage-mac?")
	m.keys("y")
	m.sees("asked to pause")
	if got := s.acts(); !slices.Equal(got, []string{"pause m_02garage"}) {
		t.Errorf("did %v", got)
	}

	m.keys("2")
	m.sees("outcome-unknown", "MODEL_CRASHED")
	m.keys("Enter")
	m.sees("Journal", "attempt-lost")
	m.keys("3")
	m.sees("Ask a model of this fleet")
	m.keys("-l", "what is a lease?")
	m.keys("Enter")
	m.sees("› what is a lease?", "A lease is a promise", "● succeeded", "studio-mac")

	m.tmux("resize-window", "-x", "60", "-y", "20")
	m.sees("A lease is a promise with a clock: whoever holds it may work\nuntil")
	m.tmux("resize-window", "-x", "50", "-y", "12")
	m.sees("needs 60×20")
	m.tmux("resize-window", "-x", "120", "-y", "40")
	m.keys("C-c")
	m.until("the program to end", func() bool {
		return exec.Command("tmux", "-S", m.socket, "has-session").Run() != nil
	}, func() string { return "it still runs" })
}

func TestHintBringsAChange(t *testing.T) {
	s := newFleetServer(t)
	m := open(t, s)
	m.sees("studio-mac")
	s.backend.Lock()
	s.backend.Fleet[0].State = fleet.State{Kind: fleet.StateBlocked, Detail: "disk"}
	s.backend.Unlock()
	s.hints <- "machines"
	m.sees("✕ blocked: disk")
}

func TestServerGoesAwayAndComesBackInWords(t *testing.T) {
	s := newFleetServer(t)
	m := open(t, s)
	m.sees("studio-mac")
	s.stop()
	m.keys("C-r")
	m.sees("✕ disconnected", "shown as last read", "studio-mac")
}

// TestIdleDashboardWritesNothing reads the bytes that reach the terminal while the data is read again
// and again.
func TestIdleDashboardWritesNothing(t *testing.T) {
	s := newFleetServer(t)
	m := open(t, s)
	m.sees("studio-mac", "● connected")
	written := filepath.Join(m.dir, "written")
	m.keys("Down")
	m.sees("▸ bench")
	settled := m.screen()
	m.tmux("pipe-pane", "-O", "cat >"+written)
	before := s.lists.Load()
	m.until("five more reads", func() bool {
		select {
		case s.hints <- "machines":
		default:
		}
		return s.lists.Load() >= before+5
	}, m.screen)
	if got, err := os.ReadFile(written); err == nil && len(got) > 0 {
		t.Errorf("%d bytes were drawn for data that did not change: %q", len(got), got)
	}
	if m.screen() != settled {
		t.Errorf("the screen changed:\n%s", m.screen())
	}
	m.keys("Down") // and the pipe does see what is drawn
	m.until("a change to be written", func() bool {
		got, err := os.ReadFile(written)
		return err == nil && len(got) > 0
	}, m.screen)
}

var colour = regexp.MustCompile("\x1b\\[[0-9;:]*m")

func TestNoColor(t *testing.T) {
	s := newFleetServer(t)
	m := open(t, s)
	m.sees("studio-mac")
	if !colour.MatchString(m.tmux("capture-pane", "-p", "-e")) {
		t.Error("there are no colours without NO_COLOR")
	}
	m = open(t, s, "NO_COLOR=1")
	m.sees("studio-mac", "▸ attic", "● ready", "[1 Fleet]")
	if found := colour.FindString(m.tmux("capture-pane", "-p", "-e")); found != "" {
		t.Errorf("NO_COLOR is set, and the screen has %q", found)
	}
}
