package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/tasks"
)

// beat keeps machines seen and registered while the clock moves by so much.
func (w *world) beat(d time.Duration, ms ...*kit.Machine) {
	w.t.Helper()
	for step := 10 * time.Second; d > 0; d -= step {
		w.clock.Advance(min(d, step))
		for _, m := range ms {
			m.Serve(w.deployment, 2)
		}
	}
}

// lose lets the lease of the one attempt that is held run out.
func (w *world) lose(ms ...*kit.Machine) {
	w.t.Helper()
	w.beat(tasks.Lease+10*time.Second, ms...)
	kit.Await(w.t, "the lost attempt is noticed", func() bool {
		return w.gauge(`interlock_tasks{state="leased"}`)+w.gauge(`interlock_tasks{state="running"}`) == 0
	})
}

// ended waits for a run's end.
func (w *world) ended(id string) ai.Run {
	w.t.Helper()
	var run ai.Run
	kit.Await(w.t, "the end of the run", func() bool {
		var err error
		if run, err = w.mine.Run(w.t.Context(), id); err != nil {
			w.t.Fatal(err)
		}
		return run.State.Terminal()
	})
	return run
}

var broken = tasks.Failure{Code: "CRASHED", Message: "the model server crashed", Retryable: true}

// An attempt that was handed back undone counts against nothing, and the run still says which one it is at.
func TestAnAttemptThatIsHandedBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.run("hi")
	for n := 1; n <= 4; n++ {
		held := w.machine.Take()
		got, err := w.mine.Run(t.Context(), run.ID)
		if err != nil || got.Attempt != n || held.Number != n || got.Machine != "garage" {
			t.Fatalf("run at attempt %d, lease of attempt %d, want %d; %v", got.Attempt, held.Number, n, err)
		}
		if n == 4 {
			w.machine.Begin(held).Finish(1)
			break
		}
		if _, err := w.machine.FailTask(t.Context(), tasks.FailReport{Ref: held.Ref, Failure: tasks.Failure{Code: "OUT_OF_HOURS", Message: "the owner's hours begin"}, Returned: true}); err != nil {
			t.Fatal(err)
		}
		w.beat(10*time.Second, w.machine) // it waits a little before it is offered again
	}
	if got := w.ended(run.ID); got.State != tasks.Succeeded || got.Attempt != 4 || got.UsageEventID == "" {
		t.Errorf("%+v", got)
	}
}

// Exactly one usage event a run whose attempts reached a model, whatever became of it; none otherwise.
func TestOneUsageEventARun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play   func(w *world, run ai.Run)
		state  tasks.State
		events int
		tokens int // of the answer
		by     int // number of the attempt that is billed
	}{
		"answered": {func(w *world, _ ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("one", "two")
			a.Finish(2)
		}, tasks.Succeeded, 1, 2, 1},
		"answered without a count": {func(w *world, _ ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("one", "two")
			a.FinishWith(ai.ChatResult{Content: "onetwo", FinishReason: "stop"})
		}, tasks.Succeeded, 1, 2, 1},
		"answered with a mad count": {func(w *world, _ ai.Run) {
			w.machine.Begin(w.machine.Take()).FinishWith(ai.ChatResult{Usage: ai.Usage{PromptTokens: -7, CompletionTokens: 3, TotalTokens: 99}})
		}, tasks.Succeeded, 1, 3, 1},
		"answered, reported twice": {func(w *world, _ ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("one")
			a.Finish(1)
			if out := a.Finish(1); out.State != tasks.Succeeded || out.Error != nil {
				w.t.Errorf("the repeat: %+v", out)
			}
		}, tasks.Succeeded, 1, 1, 1},
		"failed before the first word, twice": {func(w *world, _ ai.Run) {
			for range 2 {
				w.machine.Begin(w.machine.Take()).Fail(broken)
			}
		}, tasks.Failed, 0, 0, 0},
		"failed after some words, twice": {func(w *world, _ ai.Run) {
			for n := range 2 {
				a := w.machine.Begin(w.machine.Take())
				a.Say("a", "b", "c"[:n])
				a.Fail(broken)
			}
		}, tasks.Failed, 1, 3, 2},
		"failed after some words, then before any": {func(w *world, _ ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("a", "b")
			a.Fail(broken)
			w.machine.Begin(w.machine.Take()).Fail(broken)
		}, tasks.Failed, 1, 2, 1},
		"lost, then answered": {func(w *world, _ ai.Run) {
			w.machine.Begin(w.machine.Take()).Say("a", "b", "c", "d")
			w.lose(w.machine)
			a := w.machine.Begin(w.machine.Take())
			a.Say("x")
			a.Finish(1)
		}, tasks.Succeeded, 1, 1, 2},
		"lost twice": {func(w *world, _ ai.Run) {
			w.machine.Begin(w.machine.Take()).Say("a")
			w.lose(w.machine)
			w.machine.Begin(w.machine.Take()).Say("a", "b")
			w.lose(w.machine)
		}, tasks.Failed, 1, 2, 2},
		"cancelled before it began": {func(w *world, run ai.Run) {
			w.cancel(run)
		}, tasks.Cancelled, 0, 0, 0},
		"cancelled after some words": {func(w *world, run ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("a", "b")
			w.cancel(run)
			a.Fail(tasks.Failure{Code: tasks.CodeCancelled, Message: "stopped"})
		}, tasks.Cancelled, 1, 2, 1},
		"cancelled, but answered first": {func(w *world, run ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("a")
			w.cancel(run)
			a.Finish(1)
		}, tasks.Succeeded, 1, 1, 1},
		"cancelled while the model read the prompt": {func(w *world, run ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			w.reads(a)
			w.cancel(run)
			a.Fail(tasks.Failure{Code: tasks.CodeCancelled, Message: "stopped"})
		}, tasks.Cancelled, 1, 0, 1},
		"lost after some words, then while it read the prompt": {func(w *world, _ ai.Run) {
			w.machine.Begin(w.machine.Take()).Say("a", "b")
			w.lose(w.machine)
			w.reads(w.machine.Begin(w.machine.Take()))
			w.lose(w.machine)
		}, tasks.Failed, 1, 2, 1},
		"renewed for long, but never asked of a model": {func(w *world, run ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			if _, err := w.machine.RenewTasks(w.t.Context(), tasks.RenewRequest{WorkerID: w.machine.ID, Attempts: []tasks.Ref{a.Attempt.Ref}}); err != nil {
				w.t.Fatal(err)
			}
			w.cancel(run)
			a.Fail(tasks.Failure{Code: tasks.CodeCancelled, Message: "stopped"})
		}, tasks.Cancelled, 0, 0, 0},
		"expired before it began": {func(w *world, _ ai.Run) {
			w.beat(2*time.Minute, w.machine)
		}, tasks.Expired, 0, 0, 0},
		"expired while it waited for its second attempt": {func(w *world, _ ai.Run) {
			a := w.machine.Begin(w.machine.Take())
			a.Say("a", "b", "c")
			a.Fail(broken)
			w.beat(2*time.Minute, w.machine)
		}, tasks.Expired, 1, 3, 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			run, err := w.Client(w.creds["sdk"]).SubmitRun(t.Context(), ai.RunRequest{Model: "tiny", Prompt: "hi", TimeoutMs: 100_000})
			if err != nil {
				t.Fatal(err)
			}
			c.play(w, run)
			got := w.ended(run.ID)
			if got.State != c.state {
				t.Errorf("ended %s, want %s: %+v", got.State, c.state, got.Error)
			}
			usage, err := w.Client(w.creds["sdk"]).Usage(t.Context(), "", 0)
			if err != nil || len(usage.Events) != c.events || usage.Runs != int64(c.events) {
				t.Fatalf("%d usage events, %d runs, want %d; %v", len(usage.Events), usage.Runs, c.events, err)
			}
			if (got.UsageEventID != "") != (c.events == 1) {
				t.Errorf("the run names usage event %q", got.UsageEventID)
			}
			if c.events == 0 {
				return
			}
			e := usage.Events[0]
			if e.ID != got.UsageEventID || e.RunID != run.ID || e.TaskID != run.TaskID || e.Project != "mine" || e.Route != "ai.self-hosted.tiny" || e.RoutePolicy != ai.SelfHostedOnly ||
				e.Deployment != "tiny" || e.DeploymentID != w.deployment.ID || e.WorkerID != w.machine.ID || e.State != c.state || e.Attempt != c.by {
				t.Errorf("usage event %+v", e)
			}
			if e.Usage.CompletionTokens != c.tokens || e.Usage.TotalTokens != e.Usage.PromptTokens+c.tokens || e.Usage.PromptTokens < 0 || usage.Total != e.Usage {
				t.Errorf("usage %+v, total %+v, want %d tokens", e.Usage, usage.Total, c.tokens)
			}
		})
	}
}

// reads says what an agent says of a model that reads a long prompt.
func (w *world) reads(a *kit.Answer) {
	w.t.Helper()
	err := w.machine.ReportProgress(w.t.Context(), tasks.ProgressReport{Ref: a.Attempt.Ref, Progress: tasks.Progress{Message: "the model reads the prompt"}})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) cancel(run ai.Run) {
	w.t.Helper()
	if _, err := w.Client(w.creds["sdk"]).CancelRun(w.t.Context(), run.ID, "changed my mind"); err != nil {
		w.t.Fatal(err)
	}
}

// A run is what the page on self-hosted AI says of it, evidence included.
func TestTheSnapshotOfARun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	temperature, seed := 0.5, int64(7)
	run, err := w.Client(w.creds["sdk"]).SubmitRun(t.Context(), ai.RunRequest{
		Model: "tiny", System: "be brief", Prompt: "hi", MaxTokens: 9, Temperature: &temperature, Seed: &seed, Stop: []string{"."},
	})
	if err != nil {
		t.Fatal(err)
	}
	if run.State != tasks.Queued || run.Attempt != 0 || run.Answer != nil || run.Usage != nil || run.EndedAt != nil {
		t.Errorf("at first: %+v", run)
	}
	held := w.machine.Take()
	var in ai.ChatInput
	if err := json.Unmarshal(held.Input, &in); err != nil || in.Alias != "tiny" || in.DeploymentID != w.deployment.ID {
		t.Fatalf("input %s: %v", held.Input, err)
	}
	request := w.call("GET", "/api/blobs/"+in.Request.SHA256, w.machine.Credential, nil)
	if int64(len(request.body)) != in.Request.Size || request.body != `{"max_tokens":9,"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"hi"}],"seed":7,"stop":["."],"temperature":0.5}` {
		t.Errorf("the model server is sent %s", request.body)
	}
	// All of it counts: the first word is the attempt's first report, and comes only when the prompt is read.
	w.clock.Advance(1400 * time.Millisecond)
	a := w.machine.Begin(held)
	a.Say("fine")
	w.clock.Advance(100 * time.Millisecond)
	speed := 31.5
	a.FinishWith(ai.ChatResult{Content: "fine", FinishReason: "stop", TokensPerSecond: &speed, DurationMs: 1400, Usage: ai.Usage{PromptTokens: 8, CompletionTokens: 1, TotalTokens: 9}})
	got, err := w.mine.Run(t.Context(), run.ID)
	if err != nil || got.State != tasks.Succeeded || *got.Answer != "fine" || got.FinishReason != "stop" || got.WorkerID != w.machine.ID || got.Machine != "garage" ||
		got.Attempt != 1 || *got.TokensPerSecond != speed || got.DurationMs != 1500 || got.Usage.TotalTokens != 9 || got.StartedAt == nil || got.EndedAt == nil || got.Error != nil {
		t.Errorf("%+v %v", got, err)
	}
	list, err := w.mine.Runs(t.Context(), "", 10)
	if err != nil || len(list.Runs) != 1 || list.Runs[0].ID != run.ID || list.Next != "" {
		t.Errorf("%+v %v", list, err)
	}
}

func TestPagesOfRunsAndUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	want := map[string]bool{}
	for range 7 {
		want[w.run("x").ID] = true
		w.machine.Begin(w.machine.Take()).Finish(1)
		w.clock.Advance(time.Millisecond)
	}
	runs, events, before := 0, 0, ""
	for page := 0; page == 0 || before != ""; page++ {
		list, err := w.mine.Runs(t.Context(), before, 3)
		if err != nil || page > 3 {
			t.Fatal(page, err)
		}
		for _, r := range list.Runs {
			if !want[r.ID] {
				t.Errorf("run %s came twice or is none of ours", r.ID)
			}
			delete(want, r.ID)
			runs++
		}
		before = list.Next
	}
	for page := 0; page == 0 || before != ""; page++ {
		list, err := w.mine.Usage(t.Context(), before, 3)
		if err != nil || page > 3 || list.Runs != 7 || list.Total.CompletionTokens != 7 || list.Total.PromptTokens != 14 {
			t.Fatal(page, list, err)
		}
		events += len(list.Events)
		before = list.Next
	}
	if runs != 7 || events != 7 {
		t.Errorf("%d runs, %d events", runs, events)
	}
	for _, path := range []string{"/api/ai/runs", "/api/usage"} {
		for _, limit := range []string{"501", "-1"} {
			w.refused(path, w.call("GET", path+"?limit="+limit, w.creds["sdk"], nil), fault.Invalid, "limit")
		}
	}
}

// Prompts and answers stand in no journal entry that lists show, and in no other project's usage.
func TestUsageIsOfTheProject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.run("hello")
	w.machine.Begin(w.machine.Take()).Finish(1)
	if got := w.call("GET", "/api/usage", w.creds["their sdk"], nil); !strings.Contains(got.body, `"events":[]`) || !strings.Contains(got.body, `"runs":0`) {
		t.Errorf("another project sees %s", got.body)
	}
	foreign := w.NewGroup(w.theirs, w.group.Name)
	d := w.Deploy(w.theirs, foreign, "tiny", 1) // the same names, the same bytes
	m := w.Enroll(foreign, fleet.RoleClient, "garage")
	m.Serve(d, 1)
	run, err := w.Client(w.creds["their sdk"]).SubmitRun(t.Context(), ai.RunRequest{Model: "tiny", Prompt: "hello"})
	if err != nil || run.DeploymentID != d.ID {
		t.Fatal(run, err)
	}
	if got := w.call("POST", "/api/workers/claim", w.machine.Credential, tasks.ClaimRequest{WorkerID: w.machine.ID, Max: 1}); !strings.Contains(got.body, `"attempts":[]`) {
		t.Errorf("a machine takes another project's run: %s", got.body)
	}
	m.Begin(m.Take()).Finish(1)
	if got, err := w.theirs.Run(t.Context(), run.ID); err != nil || got.State != tasks.Succeeded || got.Machine != "garage" {
		t.Errorf("their run: %+v %v", got, err)
	}
}
