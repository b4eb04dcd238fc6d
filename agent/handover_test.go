package agent

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/tasks"
)

// install makes this test binary the program of a version, and current.
func (r *rig) install(version string) {
	r.Helper()
	testkit.PlaceSelf(r, filepath.Join(r.appDir(), version, "interlock"))
	r.point(version)
}

// installText makes a text the program of a version, and current.
func (r *rig) installText(version, text string) {
	r.Helper()
	testkit.WriteProgram(r, filepath.Join(r.appDir(), version, "interlock"), []byte(text))
	r.point(version)
}

func (r *rig) appDir() string { return filepath.Join(string(r.home), "app") }

// point swaps the current link.
func (r *rig) point(version string) {
	r.Helper()
	link := filepath.Join(r.appDir(), "current")
	if err := errors.Join(os.Symlink(version, link+".new"), os.Rename(link+".new", link)); err != nil {
		r.Fatal(err)
	}
}

// startInstalled runs the current program as an agent of its own.
func (r *rig) startInstalled() localapi.Status {
	r.Helper()
	l := r.launch(ofFolder)
	l.Program = filepath.Join(r.appDir(), "current", "interlock")
	st, err := StartDetached(r.Context(), r.e, l)
	if err != nil {
		r.Fatal("start:", err)
	}
	r.Cleanup(func() { killAgent(r.T, r.e.Dir()) })
	return st
}

// awaitVersion waits until an agent of that version serves the model.
func (r *rig) awaitVersion(version string) localapi.Status {
	r.Helper()
	door := r.door()
	var st localapi.Status
	defer func() {
		if r.Failed() {
			log, _ := tailFile(LogPath(r.e), 0, 40)
			r.Logf("it is %+v\n%s", st, strings.Join(log.Lines, "\n"))
		}
	}()
	r.await("version "+version+" that serves", func() bool {
		got, err := door.Status(r.Context())
		if err != nil {
			return false
		}
		st = got
		return st.Version == version && st.State.Serving()
	})
	return st
}

func (r *rig) answers(model string) {
	r.Helper()
	if run := <-r.ask(model); run.Answer == nil || *run.Answer != "Hello, world." || run.Attempt != 1 {
		r.Errorf("the run is %+v", run)
	}
}

func TestThreeUpdatesInARowKeepTheModelLoaded(t *testing.T) {
	t.Parallel()
	for _, leash := range leashes() {
		t.Run(string(leash), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, fakellama.Config{Spew: true}, func(r *rig, _ *enrollment.Request) { r.leash = leash })
			r.install("1.0.0")
			first := r.startInstalled()
			r.plane.Deploy(nil, r.group, "tiny", 1)
			first = r.awaitVersion("1.0.0")
			model := first.Report.Deployments[0].Pid
			r.awaitMachine("ready")
			r.answers("tiny")
			for n, version := range []string{"1.1.0", "1.2.0", "1.0.1"} {
				r.install(version)
				if n == 1 {
					if err := syscall.Kill(first.Pid, syscall.SIGHUP); err != nil {
						t.Fatal(err)
					}
				} else if err := r.door().Restart(t.Context(), 0); err != nil {
					t.Fatal("restart:", err)
				}
				now := r.awaitVersion(version)
				if now.Pid != first.Pid || now.Report.Deployments[0].Pid != model || now.Report.Deployments[0].Restarts != 0 {
					t.Errorf("version %s is process %d with model server %+v, they were %d and %d", version, now.Pid, now.Report.Deployments[0], first.Pid, model)
				}
				r.await("version "+version+" at the control plane", func() bool { return r.awaitMachine("ready").Version == version })
				r.answers("tiny")
			}
			if id, ok := Running(r.e); !ok || id.PID != first.Pid {
				t.Errorf("recorded is %+v, %v", id, ok)
			}
			r.wantOnePromise()
			if log, err := tailFile(LogPath(r.e), 0, 1000); err != nil || !slices.ContainsFunc(log.Lines, func(l string) bool {
				return strings.Contains(l, "re-executed in place") && strings.Contains(l, "took=") && strings.Contains(l, "from=1.2.0 to=1.0.1")
			}) {
				t.Errorf("its log does not say how long that took: %v\n%s", err, strings.Join(log.Lines, "\n"))
			}
			if err := StopDetached(t.Context(), r.e); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(model, 0); err == nil {
				t.Error("the model server outlived an agent that was stopped")
			}
		})
	}
}

func leashes() []supervise.Leash {
	all := []supervise.Leash{supervise.LeashPipe}
	if supervise.SystemLeash != supervise.LeashPipe {
		all = append(all, supervise.SystemLeash)
	}
	return all
}

// wantOnePromise: memory is promised once, to a model that is there.
func (r *rig) wantOnePromise() {
	r.Helper()
	b, err := os.ReadFile(r.home.Ledger())
	if err != nil || strings.Count(string(b), `"deployment"`) != 1 || !strings.Contains(string(b), `"loaded":true`) {
		r.Errorf("the ledger of memory says %s, %v", b, err)
	}
}

func TestARestartFinishesTheWorkInHandFirst(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	first := r.awaitVersion("1.0.0")
	r.awaitMachine("ready")
	inHand := r.ask("tiny")
	r.awaitBusy()
	r.install("1.1.0")
	if err := r.door().Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	r.awaitMachine("draining")
	next := r.follow(r.submit(ai.RunRequest{Model: "tiny", Prompt: "hello"}), nil) // not refused: the machine will be back
	if st, err := r.door().Status(t.Context()); err != nil || st.Version != "1.0.0" || st.Words != "draining" {
		t.Errorf("the owner sees %q of version %s, %v", st.Words, st.Version, err)
	}
	control.Open()
	for _, ended := range []<-chan ai.Run{inHand, next} {
		if run := <-ended; run.Answer == nil || *run.Answer != "Hello, world." || run.Attempt != 1 {
			t.Errorf("the run is %+v", run)
		}
	}
	if now := r.awaitVersion("1.1.0"); now.Pid != first.Pid || now.Report.Deployments[0].Pid != first.Report.Deployments[0].Pid {
		t.Errorf("it is %+v", now)
	}
}

func (r *rig) awaitBusy() {
	r.Helper()
	r.await("the request in hand", func() bool {
		m, err := r.plane.Owner.Machine(r.Context(), r.e.Machine)
		return err == nil && len(m.Machine.Deployments) == 1 && m.Machine.Deployments[0].Busy == 1
	})
}

func TestARestartWaitsNoLongerThanItIsTold(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	first := r.awaitVersion("1.0.0")
	r.awaitMachine("ready")
	inHand := r.ask("tiny")
	r.awaitBusy()
	r.install("1.1.0")
	if err := r.door().Restart(t.Context(), 0); err != nil { // six hours
		t.Fatal(err)
	}
	r.awaitMachine("draining")
	if err := r.door().Restart(t.Context(), 10*time.Millisecond); err != nil { // a security release
		t.Fatal(err)
	}
	r.await("version 1.1.0", func() bool {
		st, err := r.door().Status(t.Context())
		return err == nil && st.Version == "1.1.0"
	})
	control.Open()
	if run := <-inHand; run.State != tasks.Succeeded || run.Answer == nil || *run.Answer != "Hello, world." {
		t.Errorf("the run that was handed back is %+v", run)
	}
	if now := r.awaitVersion("1.1.0"); now.Report.Deployments[0].Pid != first.Report.Deployments[0].Pid {
		t.Errorf("the model was loaded again: %+v", now.Report.Deployments[0])
	}
}

func TestAProgramThatCannotBeRunChangesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	first := r.awaitVersion("1.0.0")
	door := r.door()
	for name, spoil := range map[string]func(){
		"missing":        func() { r.point("9.9.9") },
		"a folder":       func() { must(t, os.MkdirAll(filepath.Join(r.appDir(), "2.0.0", "interlock"), 0o700)); r.point("2.0.0") },
		"not executable": func() { r.installText("2.0.1", ""); chmod(t, filepath.Join(r.appDir(), "2.0.1", "interlock"), 0o644) },
	} {
		spoil()
		if err := door.Restart(t.Context(), 0); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "cannot be run") || !strings.Contains(err.Error(), "goes on as version 1.0.0") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.installText("2.0.2", "half of a download")
	if err := door.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	var st localapi.Status
	r.await("the words of the failure", func() bool {
		var err error
		st, err = r.door().Status(t.Context())
		return err == nil && slices.ContainsFunc(st.Report.Warnings, func(w string) bool {
			return strings.Contains(w, "could not go on as the new program, and goes on as version 1.0.0") && strings.Contains(w, "exec format error")
		})
	})
	now := r.awaitVersion("1.0.0")
	if now.Pid != first.Pid || now.Report.Deployments[0].Pid != first.Report.Deployments[0].Pid {
		t.Errorf("it is %+v, it was %+v", now, first)
	}
	r.awaitMachine("ready")
	r.answers("tiny")
	r.install("1.1.0")
	if err := door.Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if now := r.awaitVersion("1.1.0"); now.Pid != first.Pid || len(now.Report.Warnings) != 0 {
		t.Errorf("after a good program: %+v", now)
	}
	if err := door.Restart(t.Context(), -time.Second); err != nil {
		t.Errorf("a client leaves a negative time out: %v", err)
	}
}

func TestATryThatFailedSaysNothingOfTheNextOne(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r := newRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	first := r.awaitVersion("1.0.0")
	r.installText("2.0.0", "half of a download")
	must(t, r.door().Restart(t.Context(), 0))
	saysItFailed := func() bool {
		st, err := r.door().Status(t.Context())
		return err == nil && slices.ContainsFunc(st.Report.Warnings, func(w string) bool { return strings.HasPrefix(w, cannotGoOn) })
	}
	r.await("the words of the failure", saysItFailed)
	r.awaitMachine("ready")
	inHand := r.ask("tiny")
	r.awaitBusy()
	r.install("1.1.0")
	l := r.launch(ofFolder)
	l.Program, l.Version = filepath.Join(r.appDir(), "current", "interlock"), "1.1.0"
	started := make(chan error, 1)
	go func() { _, err := StartDetached(t.Context(), r.e, l); started <- err }()
	r.awaitMachine("draining") // it looks at the agent, again and again, while the work in hand goes on
	if saysItFailed() {
		t.Error("during the next try it still says that the last one failed")
	}
	control.Open()
	must(t, testkit.Get(t, "the start", started))
	if run := <-inHand; run.Answer == nil || *run.Answer != "Hello, world." || run.Attempt != 1 {
		t.Errorf("the run is %+v", run)
	}
	if now := r.awaitVersion("1.1.0"); now.Pid != first.Pid || now.Report.Deployments[0].Pid != first.Report.Deployments[0].Pid {
		t.Errorf("the model was lost: it is %+v, it was %+v", now, first)
	}
}

func TestARestartThatCameDuringOneThatFailedIsOverWithIt(t *testing.T) {
	t.Parallel()
	a := &Agent{Options: Options{Version: "1.0.0"}, log: slog.New(slog.DiscardHandler), due: make(chan struct{}, 1), replace: make(chan struct{}, 1)}
	a.going = replacement{by: time.Now().Add(time.Hour), program: "/none"}
	signal(a.replace) // as Restart does while the program is being replaced
	a.goOn(errors.New("exec format error"))
	select {
	case <-a.replace:
		t.Error("a restart is left over")
	default:
	}
	if err := a.becomeNext(t.Context()); err != nil { // it has no worker to drain
		t.Errorf("nothing is to be replaced: %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestANewProgramThatEndsAtOnceLeavesNoOrphan(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{IgnoreTerm: true})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	first := r.awaitVersion("1.0.0")
	r.installText("1.1.0", "#!/bin/sh\nexit 1\n")
	if err := r.door().Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	r.await("the end of its model server", func() bool {
		return syscall.Kill(first.Report.Deployments[0].Pid, 0) != nil
	})
	r.point("1.0.0") // as the updater does
	r.startInstalled()
	if now := r.awaitVersion("1.0.0"); now.Pid == first.Pid {
		t.Errorf("it is %+v", now)
	}
	r.awaitMachine("ready")
	r.answers("tiny")
}

func TestARestartNeedsNoControlPlane(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	first := r.awaitVersion("1.0.0")
	r.road.block()
	r.install("1.1.0")
	if err := r.door().Restart(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if now := r.awaitVersion("1.1.0"); now.Report.Deployments[0].Pid != first.Report.Deployments[0].Pid {
		t.Errorf("the model was loaded again: %+v", now.Report.Deployments[0])
	}
	r.road.open()
	r.awaitMachine("ready")
	r.answers("tiny")
}

func TestARoleThatThisVersionCannotRunRestartsToo(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{}, asTrainer)
	r.install("1.0.0")
	l := r.launch(ofFolder)
	l.Program = filepath.Join(r.appDir(), "current", "interlock")
	st, err := StartDetached(t.Context(), r.e, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { killAgent(t, r.e.Dir()) })
	r.install("1.1.0")
	must(t, r.door().Restart(t.Context(), 0))
	r.await("version 1.1.0", func() bool {
		now, err := r.door().Status(t.Context())
		return err == nil && now.Version == "1.1.0" && now.Pid == st.Pid
	})
}

// TestTheDowntimeOfAnUpdate logs what applications see: how long no claim is out between the last one of the old
// program and the first of the new one. The benchmark holds it to its bound.
func TestTheDowntimeOfAnUpdate(t *testing.T) {
	t.Parallel()
	r := newRig(t, fakellama.Config{})
	var mu sync.Mutex
	type claims struct {
		at  time.Time
		out int // how many from then on
	}
	var seen []claims
	out := 0
	r.road.watch(func(req *http.Request, began bool) {
		if req.URL.Path != "/api/workers/claim" {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if began {
			out++
		} else {
			out--
		}
		seen = append(seen, claims{time.Now(), out})
	})
	r.install("1.0.0")
	r.startInstalled()
	r.plane.Deploy(nil, r.group, "tiny", 1)
	old := r.awaitVersion("1.0.0")
	r.await("a claim", func() bool { mu.Lock(); defer mu.Unlock(); return out == 1 })
	for _, version := range []string{"1.1.0", "1.2.0", "1.3.0"} {
		mu.Lock()
		before := len(seen)
		mu.Unlock()
		r.install(version)
		must(t, r.door().Restart(t.Context(), 0))
		if now := r.awaitVersion(version); now.Pid != old.Pid || now.Report.Deployments[0].Pid != old.Report.Deployments[0].Pid {
			t.Errorf("version %s is process %d with %+v, it was %d with %+v", version, now.Pid, now.Report.Deployments, old.Pid, old.Report.Deployments)
		}
		// The old program is gone: its claim has ended, and the one that is out is of the new program.
		var down time.Duration
		r.await("a claim of "+version, func() bool {
			mu.Lock()
			defer mu.Unlock()
			down = 0
			for i, c := range seen[before:] {
				if next := before + i + 1; c.out == 0 && next < len(seen) {
					down = max(down, seen[next].at.Sub(c.at))
				}
			}
			return len(seen) >= before+2 && out == 1
		})
		t.Logf("no work was taken for %v", down)
	}
}

func TestTheLockOfARoleIsHeldWithoutAMoment(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "agent.lock")
	first, err := lockRole(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockRole(path, nil); !errors.Is(err, errLocked) {
		t.Errorf("a second agent: %v", err)
	}
	again, err := lockRole(path, first.file) // as the next image finds it
	if err != nil || again.file != first.file {
		t.Errorf("the next image: %v", err)
	}
	other, err := os.Open(os.DevNull)
	must(t, err)
	defer other.Close() //nolint:errcheck // read only
	if _, err := lockRole(path, other); !errors.Is(err, errLocked) {
		t.Errorf("an image with another file: %v", err)
	}
	must(t, first.Unlock())
	second, err := lockRole(path, other)
	if err != nil {
		t.Errorf("after the end: %v", err)
	}
	must(t, second.Unlock())
	if _, err := lockRole(filepath.Join(path, "none"), nil); err == nil || errors.Is(err, errLocked) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestCurrentProgram(t *testing.T) {
	t.Parallel()
	app := t.TempDir()
	must(t, os.MkdirAll(filepath.Join(app, "1.0.0"), 0o700))
	program := filepath.Join(app, "1.0.0", "interlock")
	if got := CurrentProgram(program); got != program {
		t.Errorf("without a link it is %s", got)
	}
	must(t, os.Symlink("1.0.0", filepath.Join(app, "current")))
	link := filepath.Join(app, "current", "interlock")
	for _, path := range []string{program, link} { // as Linux and as macOS tell it
		if got := CurrentProgram(path); got != link {
			t.Errorf("%s gives %s", path, got)
		}
	}
	if got := CurrentProgram(""); got != "" {
		t.Errorf("nothing gives %s", got)
	}
	must(t, errors.Join(os.Remove(filepath.Join(app, "current")), os.Mkdir(filepath.Join(app, "current"), 0o700)))
	if got := CurrentProgram(program); got != program {
		t.Errorf("a folder of that name gives %s", got)
	}
	a := &Agent{Options: Options{Version: "1.0.0"}}
	if err := a.Restart(0); !errors.Is(err, fault.Conflict) {
		t.Errorf("an agent that does not know its program: %v", err)
	}
	for _, within := range []time.Duration{-1, replaceWithin + 1} {
		if err := a.Restart(within); !errors.Is(err, fault.Invalid) {
			t.Errorf("within %v: %v", within, err)
		}
	}
}
