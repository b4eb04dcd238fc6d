//go:build linux

package e2e

import (
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

// host is a user of this computer: a home of its own, with a llama-server.
type host struct {
	t      testing.TB
	home   string
	server string               // path of its llama-server
	attr   *syscall.SysProcAttr // of its processes, when it is another computer
	before []string             // what its programs are started by, then
	agent  *process
}

// newHost makes a user whose llama-server is at path. Whatever it started is gone at the end.
func newHost(t testing.TB, server string) *host {
	t.Helper()
	h := &host{t: t, home: tempDir(t), server: server}
	t.Cleanup(h.clean)
	return h
}

// elsewhere makes the host another computer: its programs see an /etc with another machine-id.
func (h *host) elsewhere() *host {
	h.t.Helper()
	etc := tempDir(h.t)
	files := map[string]string{"machine-id": strings.Repeat("e2e0", 8), "hostname": "elsewhere", "hosts": "127.0.0.1 localhost"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text+"\n"), 0o644); err != nil {
			h.t.Fatal(err)
		}
	}
	h.attr = ownMounts()
	h.before = []string{"sh", "-c", `mount --bind "$0" /etc && exec "$@"`, etc}
	return h
}

// ownMounts gives a process a mount namespace of its own, as any user may have.
func ownMounts() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
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

// env is the environment of every program on the host.
func (h *host) env() []string {
	return []string{"HOME=" + h.home, "PATH=" + os.Getenv("PATH"), "LLAMA_SERVER=" + h.server}
}

// run runs the program on the host to its end.
func (h *host) run(in string, args ...string) output {
	h.t.Helper()
	return h.exec(in, append([]string{program}, args...)...)
}

// exec runs any program there.
func (h *host) exec(in string, argv ...string) output {
	h.t.Helper()
	return runAs(h.t, h.attr, h.env(), in, append(h.before[:len(h.before):len(h.before)], argv...)...)
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
	got := h.tryEnroll(p, group, role, key, more...)
	if got.code != 0 {
		h.t.Fatalf("enroll: exit %d\n%s%s", got.code, got.out, got.err)
	}
	return got
}

func (h *host) tryEnroll(p *plane, group string, role fleet.Role, key string, more ...string) output {
	args := append([]string{"agent", "enroll", "--url", p.base, "--group", group, "--role", string(role), "--key-stdin"}, more...)
	return h.run(key+"\n", args...)
}

// start runs the agent in the foreground of a process of its own.
func (h *host) start(more ...string) *process {
	h.t.Helper()
	argv := append(h.before[:len(h.before):len(h.before)], program, "agent", "run")
	h.agent = newProcess(h.t, "agent", h.env(), append(argv, more...)...)
	h.agent.cmd.SysProcAttr = h.attr
	h.agent.run()
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
