//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
)

// line is the pasted line of a role.
func line(t *testing.T, keys []fleet.BootstrapKey, role fleet.Role) string {
	t.Helper()
	for _, k := range keys {
		if k.Role == role {
			return k.Line
		}
	}
	t.Fatalf("no line for role %s", role)
	return ""
}

// paste runs a pasted line on the host, without a boot service: those are tried on machines of their own
// (systemd_service_test.go).
func (h *host) paste(line string) output {
	h.t.Helper()
	return h.exec("", "sh", "-c", strings.Replace(line, "  --url ", "  --no-service --url ", 1))
}

// withoutKey is the line as it is pasted again: the machine is enrolled, so the key is not wanted.
func withoutKey(line string) string {
	_, rest, _ := strings.Cut(line, "\n")
	return rest
}

// The pasted line enrolls a machine from nothing. Pasted again it changes nothing and needs no key; with
// a wrong key it says that the credential is kept.
func TestPastedLineTwice(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	registered, err := p.RegisterGroup(t.Context(), fleet.NewGroupRequest{Name: "Größe 7"})
	if err != nil {
		t.Fatal(err)
	}
	group, client := registered.Group.ID, line(t, registered.Keys, fleet.RoleClient)
	h := newHost(t, realServer(t))
	if got := h.paste(client); got.code != 0 || !strings.Contains(got.err, "after a restart of the machine") {
		t.Fatalf("first time: exit %d\n%s%s", got.code, got.out, got.err)
	}
	m := p.wantState(group, kind(fleet.StateIdle, ""), "idle")
	credential, err := os.ReadFile(filepath.Join(h.roleDir(), "worker.env"))
	if err != nil {
		t.Fatal(err)
	}
	for name, again := range map[string]string{"without a key": withoutKey(client), "with a wrong key": "export INTERLOCK_MODEL_KEY=ilc_wrong\n" + withoutKey(client)} {
		got := h.paste(again)
		if got.code != 0 || !strings.Contains(got.out+got.err, "already") {
			t.Errorf("%s: exit %d\n%s%s", name, got.code, got.out, got.err)
		}
	}
	now, err := os.ReadFile(filepath.Join(h.roleDir(), "worker.env"))
	if err != nil || string(now) != string(credential) {
		t.Errorf("the credential changed: %v", err)
	}
	if again, err := p.machine(group); err != nil || again.ID != m.ID {
		t.Errorf("the machine is %+v, %v; want %s alone", again, err, m.ID)
	}
	if out := h.ok("agent", "status"); !strings.Contains(out, "Größe 7/client") || !strings.Contains(out, "idle") {
		t.Errorf("agent status:\n%s", out)
	}
	// An agent that was killed is brought back by the same line.
	st := agentStatus(t, h)
	if err := syscall.Kill(st.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the agent is gone", func() error { return none(running(h.home + "/.nightshift/app")) })
	h.paste(withoutKey(client))
	if now := agentStatus(t, h); now.Pid == st.Pid || now.State.Kind == fleet.StateOffline {
		t.Errorf("the agent after the line: %+v", now)
	}
	// A stranger without a key gets nowhere, and is told the way.
	stranger := newHost(t, realServer(t))
	if got := stranger.paste(withoutKey(client)); !strings.Contains(got.err, "no key was given") || !strings.Contains(got.err, "models key rotate client") {
		t.Errorf("a stranger: exit %d\n%s", got.code, got.err)
	}
	if got := stranger.paste("export INTERLOCK_MODEL_KEY=ilc_wrong\n" + withoutKey(client)); !strings.Contains(got.err, "not known to this server") {
		t.Errorf("a stranger with a wrong key: exit %d\n%s", got.code, got.err)
	}
}

func agentStatus(t *testing.T, h *host) (st struct {
	Pid   int
	State fleet.State
}) {
	t.Helper()
	var v struct{ Agents []json.RawMessage }
	out := h.ok("agent", "status", "--json")
	if err := json.Unmarshal([]byte(out), &v); err != nil || len(v.Agents) != 1 {
		t.Fatalf("agent status: %v\n%s", err, out)
	}
	if err := json.Unmarshal(v.Agents[0], &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// Two enrollments that race on one machine make one member.
func TestEnrollmentsRacingOnOneMachine(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := newHost(t, realServer(t))
	var all sync.WaitGroup
	results := make([]output, 3)
	for i := range results {
		all.Go(func() { results[i] = h.tryEnroll(p, g.ID, fleet.RoleClient, keys[fleet.RoleClient]) })
	}
	all.Wait()
	kept := 0
	for _, r := range results {
		if r.code != 0 {
			t.Errorf("exit %d: %s", r.code, r.err)
		}
		if strings.HasPrefix(r.out, "already enrolled") {
			kept++
		}
	}
	if kept != len(results)-1 {
		t.Errorf("%d of %d found the machine enrolled, want all but one: %+v", kept, len(results), results)
	}
	if _, err := p.machine(g.ID); err != nil {
		t.Error(err)
	}
	// Two agents of one enrollment: the second is refused.
	h.start()
	p.wantReady(g.ID)
	if got := h.run("", "agent", "run"); got.code != 1 || !strings.Contains(got.err, "runs already") {
		t.Errorf("a second agent: exit %d, %s", got.code, got.err)
	}
}

// A state folder that was copied to another computer is seen, there and on the control plane, the
// original goes on, and the copy enrolls by itself with a fresh key.
func TestCopiedStateFolder(t *testing.T) {
	t.Parallel()
	p, g, h := enrolled(t, realServer(t))
	h.start()
	m := p.wantReady(g.ID)
	copied := newHost(t, realServer(t)).elsewhere()
	if out, err := exec.Command("cp", "-a", h.home+"/.nightshift", copied.home+"/.nightshift").CombinedOutput(); err != nil {
		t.Fatalf("copy: %v\n%s", err, out)
	}
	copied.start()
	seen := p.wantState(g.ID, kind(fleet.StateBlocked, "two computers use this enrollment"), "seen to be in use twice")
	if seen.ID != m.ID {
		t.Errorf("the conflict is shown at %s, want at %s", seen.ID, m.ID)
	}
	until(t, "the copy says so", func() error { return statusSays(copied, "blocked", "copied") })
	if c := copied.doctor()["identity"]; c.OK || !strings.Contains(c.Fix, "fresh key") {
		t.Errorf("doctor of the copy says %+v", c)
	}
	if len(copied.modelServers()) > 0 {
		t.Error("the copy serves a model")
	}
	copied.agent.stop()
	key, err := p.RotateGroupKey(t.Context(), g.ID, fleet.RoleClient)
	if err != nil {
		t.Fatal(err)
	}
	copied.enroll(p, g.ID, fleet.RoleClient, key.Key)
	copied.start()
	until(t, "the copy is a machine of its own", func() error { return statusSays(copied, "ready") })
	if st, err := p.GroupStatus(t.Context(), g.ID); err != nil || len(st.Machines) != 2 {
		t.Errorf("machines %+v, %v; want two", st.Machines, err)
	}
	if err := statusSays(h, "ready"); err != nil {
		t.Errorf("the original: %v", err)
	}
}

// statusSays is nil when `agent status` has all of the texts.
func statusSays(h *host, texts ...string) error {
	return missing(h.ok("agent", "status"), texts...)
}

// A key that is rotated while machines work stops new enrollments only.
func TestKeyRotatedMidSession(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := serving(t, p, g.ID, keys, realServer(t))
	fresh, err := p.RotateGroupKey(t.Context(), g.ID, fleet.RoleClient)
	if err != nil {
		t.Fatal(err)
	}
	wantAnswer(t, p, "small")
	h.agent.stop()
	h.start()
	p.wantReady(g.ID)
	wantAnswer(t, p, "small")
	late := newHost(t, realServer(t))
	args := []string{"agent", "enroll", "--url", p.base, "--group", g.ID, "--role", "client", "--key-stdin"}
	if got := late.run(keys[fleet.RoleClient]+"\n", args...); got.code != 1 || !strings.Contains(got.err, "key rotate") {
		t.Errorf("enroll with the old key: exit %d, %s", got.code, got.err)
	}
	if got := late.run(fresh.Key+"\n", append(args, "--name", "late")...); got.code != 0 {
		t.Errorf("enroll with the new key: exit %d, %s", got.code, got.err)
	}
	// The trainer's key is no client's.
	if got := newHost(t, realServer(t)).run(keys[fleet.RoleTrainer]+"\n", args...); got.code != 1 || !strings.Contains(got.err, "role trainer") {
		t.Errorf("enroll with the other role's key: exit %d, %s", got.code, got.err)
	}
}

// Revoking one machine ends it and only it; its owner is told, and a fresh key brings it back.
func TestRevokedMachine(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := serving(t, p, g.ID, keys, realServer(t))
	first, err := p.machine(g.ID)
	if err != nil {
		t.Fatal(err)
	}
	other := newHost(t, realServer(t))
	other.enroll(p, g.ID, fleet.RoleClient, keys[fleet.RoleClient], "--name", "other")
	other.start()
	until(t, "the other is ready", func() error { return statusSays(other, "ready") })
	p.cliWith(nil, p.token+"\n", "login")
	p.ok("models", "machine", "revoke", first.ID, "--yes", "--project", project)
	until(t, "the machine says that it was revoked", func() error { return statusSays(h, "revoked") })
	until(t, "it stops its model", func() error { return none(h.modelServers()) })
	wantAnswer(t, p, "small")
	if err := statusSays(other, "ready"); err != nil {
		t.Errorf("the other machine: %v", err)
	}
	h.agent.stop()
	h.enroll(p, g.ID, fleet.RoleClient, keys[fleet.RoleClient], "--name", "back")
	h.start()
	until(t, "it is back", func() error { return statusSays(h, "ready") })
}

// A role or runtime that this version cannot run is enrolled, shown with its reason, and given nothing.
func TestUnsupportedRoleAndRuntime(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	registered, err := p.RegisterGroup(t.Context(), fleet.NewGroupRequest{Name: "later"})
	if err != nil {
		t.Fatal(err)
	}
	h := newHost(t, realServer(t))
	if got := h.paste(line(t, registered.Keys, fleet.RoleTrainer)); got.code != 0 {
		t.Fatalf("trainer: exit %d\n%s%s", got.code, got.out, got.err)
	}
	p.wantState(registered.Group.ID, kind(fleet.StateUnsupported, "role trainer"), "unsupported as a trainer")
	mlx := newHost(t, realServer(t))
	with := strings.Replace(line(t, registered.Keys, fleet.RoleClient), "--role client", "--role client --runtime mlx-lm", 1)
	if got := mlx.paste(with); got.code != 0 {
		t.Fatalf("mlx-lm: exit %d\n%s%s", got.code, got.out, got.err)
	}
	until(t, "mlx-lm is shown as unsupported", func() error { return statusSays(mlx, "unsupported: runtime mlx-lm") })
}

// Pause drains and stops the model's process and keeps the installation, resume brings it back; a
// llama-server that somebody else runs on the machine is never touched.
func TestPauseResumeAndAForeignServer(t *testing.T) {
	t.Parallel()
	fake := fakellama.Install(t, fakellama.Config{})
	foreign := start(t, "foreign llama-server", []string{"PATH=" + os.Getenv("PATH")}, fake, "--port", freePort(t), "--model", "/models/theirs.gguf")
	until(t, "the foreign server serves", func() error { _, err := foreign.out.after("model loaded"); return err })
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := serving(t, p, g.ID, keys, fake)
	p.cliWith(nil, p.token+"\n", "login")
	m, err := p.machine(g.ID)
	if err != nil {
		t.Fatal(err)
	}
	act := func(verb string) { p.ok("models", "machine", verb, m.ID, "--project", project) }

	act("pause")
	p.wantState(g.ID, kind(fleet.StatePaused, fleet.PausedByServer), "paused by the server")
	if err := none(h.modelServers()); err != nil {
		t.Errorf("paused: %v", err)
	}
	if kept, _ := filepath.Glob(filepath.Join(h.home, ".nightshift/groups/*/versions/*/*.gguf")); len(kept) != 1 {
		t.Errorf("a pause left of the installation: %v", kept)
	}
	act("resume")
	p.wantReady(g.ID)
	h.ok("agent", "pause")
	p.wantState(g.ID, kind(fleet.StatePaused, fleet.PausedByOwner), "paused by its owner")
	act("resume") // the owner's word stands
	h.ok("agent", "resume")
	p.wantReady(g.ID)
	act("drain")
	p.wantState(g.ID, kind(fleet.StateDraining, ""), "draining")
	p.wantWorker(m.ID, "draining")
	h.modelServer() // a drained model stays loaded
	act("resume")
	p.wantReady(g.ID)
	wantAnswer(t, p, "small")
	h.agent.kill()
	until(t, "its own server dies with the agent", func() error { return none(h.modelServers()) })
	h.start()
	p.wantReady(g.ID)
	h.agent.stop()
	if foreign.ended() || strings.Contains(foreign.out.String(), "cleaning up") {
		t.Errorf("the foreign server was signalled:\n%s", foreign.out)
	}
}

// An agent that was stopped is not taken for one that serves.
func TestStoppedAgentIsGivenNothing(t *testing.T) {
	t.Parallel()
	p := newPlane(t).signIn()
	g, keys := p.tinyGroup("small")
	h := serving(t, p, g.ID, keys, realServer(t))
	h.agent.stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	list, err := p.GroupStatus(ctx, g.ID)
	if err != nil || len(list.Machines) != 1 || list.Machines[0].State.Serving() || list.Deployments[0].Ready != 0 {
		t.Errorf("after the stop: %+v, %v", list.Machines, err)
	}
}
