package cli

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/agent"
	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/installer/service"
	"interlock.sh/internal/clock"
)

// hungRole names the role's folder to a test binary that is to be its agent, and to do nothing.
const hungRole = "CLI_TEST_HUNG_ROLE"

// maybeHung becomes an agent that has its place and does nothing, and never returns, in a process that is
// told to be it.
func maybeHung() {
	dir := os.Getenv(hungRole)
	if dir == "" {
		return
	}
	e, err := enrolledAt(dir)
	if err == nil {
		err = agent.RecordPid(e)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("hung")
	_, _ = bufio.NewReader(os.Stdin).ReadByte() // ends with the test
	os.Exit(0)
}

// enrolledAt finds an enrollment by its folder, <home>/groups/<group>/roles/<role>.
func enrolledAt(dir string) (enrollment.Enrollment, error) {
	group := filepath.Dir(filepath.Dir(dir))
	all, err := enrollment.Home(filepath.Dir(filepath.Dir(group))).List()
	if len(all) != 1 {
		return enrollment.Enrollment{}, fmt.Errorf("%d enrollments, %w", len(all), err)
	}
	return all[0], nil
}

// hang starts the agent of the lab and returns what ends it: how it ended.
func (l *lab) hang() (ended func() syscall.WaitStatus) {
	l.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hungRole+"="+l.e.Dir())
	in, err := cmd.StdinPipe()
	if err != nil {
		l.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		l.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		l.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "hung\n" {
		l.Fatalf("the agent said %q, %v", line, err)
	}
	return func() syscall.WaitStatus {
		_ = in.Close()
		_ = cmd.Wait() // how it ended is in its state
		return cmd.ProcessState.Sys().(syscall.WaitStatus)
	}
}

// answer makes the lab's socket answer everything with a status and a body.
func (l *lab) answer(status int, body string) {
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
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})}
	go s.Serve(ln) //nolint:errcheck // ends with the test
	l.Cleanup(func() { _ = s.Close() })
}

// An agent that does not take the restart is ended, so that the current program can be started: one that
// hangs by force, one from before restarts so that it finishes its work. One that says why it goes on as it
// is does so.
func TestRestartOfAnAgentThatDoesNotListen(t *testing.T) {
	const lives = syscall.Signal(0)
	for name, c := range map[string]struct {
		runs    bool
		timer   bool // it is the timer's process that asks
		answer  func(*lab)
		signal  syscall.Signal // that ends the agent
		refused error          // what comes back; nil when the current program was started
	}{
		"no socket":                 {true, false, nil, syscall.SIGKILL, nil},
		"a socket without sense":    {true, false, func(l *lab) { l.answer(http.StatusBadGateway, "<html>") }, syscall.SIGKILL, nil},
		"an agent without restarts": {true, false, func(l *lab) { l.answer(http.StatusNotFound, `{"code":"NOT_FOUND","message":"no such route"}`) }, syscall.SIGTERM, nil},
		"it goes on as it is": {true, false, func(l *lab) {
			l.answer(http.StatusConflict, `{"code":"CONFLICT","message":"it cannot be run"}`)
		}, lives, fault.Conflict},
		"none runs": {false, false, nil, lives, nil},
		// Without a service nobody would start it again.
		"no socket, asked by the timer":                 {true, true, nil, lives, fault.Conflict},
		"an agent without restarts, asked by the timer": {true, true, func(l *lab) { l.answer(http.StatusNotFound, `{"code":"NOT_FOUND","message":"no such route"}`) }, lives, fault.Conflict},
		"none runs, and the timer asks":                 {false, true, nil, lives, fault.Conflict},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			var ended func() syscall.WaitStatus
			if c.runs {
				ended = l.hang()
			}
			if c.answer != nil {
				c.answer(l)
			}
			started := filepath.Join(t.TempDir(), "started")
			l.write(filepath.Join(string(l.home), "app", "1.0.0", "interlock"), "#!/bin/sh\necho \"$@\" >"+started+"\n", 0o755)
			socket, err := l.home.Socket(l.e.Group, l.e.Role)
			if err != nil {
				t.Fatal(err)
			}
			s := agentSubject{&agents{app: filepath.Join(string(l.home), "app"), log: slog.New(slog.DiscardHandler), confined: c.timer}, l.e, localapi.Dial(socket)}
			err = s.Restart(t.Context(), time.Minute)
			if c.runs {
				if is := ended(); (c.signal == lives) != is.Exited() || is.Signaled() && is.Signal() != c.signal {
					t.Errorf("the agent ended with %v, want %v", is, c.signal)
				}
			}
			b, _ := os.ReadFile(started)
			if c.refused != nil {
				if !errors.Is(err, c.refused) || len(b) > 0 {
					t.Errorf("%v, started %q; want %v and nothing", err, b, c.refused)
				}
				return
			}
			// The program of this test ends at once, which is said; a real one answers on the socket.
			if want := "agent run --group " + l.e.Group + " --role client\n"; string(b) != want || err == nil || !strings.Contains(err.Error(), "the agent ended at once") {
				t.Errorf("started %q, want %q; %v", b, want, err)
			}
		})
	}
}

// An agent that does not answer is wanted when its process is there, and at rest when nothing is.
func TestAnAgentThatIsWanted(t *testing.T) {
	l := newLab(t)
	all := &agents{app: filepath.Join(string(l.home), "app"), log: slog.New(slog.DiscardHandler), all: []enrollment.Enrollment{l.e}}
	subjects, err := all.Subjects(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if h, err := subjects[0].Health(t.Context()); err == nil || h.Wanted || h.Up {
		t.Errorf("at rest: %+v, %v", h, err)
	}
	ended := l.hang()
	if h, err := subjects[0].Health(t.Context()); err == nil || !h.Wanted || h.Up {
		t.Errorf("hung: %+v, %v", h, err)
	}
	ended()
	if h, err := subjects[0].Health(t.Context()); err == nil || h.Wanted {
		t.Errorf("ended: %+v, %v", h, err)
	}
}

func TestAServiceThatIsBeingStarted(t *testing.T) {
	for words, want := range map[string]bool{
		"active (running)": true, "activating (auto-restart), last end: exit-code": true, "activating (start)": true,
		"inactive (dead)": false, "failed, last end: timeout": false, "deactivating (stop-sigterm)": false,
		"running": true, "waiting": true, "spawn scheduled": true, "not running": false, "not loaded": false, "": false,
	} {
		s := service.State{Installed: words != "not loaded", Words: words, Active: words == "active (running)" || words == "running"}
		if got := beingStarted(s); got != want {
			t.Errorf("%q: %v", words, got)
		}
	}
}

func TestTheTimersUnitIsKnownByItsControlGroup(t *testing.T) {
	for text, want := range map[string]bool{
		"0::/system.slice/sh.interlock.updater.service\n":                             true,
		"0::/system.slice/sh.interlock.updater.1a2b3c4d.service\n":                    true,
		"1:name=systemd:/system.slice/sh.interlock.updater.service\n0::/\n":           true,
		"0::/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope\n":     false,
		"0::/system.slice/sh.interlock.model-worker.my-model-k3x7qa.client.service\n": false,
		"": false,
	} {
		path := filepath.Join(t.TempDir(), "cgroup")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := inTimersUnit(path); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
	if inTimersUnit(filepath.Join(t.TempDir(), "none")) {
		t.Error("a system without control groups")
	}
}

// The strictest limit of all roles holds for what the machine downloads; what cannot be read limits nothing.
func TestTheOwnersLimitOfUpdates(t *testing.T) {
	limited := func(n int64) string {
		return fmt.Sprintf(`{"schema":2,"mode":"always","bandwidth":[{"start":"00:00","end":"24:00","bytesPerSecond":%d}]}`, n)
	}
	for name, c := range map[string]struct {
		client, trainer string
		want            int64
		limited         bool
	}{
		"none":            {`{"schema":2,"mode":"always"}`, "", 0, false},
		"one":             {limited(1000), "", 1000, true},
		"the strictest":   {limited(1000), limited(10), 10, true},
		"nothing at all":  {limited(1000), limited(0), 0, true},
		"no file":         {"", "", 0, false},
		"a damaged file":  {"{", limited(10), 10, true},
		"of one role":     {`{"schema":2,"mode":"always"}`, limited(7), 7, true},
		"before schedule": {`{"mode":"active"}`, "", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			trainer := l.e
			trainer.Role = "trainer"
			for e, text := range map[enrollment.Enrollment]string{l.e: c.client, trainer: c.trainer} {
				if text != "" {
					l.write(filepath.Join(e.Dir(), "owner.json"), text, 0o600)
				}
			}
			all := &agents{all: []enrollment.Enrollment{l.e, trainer}}
			if n, is := all.limit(clock.System)(); n != c.want || is != c.limited {
				t.Errorf("%d %v, want %d %v", n, is, c.want, c.limited)
			}
		})
	}
}
