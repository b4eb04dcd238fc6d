package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/supervise"
	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/plane"
	"interlock.sh/tasks"
)

// launch is how the agent of the rig is started as a process of its own.
func (r *rig) launch(version string) Launch {
	return Launch{
		Program: os.Args[0], Args: []string{agentArg, string(r.home), r.e.Group, version, string(r.leash)}, Version: version,
		Replaces: func(old string) { r.replaced = append(r.replaced, old) },
	}
}

// startDetached runs the agent as a process of its own until the test ends.
func (r *rig) startDetached() int { return r.startVersion("test") }

func (r *rig) startVersion(version string) int {
	r.Helper()
	st, err := StartDetached(r.Context(), r.e, r.launch(version))
	if err != nil {
		log, _ := tailFile(LogPath(r.e), 0, 20)
		r.Fatal("start:", err, strings.Join(log.Lines, "\n"))
	}
	r.Cleanup(func() { killAgent(r.T, r.e.Dir()) })
	return st.Pid
}

// killAgent kills what is recorded as the agent, if it still runs.
func killAgent(t *testing.T, dir string) {
	var id supervise.Identity
	b, err := os.ReadFile(filepath.Join(dir, "agent.pid"))
	if err != nil || json.Unmarshal(b, &id) != nil || !id.Running() {
		return
	}
	_ = syscall.Kill(id.PID, syscall.SIGKILL)
	plane.Await(t, "the end of the agent", func() bool { return !id.Running() })
}

func TestAnAgentInTheBackground(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.plane.Deploy(nil, r.group, "tiny", 1)
	pid := r.startDetached()
	r.awaitMachine("ready")
	if id, ok := Running(r.e); !ok || id.PID != pid || pid == os.Getpid() {
		t.Errorf("recorded %+v, running %v; it is %d", id, ok, pid)
	}
	if again := r.startDetached(); again != pid {
		t.Errorf("a second start made another agent: %d beside %d", again, pid)
	}
	if logs, err := r.door().Logs(t.Context(), "", 100); err != nil {
		t.Errorf("its log: %+v, %v", logs, err)
	}
	if st, err := os.Stat(LogPath(r.e)); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the log: %v", err)
	}
	if err := StopDetached(t.Context(), r.e); err != nil {
		t.Fatal(err)
	}
	if _, ok := Running(r.e); ok {
		t.Error("it still runs")
	}
	if err := StopDetached(t.Context(), r.e); !errors.Is(err, fault.NotFound) {
		t.Errorf("a second stop: %v", err)
	}
}

func TestAnAgentOfAnotherVersionFinishesItsWorkAndMakesWay(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	control.Step(1) // for the probe
	r.plane.Deploy(nil, r.group, "tiny", 1)
	old := r.startVersion("1.0.0")
	r.awaitMachine("ready")
	answered := r.ask("tiny")
	r.await("the request in hand", func() bool {
		m, err := r.plane.Owner.Machine(t.Context(), r.e.Machine)
		return err == nil && len(m.Machine.Deployments) == 1 && m.Machine.Deployments[0].Busy == 1
	})
	started := make(chan int)
	next := r.launch("1.1.0")
	next.Program = copyOf(t, next.Program) // from elsewhere: the one that runs cannot go on as it
	go func() {
		defer close(started)
		if now, err := StartDetached(t.Context(), r.e, next); err != nil {
			t.Error("start the next version:", err)
		} else {
			started <- now.Pid
		}
	}()
	r.awaitMachine("draining")
	control.Open()
	if run := <-answered; run.Answer == nil || *run.Answer != "Hello, world." || run.Attempt != 1 {
		t.Errorf("the answer in hand was lost: %+v", run)
	}
	if now := <-started; now == 0 || now == old {
		t.Errorf("the new agent is pid %d, the old one was %d", now, old)
	}
	if m := r.awaitMachine("ready"); m.Version != "1.1.0" {
		t.Errorf("the machine runs version %s", m.Version)
	}
	if !slices.Equal(r.replaced, []string{"1.0.0"}) {
		t.Errorf("it said that %v makes way", r.replaced)
	}
}

func TestAnAgentStartedOverAnotherVersionGoesOnInPlaceWithItsModel(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	old := r.awaitVersion("1.0.0")
	r.install("1.1.0")
	next := r.launch(ofFolder)
	next.Program, next.Version = filepath.Join(r.appDir(), "current", "interlock"), "1.1.0"
	if now, err := StartDetached(t.Context(), r.e, next); err != nil || now.Pid != old.Pid || now.Version != "1.1.0" {
		t.Errorf("process %d of version %s goes on as %d of version %s, %v", old.Pid, old.Version, now.Pid, now.Version, err)
	}
	now := r.awaitVersion("1.1.0")
	if a, b := old.Report.Deployments[0], now.Report.Deployments[0]; a.Pid != b.Pid || b.Restarts != 0 {
		t.Errorf("the model was loaded again: %+v, then %+v", a, b)
	}
	if !slices.Equal(r.replaced, []string{"1.0.0"}) {
		t.Errorf("it said that %v makes way", r.replaced)
	}
}

// A program that cannot be run is no reason to be left with none: the one that runs goes on, and it is said.
func TestAnAgentThatCannotGoOnInPlaceMakesWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.install("1.0.0")
	old := r.startInstalled()
	r.installText("1.1.0", "no program")
	next := r.launch(ofFolder)
	next.Program, next.Version = filepath.Join(r.appDir(), "current", "interlock"), "1.1.0"
	if st, err := goOnAs(t.Context(), r.door(), old, next); err == nil || !strings.Contains(err.Error(), cannotGoOn) || st.Pid != old.Pid {
		t.Errorf("%+v, %v", st, err)
	}
}

// copyOf is the same program as another file.
func copyOf(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(program))
	b, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	testkit.WriteProgram(t, path, b)
	return path
}

func TestAnAgentThatEndsAtOnceSaysWhy(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	if err := os.MkdirAll(filepath.Dir(LogPath(r.e)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(LogPath(r.e), []byte("of an earlier run\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.e.Dir(), "worker.env"), []byte("no equals sign\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := StartDetached(t.Context(), r.e, r.launch("test"))
	e := fault.Of(err)
	if !errors.Is(err, fault.Unavailable) || !strings.Contains(e.Message, "ended at once (exit status 1)") || !strings.Contains(e.Message, "line 1 is no NAME=value") ||
		strings.Contains(e.Message, "earlier run") || !strings.Contains(e.Hint, LogPath(r.e)) {
		t.Errorf("%v", err)
	}
	if _, err := StartDetached(t.Context(), r.e, Launch{Program: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a program that is not there was started")
	}
}

func TestAnAgentOfAnEarlierEnrollmentMakesWay(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	old := r.startDetached()
	st, err := r.door().Status(t.Context())
	if err != nil || st.Machine != r.e.Machine {
		t.Fatalf("%+v, %v", st, err)
	}
	if _, err := r.plane.Owner.ActOnMachine(t.Context(), r.e.Machine, "revoke"); err != nil {
		t.Fatal(err)
	}
	res, err := r.home.Enroll(t.Context(), r.request)
	if err != nil || res.Kept || res.Machine == r.e.Machine {
		t.Fatalf("enroll again: %+v, %v", res, err)
	}
	r.e = res.Enrollment
	if now := r.startDetached(); now == old {
		t.Error("the agent with the worthless credential goes on")
	}
	r.awaitMachine("idle")
}

func TestAPidThatIsAnotherProcessNowIsNotSignalled(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	me, err := supervise.Self()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"another start": `{"pid":` + jsonText(me.PID) + `,"start":"long ago"}`, "no start": `{"pid":` + jsonText(me.PID) + `}`, "damaged": `{`,
	} {
		if err := os.WriteFile(r.e.PidFile(), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, ok := Running(r.e); ok {
			t.Errorf("%s: taken for the agent", name)
		}
		if err := StopDetached(t.Context(), r.e); !errors.Is(err, fault.NotFound) { // a signal would end this test
			t.Errorf("%s: %v", name, err)
		}
	}
}

func jsonText(v any) string {
	b, _ := json.Marshal(v) // numbers
	return string(b)
}

func TestARunOfAKilledAgentIsRepeatedByTheNext(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true}, func(r *rig, _ *enrollment.Request) {
		r.lease = 2 * time.Second
	})
	control.Step(1)
	r.plane.Deploy(nil, r.group, "tiny", 1)
	r.startDetached()
	m := r.awaitMachine("ready")
	restarted := make(chan int, 8)
	ended := r.follow(r.submit(ai.RunRequest{Model: "tiny", Prompt: "hello"}), func(event string, e ai.StreamEvent) {
		if event == ai.StreamRestarted {
			restarted <- e.Attempt
		}
	})
	control.Step(1)
	r.await("the request in hand", func() bool {
		got, err := r.plane.Owner.Machine(t.Context(), r.e.Machine)
		return err == nil && len(got.Machine.Deployments) == 1 && got.Machine.Deployments[0].Busy == 1
	})
	killAgent(t, r.e.Dir())
	r.await("the end of its model server", func() bool { return syscall.Kill(m.Deployments[0].Pid, 0) != nil })
	control.Open()
	r.startDetached()
	run := <-ended
	if run.State != tasks.Succeeded || run.Answer == nil || *run.Answer != "Hello, world." || run.Attempt != 2 {
		t.Errorf("the run is %+v", run)
	}
	if len(restarted) != 1 {
		t.Errorf("its stream said %d times that it restarted", len(restarted))
	}
	if got := r.awaitMachine("ready"); got.ID != r.e.Machine || got.Deployments[0].State.Kind != fleet.StateReady {
		t.Errorf("%+v", got)
	}
}
