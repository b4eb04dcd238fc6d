//go:build linux

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/gguftiny"
	"interlock.sh/tasks"
)

// enrolled is a plane with a group and a host that is its member and has not started its agent yet.
func enrolled(t *testing.T, server string) (*plane, fleet.Group, *host) {
	t.Helper()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := newHost(t, server)
	h.enroll(p, g.ID, fleet.RoleClient, keys[fleet.RoleClient])
	return p, g, h
}

// kind is a state of a kind whose words have a text.
func kind(k fleet.StateKind, text string) func(fleet.State) bool {
	return func(s fleet.State) bool { return s.Kind == k && strings.Contains(s.Detail, text) }
}

// wantAnswer asks the model and fails unless it answers.
func wantAnswer(t *testing.T, p *plane, model string) {
	t.Helper()
	run, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: model, Prompt: "Hello", MaxTokens: 5})
	if err != nil {
		t.Fatalf("ask %s: %v", model, err)
	}
	if run, err = p.FollowRun(t.Context(), run.ID, func(string, ai.StreamEvent) error { return nil }); err != nil || run.State != tasks.Succeeded {
		t.Fatalf("run is %s (%v), %v", run.State, run.Error, err)
	}
}

// A model server that loads for long is waited for and shown as loading.
func TestSlowLoadIsNotDeath(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	p, g, h := enrolled(t, fakellama.Install(t, fakellama.Config{Control: control.Path(), GateLoad: true}))
	h.start()
	p.wantState(g.ID, kind(fleet.StateLoading, ""), "loading")
	pid := h.modelServer()
	if err := missing(h.ok("agent", "logs", "--deployment", "small"), "loading model"); err != nil {
		t.Error(err)
	}
	if _, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: "small", Prompt: "Hello"}); err == nil {
		t.Error("a machine that still loads was given a run")
	}
	control.FinishLoad()
	p.wantReady(g.ID)
	if now := h.modelServer(); now != pid {
		t.Errorf("process %d was started anew as %d", pid, now)
	}
}

// A machine without a llama-server says so with the way out, and goes on by itself when there is one.
func TestMissingLlamaServerBlocksUntilItIsThere(t *testing.T) {
	t.Parallel()
	link := filepath.Join(tempDir(t), "llama-server")
	p, g, h := enrolled(t, link)
	h.start()
	p.wantState(g.ID, kind(fleet.StateBlocked, "llama-server not found"), "blocked for want of a llama-server")
	if c := h.doctor()["llama-server"]; c.OK || c.Fix == "" {
		t.Errorf("doctor: %+v", c)
	}
	if err := os.Symlink(realServer(t), link); err != nil {
		t.Fatal(err)
	}
	p.wantReady(g.ID)
	wantAnswer(t, p, "small")
}

// A server that says it is healthy and answers nothing is found by a question, and started again.
func TestHealthyButWedgedIsRestarted(t *testing.T) {
	t.Parallel()
	p, g, h := enrolled(t, fakellama.Install(t, fakellama.Config{HangAfter: 1}))
	h.start("--probe-every", "1s", "--probe-within", "500ms")
	p.wantReady(g.ID)
	first := h.modelServer()
	until(t, "the wedged server is replaced", func() error {
		m, err := p.machine(g.ID)
		if err == nil && (m.Deployments[0].Restarts == 0 || m.Deployments[0].Pid == first || !m.Deployments[0].State.Serving()) {
			err = fmt.Errorf("%+v", m.Deployments[0].State)
		}
		return err
	})
}

// A server that cannot start is given up after a few tries, with its own reason where people look.
func TestRestartStormIsParkedWithItsReason(t *testing.T) {
	t.Parallel()
	const reason = "llama_model_load: error loading model: unknown model architecture: 'qux'"
	p, g, h := enrolled(t, fakellama.Install(t, fakellama.Config{
		CrashOnStart: &fakellama.Crash{Code: 1, Stderr: reason + "\nmain: exiting due to model loading error"},
	}))
	p.cliWith(nil, p.token+"\n", "login")
	h.start()
	p.wantState(g.ID, kind(fleet.StateParked, "unknown model architecture"), "parked")
	out := p.ok("models", "machine", "list", "--project", project)
	if !strings.Contains(out, "parked: ") || !strings.Contains(out, "unknown model architecture: 'qux'") {
		t.Errorf("models machine list does not say why:\n%s", out)
	}
	if left := h.modelServers(); len(left) > 0 {
		t.Errorf("a parked server still runs: %v", left)
	}
}

// Half of a split model is never started, whatever the release says.
func TestMissingShardNeverStarts(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	shards := tiny(t, gguftiny.Options{Shards: 2})
	h := newHost(t, realServer(t))
	g, err := p.RegisterGroup(t.Context(), fleet.NewGroupRequest{Name: "split"})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := p.Upload(t.Context(), shards[0], client.Transfer{})
	if err != nil {
		t.Fatal(err)
	}
	half := fleet.NewReleaseRequest{Name: "half", Runtime: fleet.LlamaCpp, License: "test", Files: []fleet.File{
		{Name: filepath.Base(shards[0]), SHA256: ref.SHA256, Size: ref.Size},
	}}
	if _, err = p.CreateRelease(t.Context(), g.Group.ID, half); err == nil || !strings.Contains(err.Error(), "shard") {
		t.Errorf("a release of half a model: %v, want a refusal that says so", err)
	}
	p.cliWith(nil, p.token+"\n", "login")
	if err := os.Rename(shards[1], shards[1]+".away"); err != nil {
		t.Fatal(err)
	}
	got := p.cli("models", "release", "create", "half", "--project", project, "--group", g.Group.ID, "--file", shards[0], "--license", "test")
	if got.code != 1 || !strings.Contains(got.err, "1 of 2 shards are missing") {
		t.Errorf("release create of half a model: exit %d, %s", got.code, got.err)
	}
	if err := os.Rename(shards[1]+".away", shards[1]); err != nil {
		t.Fatal(err)
	}
	p.ok("models", "release", "create", "whole", "--project", project, "--group", g.Group.ID, "--file", shards[0], "--license", "test", "--context", "512")
	p.ok("models", "deploy", "whole", "--project", project, "--group", g.Group.ID, "--alias", "split")
	h.enroll(p, g.Group.ID, fleet.RoleClient, g.Keys[0].Key)
	h.start()
	before := p.wantReady(g.Group.ID)
	wantAnswer(t, p, "split")
	// A shard that goes missing on the machine is fetched again before the next start.
	h.agent.stop()
	blobs, err := filepath.Glob(filepath.Join(h.home, ".nightshift/cache/blobs/*"))
	if err != nil || len(blobs) == 0 {
		t.Fatalf("model files of the machine: %v, %v", blobs, err)
	}
	for _, b := range blobs {
		if !strings.HasSuffix(b, ref.SHA256) {
			_ = os.Remove(b)
		}
	}
	h.start()
	until(t, "the machine serves again", func() error {
		m, err := p.machine(g.Group.ID)
		if err == nil && (m.State.Kind != fleet.StateReady || m.Deployments[0].Pid == before.Deployments[0].Pid) {
			err = fmt.Errorf("it is %s", m.State)
		}
		return err
	})
	wantAnswer(t, p, "split")
}

// Bytes that change on the disk after the download are found by doctor --deep while the model runs, and
// before the next start, which fetches the file again.
func TestFlippedBytesAreFound(t *testing.T) {
	t.Parallel()
	p, g, h := enrolled(t, realServer(t))
	h.start()
	m := p.wantReady(g.ID)
	st, err := p.GroupStatus(t.Context(), g.ID)
	if err != nil {
		t.Fatal(err)
	}
	file := st.Releases[0].Files[0]
	name := "file " + file.Name
	path := filepath.Join(h.home, ".nightshift/cache/blobs", file.SHA256)
	if c := h.doctor("--deep")[name]; !c.OK {
		t.Fatalf("doctor before: %+v", c)
	}
	flip(t, path)
	got := h.run("", "agent", "doctor", "--deep")
	if got.code != 1 || !strings.Contains(got.out, "FAIL  "+name) {
		t.Errorf("doctor --deep: exit %d\n%s%s", got.code, got.out, got.err)
	}
	h.agent.stop()
	h.start()
	until(t, "the machine serves again", func() error {
		now, err := p.machine(g.ID)
		if err == nil && (now.State.Kind != fleet.StateReady || now.Deployments[0].Pid == m.Deployments[0].Pid) {
			err = fmt.Errorf("it is %s", now.State)
		}
		return err
	})
	if c := h.doctor("--deep")[name]; !c.OK {
		t.Errorf("the file was not fetched again before the start: %+v", c)
	}
}

// flip changes a byte in the middle of a file and leaves its times as they were, as a bad disk does.
func flip(t *testing.T, path string) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrPermission) {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, st.Size()/2); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{^b[0]}, st.Size()/2); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
}

// A machine whose disk is full says so, and goes on by itself when space returns. Its model files are on
// a file system of 513 MiB, half a gigabyte of which stays free by rule.
func TestFullDiskBlocksAndResumesByItself(t *testing.T) {
	t.Parallel()
	p, g, h := enrolled(t, realServer(t))
	cache := filepath.Join(h.home, ".nightshift/cache")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	h.attr = ownMounts()
	h.before = []string{"sh", "-c", `mount -t tmpfs -o size=513m,mode=700 tmpfs "$0" && dd if=/dev/zero of="$0/filler" bs=1M count=1 2>&1 && exec "$@"`, cache}
	h.start()
	m := p.wantState(g.ID, kind(fleet.StateBlocked, "disk: needs "), "blocked for want of disk")
	if !strings.Contains(m.State.Detail, "free") {
		t.Errorf("the state %q does not say what there is", m.State)
	}
	inside := fmt.Sprintf("/proc/%d/root%s", h.agent.pid(), cache)
	if left, err := filepath.Glob(inside + "/blobs/*.part"); err != nil || len(left) > 0 {
		t.Errorf("a download was begun that could not end: %v, %v", left, err)
	}
	if err := os.Remove(inside + "/filler"); err != nil {
		t.Fatal(err)
	}
	p.wantReady(g.ID)
	wantAnswer(t, p, "small")
}

// A model server that ignores SIGTERM delays the end of the agent for a bounded time, and is gone then.
func TestServerThatIgnoresSIGTERMIsStopped(t *testing.T) {
	t.Parallel()
	p, g, h := enrolled(t, fakellama.Install(t, fakellama.Config{IgnoreTerm: true}))
	h.start()
	p.wantReady(g.ID)
	h.modelServer()
	began := time.Now()
	h.agent.stop()
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the agent took %v to end", took)
	}
	if left := h.modelServers(); len(left) > 0 {
		t.Errorf("the agent ended and left %v", left)
	}
}
