package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
)

func TestTheOwnersDoor(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	socket, err := r.home.Socket(r.e.Group, r.e.Role)
	if err != nil {
		t.Fatal(err)
	}
	left, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	left.SetUnlinkOnClose(false) // a socket that a killed agent left behind
	_ = left.Close()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	door := r.door()
	st, err := os.Stat(socket)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v, %v", st.Mode(), err)
	}
	status, err := door.Status(t.Context())
	if err != nil || status.Pid != os.Getpid() || status.Machine != r.e.Machine || status.Words != "ready" || status.LastSeen == nil ||
		status.Owner != fleet.Active || status.Server != fleet.Active || len(status.Report.Deployments) != 1 {
		t.Errorf("status: %+v, %v", status, err)
	}
	logs, err := door.Logs(t.Context(), "tiny", 5)
	if err != nil || len(logs.Lines) != 5 || !slices.ContainsFunc(logs.Lines, func(l string) bool { return strings.Contains(l, "model loaded") }) {
		t.Errorf("logs of the model server: %q, %v", logs.Lines, err)
	}
	if _, err := door.Logs(t.Context(), "other", 5); !errors.Is(err, fault.NotFound) {
		t.Errorf("logs of a model that is not here: %v", err)
	}
	if logs, err := door.Logs(t.Context(), "", 5); err != nil || len(logs.Lines) != 0 {
		t.Errorf("the log of an agent that was not started in the background: %+v, %v", logs, err)
	}
	if _, err := New(t.Context(), Options{Enrollment: r.e, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "runs already") {
		t.Errorf("a second agent of the role: %v", err)
	}
	r.stop()
	if _, err := door.Status(t.Context()); !errors.Is(err, fault.Unavailable) {
		t.Errorf("after the end: %v", err)
	}
	m, err := r.plane.Owner.Machine(t.Context(), r.e.Machine)
	if err != nil || m.Machine.State.Kind != fleet.StateOffline || len(m.Machine.Deployments) != 0 {
		t.Errorf("an agent that was stopped is shown as %s, with %d models", m.Machine.State, len(m.Machine.Deployments))
	}
}

func TestAnAgentThatStopsIsDrainingUntilItsWorkIsDone(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r, _ := newServingRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	door := r.door()
	answered := r.ask("tiny")
	r.await("the request in hand", func() bool { return r.deployment("tiny").Busy == 1 })
	stopped := make(chan struct{})
	go func() { defer close(stopped); r.stop() }()
	r.awaitMachine("draining")
	if st, err := door.Status(t.Context()); err != nil || st.Words != "draining" {
		t.Errorf("the owner sees %q, %v", st.Words, err)
	}
	control.Open()
	if run := <-answered; run.Answer == nil || *run.Answer != "Hello, world." {
		t.Errorf("the answer in hand: %+v", run)
	}
	<-stopped
}

func TestReportsAreBoundedAndSafeToAskForAtOnce(t *testing.T) {
	t.Parallel()
	r, _ := newServingRig(t, fakellama.Config{Spew: true})
	done := make(chan fleet.Heartbeat)
	for range 4 {
		go func() { done <- r.agent.Report(context.Background()) }()
	}
	for range 4 {
		hb := <-done
		if len(hb.Deployments) != 1 || len(hb.Deployments[0].Log) > logTail {
			t.Errorf("%d deployments, %d lines", len(hb.Deployments), len(hb.Deployments[0].Log))
		}
		for _, l := range hb.Deployments[0].Log {
			if len(l) > logWidth+len("…") {
				t.Errorf("a line of %d bytes", len(l))
			}
		}
	}
}

const registerCall = "POST /api/workers/register"

func TestAFloodOfChangesIsAFewHeartbeats(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, onFakeTime)
	r.start()
	r.awaitMachine("idle")
	before, began := r.road.times("POST /api/machine/heartbeat"), r.fake.Now()
	for range 200 {
		r.agent.host.stirred()
		r.fake.Advance(beatEvery / 200)
	}
	r.await("the next heartbeat", func() bool { return r.road.times("POST /api/machine/heartbeat") > before })
	most := int(r.fake.Now().Sub(began)/beatGently) + 1
	if got := r.road.times("POST /api/machine/heartbeat") - before; got > most {
		t.Errorf("%d heartbeats, at most %d are due", got, most)
	}
	registered := r.road.times(registerCall)
	for range 50 {
		r.agent.poke()
	}
	r.await("the reconcile", func() bool { return len(r.agent.due) == 0 })
	if got := r.road.times(registerCall) - registered; got > 1 {
		t.Errorf("pokes without a change registered the worker %d times", got)
	}
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	r, dep := newServingRig(t, fakellama.Config{})
	all, err := r.door().Doctor(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	file := r.agent.wantedFile(dep.ID)
	for _, name := range []string{
		"credential file", "state folder", "identity", "llama-server", "control plane", "clock", "file " + file.Name, "boundary tiny", "model tiny",
	} {
		if c := find(t, all, name); !c.OK || c.Detail == "" || c.Fix != "" {
			t.Errorf("on a healthy machine: %+v", c)
		}
	}
	find(t, all, "disk") // as full as this machine's is

	path := filepath.Join(r.home.Blobs(), file.SHA256)
	bad := func(name string, spoil func(), deep bool, detail, fix string) {
		t.Helper()
		spoil()
		all := r.agent.Doctor(t.Context(), deep)
		if c := find(t, all, name); c.OK || !strings.Contains(c.Detail, detail) || !strings.Contains(c.Fix, fix) {
			t.Errorf("%s: %+v, want %q and %q", name, c, detail, fix)
		}
	}
	bad("file "+file.Name, func() { spoilBytes(t, path) }, true, "changed on disk", "fetched again")
	bad("file "+file.Name, func() { remove(t, path) }, false, "not on this machine yet", "fetched when")
	bad("control plane", func() {
		r.road.refuse("/api/machine/self", fault.New(fault.Revoked, "the credential was revoked").WithHint("enroll anew"))
	}, false, "revoked", "install line with a fresh key")
	bad("control plane", r.road.block, false, "", "")
	if err := r.agent.SetOwner(fleet.Draining); err != nil {
		t.Fatal(err)
	}
	var parked localapi.Check
	r.await("a model that is parked", func() bool { // the news of the last probe may come late and say that it is ready
		r.agent.serving(dep.ID).set(func(rep *fleet.DeploymentReport) {
			rep.State = fleet.State{Kind: fleet.StateParked, Detail: "it crashes"}
		})
		parked = find(t, r.agent.Doctor(t.Context(), false), "model tiny")
		return !parked.OK
	})
	if !strings.Contains(parked.Detail, "parked: it crashes") || !strings.Contains(parked.Fix, "interlock agent logs --deployment tiny") {
		t.Errorf("a parked model: %+v", parked)
	}
	r.agent.Enrollment.HostID = "another"
	bad("identity", func() {}, false, "another computer (mini)", "fresh key")
	r.useServer(filepath.Join(t.TempDir(), "none"))
	bad("llama-server", func() {}, false, "llama-server not found", "correct the setting")
	bad("state folder", func() { chmod(t, r.e.Dir(), 0o755) }, false, "others can read it", "chmod 700 ")
	bad("credential file", func() { chmod(t, filepath.Join(r.e.Dir(), "worker.env"), 0o644) }, false, "others could read the credential", "chmod 600 ")
}

func spoilBytes(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 0xff
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func chmod(t *testing.T, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}

func TestAPortThatAnswersElsewhereIsFound(t *testing.T) {
	t.Parallel()
	port := testkit.FreePort(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	here := []net.IP{net.IPv4(127, 0, 0, 1)} // as if it were an address that others reach
	if err := closedAt(t.Context(), here, port); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), fmt.Sprintf("port %d answers at 127.0.0.1", port)) {
		t.Errorf("an open port: %v", err)
	}
	_ = l.Close()
	if err := closedAt(t.Context(), here, port); err != nil {
		t.Errorf("a closed one: %v", err)
	}
}

func TestTailOfALog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.log")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tail := func(from int64, n int) string {
		t.Helper()
		l, err := tailFile(path, from, n)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(l.Lines, "|")
	}
	if got := tail(0, 3); got != "" {
		t.Errorf("no file gives %q", got)
	}
	write("a\nb\nc\n")
	if got := tail(0, 2) + " " + tail(2, 9) + " " + tail(6, 9) + " " + tail(99, 9); got != "b|c b|c  " {
		t.Errorf("tails are %q", got)
	}
	write("first\n" + strings.Repeat("x", tailWindow) + "\nlast\n")
	if got := tail(0, 9); got != "last" {
		t.Errorf("behind an endless line: %d bytes", len(got))
	}
}

var _ localapi.Agent = (*Agent)(nil)
