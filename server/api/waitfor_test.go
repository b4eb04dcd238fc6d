package api_test

import (
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/tasks"
)

// evening is a control plane at noon in Berlin, whose one machine works from 22:00 on.
type evening struct {
	*world
	opens time.Time
}

func newEvening(t *testing.T) *evening {
	t.Helper()
	w := newWorld(t)
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	e := &evening{w, time.Date(2026, 3, 1, 22, 0, 0, 0, berlin)}
	e.sleep()
	return e
}

// sleep is what the machine reports outside its hours.
func (e *evening) sleep() {
	e.t.Helper()
	e.machine.Register(2)
	hb := e.machine.Report(fleet.State{Kind: fleet.StatePaused, Detail: "by owner until 22:00"})
	hb.Host.Zone = "Europe/Berlin"
	hb.Hours = &fleet.Hours{Mode: "night", Why: "until 22:00", Next: &e.opens}
	hb.Update = &fleet.UpdateReport{State: "current", Version: "1.2.3", At: noon}
	if _, err := e.machine.Heartbeat(e.t.Context(), hb); err != nil {
		e.t.Fatal(err)
	}
}

// until moves the clock, with the machine's heartbeats on the way.
func (e *evening) until(at time.Time) {
	e.t.Helper()
	for e.clock.Now().Before(at) {
		e.clock.Advance(min(30*time.Minute, at.Sub(e.clock.Now())))
		e.sleep()
	}
}

func (e *evening) ask(waitFor, timeout time.Duration) (ai.Run, error) {
	e.t.Helper()
	return e.Client(e.creds["sdk"]).SubmitRun(e.t.Context(), ai.RunRequest{
		Model: "tiny", Prompt: "good evening", WaitForMs: waitFor.Milliseconds(), TimeoutMs: timeout.Milliseconds(),
	})
}

func (e *evening) read(id string) ai.Run {
	e.t.Helper()
	run, err := e.Client(e.creds["sdk"]).Run(e.t.Context(), id)
	if err != nil {
		e.t.Fatal(err)
	}
	return run
}

// A run that is submitted by day starts at 22:00, when the owner's hours begin, and says so before.
func TestARunWaitsForTheOwnersHours(t *testing.T) {
	t.Parallel()
	e := newEvening(t)
	if _, err := e.ask(0, 0); fault.CodeOf(err) != fault.NoEligibleWorker {
		t.Fatalf("without a wait: %v", err)
	}
	e.nothingHappened()
	run, err := e.ask(12*time.Hour, 10*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	want := func(run ai.Run) {
		t.Helper()
		w := run.Waiting
		if run.State != tasks.Queued || w == nil || w.Reason != "about 22:00, garage's hours" || w.NotBefore == nil || !w.NotBefore.Equal(e.opens) ||
			w.Until == nil || !w.Until.Equal(noon.Add(12*time.Hour)) {
			t.Fatalf("%s, waits for %+v", run.State, w)
		}
	}
	want(run)
	m, err := e.mine.Machine(t.Context(), e.machine.ID)
	if err != nil || m.Machine.Hours == nil || m.Machine.Hours.Why != "until 22:00" || m.Machine.Update == nil || m.Machine.Update.Version != "1.2.3" {
		t.Errorf("the machine shows hours %+v, update %+v, %v", m.Machine.Hours, m.Machine.Update, err)
	}
	e.until(e.opens.Add(-time.Minute))
	want(e.read(run.ID))
	list, err := e.mine.Runs(t.Context(), "", 0)
	if err != nil || len(list.Runs) != 1 {
		t.Fatal(list, err)
	}
	want(list.Runs[0])

	e.clock.Advance(time.Minute)
	e.machine.Serve(e.deployment, 2)
	attempt := e.machine.Take()
	if left := time.Duration(attempt.DeadlineMs) * time.Millisecond; left != 10*time.Minute {
		t.Errorf("the timeout counts from the start: %v are left", left)
	}
	if run := e.read(run.ID); run.Waiting != nil || run.State != tasks.Leased {
		t.Errorf("%s, waits for %+v", run.State, run.Waiting)
	}
	answer := e.machine.Begin(attempt)
	answer.Say("Good ", "night.")
	answer.Finish(2)
	if run := e.read(run.ID); run.State != tasks.Succeeded || *run.Answer != "Good night." || run.UsageEventID == "" || run.Waiting != nil {
		t.Errorf("it ended as %+v", run)
	}
}

// No machine came: the run ends with the code of a refusal, and nothing is billed.
func TestAWaitInVain(t *testing.T) {
	t.Parallel()
	e := newEvening(t)
	run, err := e.ask(2*time.Hour, 0)
	if err != nil {
		t.Fatal(err)
	}
	e.until(noon.Add(2*time.Hour - time.Second))
	if got := e.read(run.ID); got.State != tasks.Queued {
		t.Fatalf("a second before its end it is %s", got.State)
	}
	kit.Await(t, "the end of the wait", func() bool {
		e.clock.Advance(100 * time.Millisecond)
		return e.read(run.ID).State.Terminal()
	})
	got := e.read(run.ID)
	if got.State != tasks.Expired || got.Error == nil || got.Error.Code != string(fault.NoEligibleWorker) || got.Waiting != nil || got.UsageEventID != "" {
		t.Errorf("it ended as %+v, %+v", got, got.Error)
	}
	if usage, err := e.mine.Usage(t.Context(), "", 0); err != nil || usage.Runs != 0 {
		t.Errorf("%d usage events, %v", usage.Runs, err)
	}
	if late := got.EndedAt.Sub(noon.Add(2 * time.Hour)); late < 0 { // how late tells how busy this machine is
		t.Errorf("it ended %v before its wait", -late)
	}
}

// The only machine works, but has no slot free when the wait ends: that is no lack of a machine.
func TestAWaitThatEndsAtAFullMachine(t *testing.T) {
	t.Parallel()
	e := newEvening(t)
	run, err := e.ask(time.Hour, 20*time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	serve := func() { e.machine.Serve(e.deployment, 2) }
	e.until(noon.Add(50 * time.Minute))
	serve()
	first := e.machine.Take() // the run itself; it comes back
	if _, err := e.machine.FailTask(t.Context(), tasks.FailReport{Ref: first.Ref, Returned: true}); err != nil {
		t.Fatal(err)
	}
	other, err := e.ask(time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if other.Waiting == nil || other.Waiting.Reason != "a free slot" {
		t.Errorf("beside a ready machine it waits for %+v", other.Waiting)
	}
	for e.clock.Now().Before(noon.Add(111 * time.Minute)) { // past the end of its wait
		e.clock.Advance(time.Minute)
		serve()
	}
	// The end of its wait was decided when it waits for the machine alone.
	kit.Await(t, "the end of the wait", func() bool {
		e.clock.Advance(100 * time.Millisecond)
		serve()
		w := e.read(other.ID).Waiting
		return w == nil || w.Until == nil
	})
	kit.Await(t, "the end of the one that had started", func() bool {
		e.clock.Advance(100 * time.Millisecond)
		return e.read(run.ID).State.Terminal()
	})
	if got := e.read(other.ID); got.State != tasks.Queued {
		t.Errorf("with a machine there it is %s: %+v", got.State, got.Error)
	}
	if got := e.read(run.ID); got.State != tasks.Expired || got.Error.Code != "EXPIRED" {
		t.Errorf("the one that had started kept no deadline: %s %+v", got.State, got.Error)
	}
}

// A run that an owner's hours interrupt goes back, says what it waits for, and streams anew.
func TestARunThatIsHandedBackStreamsAnew(t *testing.T) {
	t.Parallel()
	e := newEvening(t)
	e.machine.Serve(e.deployment, 2)
	run, err := e.ask(0, 12*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	r := e.watch(run, "")
	r.want("hello queued")
	first := e.machine.Begin(e.machine.Take())
	first.Say("Once ")
	r.want("delta 1@0 Once ")
	_, err = e.machine.FailTask(t.Context(), tasks.FailReport{
		Ref: first.Attempt.Ref, Failure: tasks.Failure{Code: "RETURNED", Message: "the owner's hours ended"}, Returned: true, StreamBytes: first.Sent,
	})
	if err != nil {
		t.Fatal(err)
	}
	e.sleep()
	got := e.read(run.ID)
	if got.State != tasks.Queued || got.Waiting == nil || got.Waiting.Reason != "about 22:00, garage's hours" || got.Waiting.Until != nil {
		t.Errorf("%s, waits for %+v", got.State, got.Waiting)
	}
	e.machine.Serve(e.deployment, 2)
	second := e.machine.Begin(e.machine.Take())
	second.Say("Twice")
	second.Finish(1)
	r.want("restarted 2", "delta 2@0 Twice", "end succeeded", "EOF")
	task, err := e.mine.Task(t.Context(), run.TaskID)
	if err != nil || task.Attempts != 1 {
		t.Errorf("%d attempts count, %v", task.Attempts, err)
	}
}

func TestBadWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, body := range map[string]string{
		"negative": `-1`, "longer than a day": `86400001`, "beyond every number": `9223372036854775807`,
	} {
		got := w.call("POST", "/api/ai/runs", w.creds["sdk"], `{"model": "tiny", "prompt": "hi", "waitForMs": `+body+`}`)
		w.refused(name, got, fault.Invalid, "waitForMs")
	}
	for name, body := range map[string]string{"a text": `"8h"`, "a fraction": `1.5`} {
		got := w.call("POST", "/api/ai/runs", w.creds["sdk"], `{"model": "tiny", "prompt": "hi", "waitForMs": `+body+`}`)
		if got.status != 400 || !strings.HasSuffix(got.err.Field, "waitForMs") {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}
	// The door for OpenAI's clients answers at once, and says which one waits.
	got := w.call("POST", "/v1/chat/completions", w.creds["sdk"], `{"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "waitForMs": 1000}`)
	if got.status != 400 || !strings.Contains(got.body, "/api/ai/runs") {
		t.Errorf("/v1: %d %s", got.status, got.body)
	}
	w.nothingHappened()
}

// A control plane that was away over the end of a wait decides it when it is back.
func TestAWaitThatEndsWhileTheControlPlaneIsAway(t *testing.T) {
	t.Parallel()
	e := newEvening(t)
	run, err := e.ask(time.Hour, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	e.Stop()
	e.clock.Advance(5 * time.Hour)
	e.Again()
	mine := e.Owner.WithProject("mine")
	var got ai.Run
	kit.Await(t, "the end of the wait", func() bool {
		e.clock.Advance(time.Second)
		if got, err = mine.Run(t.Context(), run.ID); err != nil {
			t.Fatal(err)
		}
		return got.State.Terminal()
	})
	if got.Error == nil || got.Error.Code != string(fault.NoEligibleWorker) {
		t.Errorf("it ended %s: %+v", got.State, got.Error)
	}
}
