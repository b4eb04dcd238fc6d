package supervise

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
)

// killBound is how soon after the agent a child must be gone.
const killBound = 2 * time.Second

// agentToKill is the supervising program that a test kills: it starts a child that ignores SIGTERM,
// prints the pid that it supervises, and waits.
func agentToKill(args []string) int {
	s, err := New(configIn(args[0], Leash(args[1]), quick))
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c, err := s.Add("tiny", &fakeDriver{cfg: fakellama.Config{IgnoreTerm: true}})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c.Start()
	for st := range c.Watch(context.Background()) {
		if st.State == Ready {
			fmt.Println("pid", st.PID)
			break
		}
	}
	select {}
}

// startAgent runs agentToKill and returns it with its children's pids.
func startAgent(t *testing.T, dir string, leash Leash) (agent *exec.Cmd, children []int) {
	t.Helper()
	agent = exec.Command(os.Args[0], agentArg, dir, string(leash))
	agent.Stderr = os.Stderr
	out, err := agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Process.Kill(); _ = agent.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the agent ended: %v", err)
	}
	var pid int
	if _, err := fmt.Sscanf(line, "pid %d", &pid); err != nil {
		t.Fatalf("the agent says %q", line)
	}
	return agent, group(t, pid)
}

func kill(t *testing.T, agent *exec.Cmd) {
	t.Helper()
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = agent.Wait()
}

// gone polls until none of the processes runs, and returns how long that took.
func gone(t *testing.T, pids []int, within time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for {
		var left []int
		for _, pid := range pids {
			if runs(pid) {
				left = append(left, pid)
			}
		}
		took := time.Since(began)
		if len(left) == 0 {
			return took
		}
		if took > within {
			t.Fatalf("processes %v of %v live %s later", left, pids, took)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestChildDoesNotOutliveAKilledAgent(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		dir := t.TempDir()
		agent, children := startAgent(t, dir, leash)
		bystander := startForeign(t)
		kill(t, agent)
		t.Logf("%d processes gone after %s", len(children), gone(t, children, killBound))
		if !runs(bystander.Process.Pid) {
			t.Error("a foreign llama-server was killed with it")
		}
		// The next agent finds the record, and nobody to signal.
		s, err := New(configIn(dir, leash, quick))
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Sweep(t.Context())
		if err != nil || len(found) != 1 || found[0].Outcome != Gone {
			t.Fatalf("swept %+v, %v", found, err)
		}
	})
}

func TestSweepEndsALeftoverThatIsOurs(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		// Sweep ends what a leash did not: here the agent still holds it.
		dir := t.TempDir()
		_, children := startAgent(t, dir, leash)
		s, err := New(configIn(dir, leash, quick))
		if err != nil {
			t.Fatal(err)
		}
		found, err := s.Sweep(t.Context())
		if err != nil || len(found) != 1 || found[0].Outcome != Killed {
			t.Fatalf("swept %+v, %v", found, err)
		}
		gone(t, children, killBound)
	})
}

func TestTheLeadersDeathTakesTheGroup(t *testing.T) {
	eachLeash(t, func(t *testing.T, leash Leash) {
		// With LeashPipe the leader is the shim: killed alone, by a memory killer say, it must not leave
		// the server behind.
		c := add(t, newSupervisor(t, leash, quick), &fakeDriver{})
		c.Start()
		first := awaitState(t, c, Ready)
		members := group(t, first.PID)
		if err := syscall.Kill(first.PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, members, killBound)
		st := await(t, c, "ready again", func(st Status) bool { return st.State == Ready && st.Starts == 2 })
		if st.Failures != 1 {
			t.Errorf("%+v, want one failure", st)
		}
	})
}

func TestPipeMayBeRejoinedWithinTheGrace(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	held, err := newTether(pipe)
	if err != nil {
		t.Fatal(err)
	}
	path, env := fakellama.Command(fakellama.Config{})
	port := testkit.FreePort(t)
	cmd := shimmed([]string{os.Args[0], shimArg}, pipe, patience, Command{Path: path, Args: []string{"-m", "x", "--port", fmt.Sprint(port)}})
	cmd.Env, cmd.SysProcAttr = env, attributes(LeashPipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { held.letGo(); _ = cmd.Process.Kill(); <-ended })
	awaitHealth(t, port)
	members := group(t, cmd.Process.Pid)

	// Let go without removing the pipe, as an agent that replaces itself does. Opening it for writing
	// only waits for a reader: it returns when the shim, having seen the end, asks for the next agent.
	if err := held.file.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	awaitHealth(t, port)
	for _, pid := range members {
		if !runs(pid) {
			t.Fatalf("process %d of %v did not live through the change of agents", pid, members)
		}
	}
	// Now for good: the pipe is gone, so nobody can come.
	_ = os.Remove(pipe)
	_ = again.Close()
	gone(t, members, killBound)
}

func TestRunChildGivesTheProgramsExitCode(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	held, err := newTether(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer held.letGo()
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -KILL $$": 128 + 9} {
		cmd := shimmed([]string{os.Args[0], shimArg}, pipe, patience, Command{Path: "/bin/sh", Args: []string{"-c", script}})
		cmd.SysProcAttr = attributes(LeashPipe)
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit %d, want %d", script, got, want)
		}
	}
	silent := pipe + "3" // as when the agent dies before the shim has come that far
	if err := syscall.Mkfifo(silent, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"nobody holds the pipe": {"--pipe", silent, "--grace", "50ms", "--", "/bin/true"},
		"no pipe":               {"--", "/bin/true"}, "no program": {"--pipe", pipe}, "unknown flag": {"--what"},
		"pipe without an agent": {"--pipe", pipe + "2", "--", "/bin/true"},
		"no such program":       {"--pipe", pipe, "--", "/nonexistent"},
	} {
		cmd := exec.Command(os.Args[0], append([]string{shimArg}, args...)...)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != shimFailed || len(out) == 0 {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

func TestForeignServerIsNeverSignalled(t *testing.T) {
	for name, forge := range map[string]func(Identity) Identity{
		"its pid in our table with another start time": func(id Identity) Identity { id.Start += "1"; return id },
		"its pid in our table with another boot":       func(id Identity) Identity { id.Start = "x" + id.Start; return id },
		"its pid in our table without a start time":    func(id Identity) Identity { id.Start = ""; return id },
	} {
		t.Run(name, func(t *testing.T) {
			eachLeash(t, func(t *testing.T, leash Leash) {
				foreign := startForeign(t)
				id, err := identify(foreign.Process.Pid)
				if err != nil {
					t.Fatal(err)
				}
				dir := t.TempDir()
				writeTable(t, dir, record{Name: "tiny", Identity: forge(id), Port: 1, Leash: leash})
				s, err := New(configIn(dir, leash, quick))
				if err != nil {
					t.Fatal(err)
				}
				found, err := s.Sweep(t.Context())
				if err != nil || len(found) != 1 || found[0].Outcome != Foreign {
					t.Fatalf("swept %+v, %v", found, err)
				}
				// A child of ours comes and goes beside it.
				c := add(t, s, &fakeDriver{})
				c.Start()
				awaitState(t, c, Ready)
				stop(t, c)
				if now, err := identify(foreign.Process.Pid); err != nil || now != id {
					t.Fatalf("the foreign server was %+v, is %+v, %v", id, now, err)
				}
				if b, err := os.ReadFile(filepath.Join(dir, "children.json")); err != nil || strings.Contains(string(b), `"pid"`) {
					t.Fatalf("the table still has children: %s, %v", b, err)
				}
			})
		})
	}
}

// startForeign runs a llama-server that is not ours, in a group of its own.
func startForeign(t *testing.T) *exec.Cmd {
	t.Helper()
	port := testkit.FreePort(t)
	cmd := exec.Command(fakellama.Install(t, fakellama.Config{}), "-m", "x", "--port", fmt.Sprint(port))
	cmd.SysProcAttr = attributes(LeashPipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	awaitHealth(t, port)
	return cmd
}

func awaitHealth(t *testing.T, port int) {
	t.Helper()
	for end := time.Now().Add(patience); ; <-time.After(5 * time.Millisecond) {
		if code, _, err := request(t.Context(), "GET", Endpoint{Port: port}, "/health", "", ""); err == nil && code == 200 {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("nothing healthy on port %d", port)
		}
	}
}

func writeTable(t *testing.T, dir string, rows ...record) {
	t.Helper()
	b, err := json.Marshal(tableFile{Version: 1, Children: rows})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "children.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}
