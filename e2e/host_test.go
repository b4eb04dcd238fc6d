package e2e

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/fleet"
)

// host is a computer: a home of its own, an identity of its own, and a llama-server.
type host struct {
	t      testing.TB
	home   string
	server string // path of its llama-server
	id     string // folder that stands for /etc, with its machine-id
	agent  *process
}

// newHost makes a computer whose llama-server is at path. Whatever it started is gone at the end.
func newHost(t testing.TB, server string) *host {
	t.Helper()
	h := &host{t: t, home: tempDir(t), server: server, id: identity(t)}
	t.Cleanup(h.clean)
	return h
}

// clean stops an agent that the install line left running, and fails when anything outlives it.
func (h *host) clean() {
	if len(running(h.home+"/")) > 0 {
		cmd := exec.Command(program, "agent", "stop")
		cmd.Env = h.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			h.t.Logf("agent stop: %v\n%s", err, out)
		}
	}
	end := time.Now().Add(20 * time.Second)
	for len(running(h.home+"/")) > 0 && time.Now().Before(end) {
		<-time.After(lookPace)
	}
	for pid, line := range running(h.home + "/") { // below this host's home: ours
		h.t.Errorf("still running at the end: %s", line)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// identity is a folder with a machine-id that no other computer has.
func identity(t testing.TB) string {
	t.Helper()
	dir := tempDir(t)
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	if err := os.WriteFile(filepath.Join(dir, "machine-id"), []byte(hex.EncodeToString(id)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// env is the environment of every program on the host. The places that the identity of a computer is
// read from are its own.
func (h *host) env(more ...string) []string {
	return append([]string{
		"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "LLAMA_SERVER=" + h.server,
		"HOST_ETC=" + h.id, "HOST_SYS=" + h.id,
	}, more...)
}

// run runs the program on the host to its end.
func (h *host) run(in string, args ...string) output {
	h.t.Helper()
	return runProgram(h.t, h.env(), in, append([]string{program}, args...)...)
}

func (h *host) ok(args ...string) string {
	h.t.Helper()
	got := h.run("", args...)
	if got.code != 0 {
		h.t.Fatalf("interlock %s: exit %d\n%s%s", strings.Join(args, " "), got.code, got.out, got.err)
	}
	return got.out
}

// enroll makes the host a member of a group.
func (h *host) enroll(p *plane, group string, role fleet.Role, key string, more ...string) output {
	h.t.Helper()
	args := append([]string{"agent", "enroll", "--url", p.base, "--group", group, "--role", string(role), "--key-stdin"}, more...)
	got := h.run(key+"\n", args...)
	if got.code != 0 {
		h.t.Fatalf("enroll: exit %d\n%s%s", got.code, got.out, got.err)
	}
	return got
}

// start runs the agent in the foreground of a process of its own.
func (h *host) start(more ...string) *process {
	h.t.Helper()
	h.agent = start(h.t, "agent", h.env(), append([]string{program, "agent", "run"}, more...)...)
	return h.agent
}

// doctor runs doctor and gives its checks by name.
func (h *host) doctor(args ...string) map[string]check {
	h.t.Helper()
	got := h.run("", append([]string{"agent", "doctor", "--json"}, args...)...)
	var v struct {
		Checks []check `json:"checks"`
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		h.t.Fatalf("doctor: %v\n%s%s", err, got.out, got.err)
	}
	all := map[string]check{}
	for _, c := range v.Checks {
		all[c.Name] = c
	}
	return all
}

type check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// roleDir is the folder of the host's only enrollment.
func (h *host) roleDir() string {
	h.t.Helper()
	dirs, _ := filepath.Glob(filepath.Join(h.home, ".nightshift/groups/*/roles/*"))
	if len(dirs) != 1 {
		h.t.Fatalf("enrollments of the host: %v, want one", dirs)
	}
	return dirs[0]
}

// serving makes a host that serves a group and waits until it is ready.
func serving(t testing.TB, p *plane, group string, keys map[fleet.Role]string, server string, more ...string) *host {
	t.Helper()
	h := newHost(t, server)
	h.enroll(p, group, fleet.RoleClient, keys[fleet.RoleClient])
	h.start(more...)
	p.wantReady(group)
	return h
}

// modelServers are the model servers of the host that run.
func (h *host) modelServers() map[int]string {
	all := running(filepath.Join(h.home, ".nightshift/groups"))
	for pid, line := range all {
		if !strings.Contains(line, "--model ") && !strings.Contains(line, " -m ") {
			delete(all, pid)
		}
	}
	return all
}

// modelServer waits for the one model server of the host.
func (h *host) modelServer() (pid int) {
	h.t.Helper()
	until(h.t, "the host runs one model server", func() error {
		all := h.modelServers()
		if len(all) != 1 {
			return fmt.Errorf("%v", all)
		}
		for pid = range all {
		}
		return nil
	})
	return pid
}

func isPaused(s fleet.State) bool { return s.Kind == fleet.StatePaused }
