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
		answer  func(*lab)
		signal  syscall.Signal // that ends the agent
		refused error          // what comes back; nil when the current program was started
	}{
		"no socket":                 {true, nil, syscall.SIGKILL, nil},
		"a socket without sense":    {true, func(l *lab) { l.answer(http.StatusBadGateway, "<html>") }, syscall.SIGKILL, nil},
		"an agent without restarts": {true, func(l *lab) { l.answer(http.StatusNotFound, `{"code":"NOT_FOUND","message":"no such route"}`) }, syscall.SIGTERM, nil},
		"it goes on as it is": {true, func(l *lab) {
			l.answer(http.StatusConflict, `{"code":"CONFLICT","message":"it cannot be run"}`)
		}, lives, fault.Conflict},
		"none runs": {false, nil, lives, nil},
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
			s := agentSubject{&agents{app: filepath.Join(string(l.home), "app"), log: slog.New(slog.DiscardHandler)}, l.e, localapi.Dial(socket)}
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
