//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/testkit/gguftiny"
)

// A project's own hardware from the pasted line to its removal, with a real llama-server: the line
// installs a worker, a run is answered by it and billed once, restart and doctor look after it, and the
// uninstall leaves what is the owner's.
func TestYourHardware(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	if got := p.cliWith(nil, p.token+"\n", "login"); got.code != 0 {
		t.Fatalf("login: %s", got.err)
	}
	pasted := p.ok("hardware", "command", "--project", project)
	if !strings.Contains(pasted, "/assets/setup.sh | sh -s -- --url "+p.base) {
		t.Fatalf("the line:\n%s", pasted)
	}
	h := newHost(t, realServer(t))
	t.Cleanup(func() { // only a test that failed half-way leaves one
		cmd := exec.Command(program, "hardware", "stop")
		cmd.Env = h.env()
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Logf("hardware stop: %v\n%s", err, out)
		}
	})
	weights := tiny(t, gguftiny.Options{})[0]
	env := "LLM_ALIAS=garage LLM_CONTEXT=2048 LLM_MODEL=" + weights
	got := h.exec("", "sh", "-c", "export "+env+"; "+strings.Replace(pasted, " --url ", " --no-service --name garage-mac --url ", 1))
	if got.code != 0 || !strings.Contains(got.out, "the worker is ready") {
		t.Fatalf("exit %d\n%s%s", got.code, got.out, got.err)
	}

	// The key is in its file, and in no process's arguments or environment.
	state := filepath.Join(h.home, ".interlock", "task-worker")
	settings, err := os.ReadFile(filepath.Join(state, "env"))
	if err != nil {
		t.Fatal(err)
	}
	_, key, _ := strings.Cut(string(settings), "INTERLOCK_TASK_WORKER_KEY=")
	key, _, _ = strings.Cut(key, "\n")
	if st, err := os.Stat(filepath.Join(state, "env")); err != nil || st.Mode().Perm() != 0o600 || !strings.HasPrefix(key, "il") {
		t.Errorf("the file of settings: %v %v", st, err)
	}
	pids := running(state)
	if len(pids) == 0 {
		t.Error("no worker runs out of its app folder")
	}
	for pid := range pids {
		for _, file := range []string{"cmdline", "environ"} {
			if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err == nil && strings.Contains(string(b), key) {
				t.Errorf("the key is in the %s of process %d", file, pid)
			}
		}
	}

	list := p.ok("hardware", "list", "--project", project)
	if !strings.Contains(list, "garage-mac") || !strings.Contains(list, "ready") {
		t.Errorf("hardware list:\n%s", list)
	}
	run := p.askGarage()
	if run.WorkerID != "garage-mac" || run.Route != "ai.self-hosted.garage" || run.Usage == nil || run.Usage.CompletionTokens == 0 {
		t.Errorf("the run: %+v", run)
	}
	usage, err := p.Usage(t.Context(), "", 0)
	if err != nil || len(usage.Events) != 1 {
		t.Errorf("usage: %+v %v", usage, err)
	}
	// The key submits nothing.
	mine, err := client.New(client.Options{BaseURL: p.base, Credential: key})
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	if _, err := mine.SubmitRun(t.Context(), ai.RunRequest{Model: "garage", Prompt: "x"}); fault.CodeOf(err) != fault.ScopeDenied {
		t.Errorf("a run with the worker's key: %v", err)
	}

	// setup.sh, as it was downloaded, looks after it.
	script := h.exec("", "curl", "-fsS", p.base+"/assets/setup.sh").out
	setup := func(args ...string) output {
		t.Helper()
		return h.exec(script, append([]string{"sh", "-s", "--"}, args...)...)
	}
	if got := setup("status"); got.code != 0 || !strings.Contains(got.out, "garage-mac") || !strings.Contains(got.out, "ready") {
		t.Errorf("status: exit %d\n%s%s", got.code, got.out, got.err)
	}
	before := h.hardware()
	if got := setup("restart"); got.code != 0 {
		t.Errorf("restart: exit %d\n%s%s", got.code, got.out, got.err)
	}
	if now := h.hardware(); now.Process.PID == before.Process.PID || !now.Ready {
		t.Errorf("after the restart: %+v, before %+v", now, before)
	}
	p.askGarage()
	checks := h.hardwareDoctor()
	for _, name := range []string{"permissions", "settings", "control plane", "clock", "model boundary", "llama-server", "model", "worker", "release"} {
		if c, ok := checks[name]; !ok || !c.OK {
			t.Errorf("doctor says of %s: %+v", name, c)
		}
	}
	if c := checks["service"]; c.Fix == "" {
		t.Errorf("doctor says of a service that is not there: %+v", c)
	}

	// Killed, it is started again by the same line, without a key.
	if err := syscall.Kill(h.hardware().Process.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the worker is gone", func() error { return none(running(state)) })
	if got := setup("--no-service", "--url", p.base); got.code != 0 {
		t.Errorf("the line again: exit %d\n%s%s", got.code, got.out, got.err)
	}
	p.askGarage()

	if got := setup("uninstall"); got.code != 0 {
		t.Fatalf("uninstall: exit %d\n%s%s", got.code, got.out, got.err)
	}
	if left := running(state); len(left) > 0 {
		t.Errorf("still running: %v", left)
	}
	for _, path := range filesIn(t, state) {
		if path != "env" && !strings.HasPrefix(path, "logs/") && !strings.HasPrefix(path, "models/") {
			t.Errorf("uninstall left %s", path)
		}
	}
	if now, err := os.ReadFile(filepath.Join(state, "env")); err != nil || string(now) != string(settings) {
		t.Errorf("the settings after the uninstall: %v", err)
	}
	// Away is away, not unknown, and free of charge.
	if _, err := p.SubmitRun(t.Context(), ai.RunRequest{Model: "garage", Prompt: "x"}); fault.CodeOf(err) != fault.NoEligibleWorker {
		t.Errorf("a run afterwards: %v", err)
	}
}

// A key of another kind, a key of nobody and no key at all set nothing up.
func TestYourHardwareWithoutAuthority(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	for name, c := range map[string]struct{ key, want string }{
		"no key":       {"", "INTERLOCK_TASK_WORKER_KEY is missing"},
		"a stranger's": {"il_" + strings.Repeat("0", 48), "not known to this server"},
		"an sdk key":   {p.key(access.SDK), "a worker wants a task-worker key"},
	} {
		h := newHost(t, "/nowhere")
		got := h.run(c.key+"\n", "hardware", "configure", "--url", p.base, "--key-stdin")
		if got.code != 1 || !strings.Contains(got.err, c.want) {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
		if _, err := os.Stat(filepath.Join(h.home, ".interlock", "task-worker", "env")); err == nil {
			t.Errorf("%s was written down", name)
		}
	}
}

// askGarage asks the model of the hardware until it may be asked, since a worker that just started is
// registered a moment later.
func (p *plane) askGarage() ai.Run {
	p.t.Helper()
	var run ai.Run
	until(p.t, "the model may be asked", func() (err error) {
		run, err = p.SubmitRun(p.t.Context(), ai.RunRequest{Model: "garage", Prompt: "hello", MaxTokens: 8})
		return err
	})
	run, err := p.FollowRun(p.t.Context(), run.ID, func(string, ai.StreamEvent) error { return nil })
	if err != nil || run.State != "succeeded" {
		p.t.Fatalf("the run: %+v %+v %v", run, run.Error, err)
	}
	return run
}

type hardwareState struct {
	Ready   bool
	Process struct{ PID int }
}

func (h *host) hardware() (st hardwareState) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(h.ok("hardware", "status", "--json")), &st); err != nil {
		h.t.Fatal(err)
	}
	return st
}

func (h *host) hardwareDoctor() map[string]check {
	h.t.Helper()
	got := h.exec("", filepath.Join(h.home, ".interlock", "task-worker", "app", "current", "interlock"), "hardware", "doctor", "--json")
	var v struct {
		Checks []check `json:"checks"`
	}
	if err := json.Unmarshal([]byte(got.out), &v); err != nil {
		h.t.Fatalf("doctor: %v\n%s%s", err, got.out, got.err)
	}
	out := map[string]check{}
	for _, c := range v.Checks {
		out[c.Name] = c
	}
	return out
}

// filesIn lists the files below a folder.
func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			rel, rerr := filepath.Rel(dir, path)
			out, err = append(out, rel), rerr
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
