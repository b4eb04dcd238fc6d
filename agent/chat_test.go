package agent

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"interlock.sh/agent/inference"
	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/internal/testkit/fakellama"
	"interlock.sh/internal/testkit/plane"
	"interlock.sh/tasks"
)

// ask submits a run and gives it back when it has ended. A machine may be shown as ready a moment before its
// worker is registered: the run waits for that.
func (r *rig) ask(model string) <-chan ai.Run {
	r.Helper()
	return r.follow(r.submit(ai.RunRequest{Model: model, Prompt: "hello", WaitForMs: 60_000}), nil)
}

func (r *rig) submit(req ai.RunRequest) string {
	r.Helper()
	run, err := r.plane.Owner.SubmitRun(r.Context(), req)
	if err != nil {
		r.Fatal("submit:", err)
	}
	return run.ID
}

func (r *rig) follow(run string, on func(event string, e ai.StreamEvent)) <-chan ai.Run {
	ended := make(chan ai.Run, 1)
	go func() {
		got, err := r.plane.Owner.FollowRun(r.Context(), run, func(event string, e ai.StreamEvent) error {
			if on != nil {
				on(event, e)
			}
			return nil
		})
		if err != nil && r.Context().Err() == nil {
			r.Error("follow:", err)
		}
		ended <- got
	}()
	return ended
}

// newServingRig is a rig whose model "tiny" is ready.
func newServingRig(t *testing.T, cfg fakellama.Config, options ...rigOption) (*rig, fleet.Deployment) {
	t.Helper()
	r := newRig(t, cfg, options...)
	d := r.plane.Deploy(nil, r.group, "tiny", 1)
	r.start()
	r.awaitMachine("ready")
	return r, d
}

func TestARunIsAnsweredWithItsUsageAndSpeed(t *testing.T) {
	t.Parallel()
	r, _ := newServingRig(t, fakellama.Config{})
	run := <-r.ask("tiny")
	if run.State != tasks.Succeeded || run.Answer == nil || *run.Answer != "Hello, world." || run.FinishReason != "stop" {
		t.Fatalf("the run is %+v", run)
	}
	if run.Usage == nil || run.Usage.CompletionTokens != 4 || run.Usage.PromptTokens == 0 || run.TokensPerSecond == nil || run.Machine != "mini" {
		t.Errorf("its evidence is %+v", run)
	}
	if got := r.deployment("tiny"); got.TokensPerSecond == nil || got.Busy != 0 {
		t.Errorf("the deployment shows %+v", got)
	}
}

func TestAContextThatIsExceededIsFinalAndNamedAsTheModelServerDoes(t *testing.T) {
	t.Parallel()
	r, _ := newServingRig(t, fakellama.Config{})
	run := <-r.follow(r.submit(ai.RunRequest{Model: "tiny", Prompt: strings.Repeat("word ", 5000)}), nil)
	if run.State != tasks.Failed || run.Error == nil || run.Error.Code != "exceed_context_size_error" || run.Attempt != 1 {
		t.Fatalf("the run is %+v, error %+v", run, run.Error)
	}
	if got := r.deployment("tiny"); got.State.Kind != fleet.StateReady {
		t.Errorf("the model is doubted for it: %s", got.State)
	}
}

func TestACancelledRunFreesItsSlot(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r, _ := newServingRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	id := r.submit(ai.RunRequest{Model: "tiny", Prompt: "hello"})
	ended := r.follow(id, nil)
	r.await("the request at the model server", func() bool { return r.activeChats() == 1 })
	if _, err := r.plane.Owner.CancelRun(t.Context(), id, "not needed"); err != nil {
		t.Fatal(err)
	}
	if run := <-ended; run.State != tasks.Cancelled {
		t.Errorf("the run is %+v", run)
	}
	r.await("the slot free", func() bool { return r.activeChats() == 0 && r.deployment("tiny").Busy == 0 })
	if got := r.deployment("tiny"); got.State.Kind != fleet.StateReady || got.Restarts != 0 {
		t.Errorf("the model is %+v", got)
	}
}

// A model that reads its prompt for long has worked, also when nobody waits for the answer any more.
func TestARunThatIsCancelledWhileItsPromptIsReadIsBilled(t *testing.T) {
	t.Parallel()
	r, _ := newServingRig(t, fakellama.Config{HangAfter: 1}) // the first completion is the probe
	id := r.submit(ai.RunRequest{Model: "tiny", Prompt: "hello"})
	ended := r.follow(id, nil)
	r.await("the run under way", func() bool {
		run, err := r.plane.Owner.Run(t.Context(), id)
		return err == nil && run.State == tasks.Running
	})
	if _, err := r.plane.Owner.CancelRun(t.Context(), id, "took too long"); err != nil {
		t.Fatal(err)
	}
	if run := <-ended; run.State != tasks.Cancelled || run.UsageEventID == "" {
		t.Errorf("the run is %+v", run)
	}
}

// activeChats are the requests that the agent has open at its model servers.
func (r *rig) activeChats() int {
	r.agent.mu.Lock()
	defer r.agent.mu.Unlock()
	n := 0
	for _, s := range r.agent.serves {
		s.mu.Lock()
		if s.drive != nil {
			n += s.drive.Active()
		}
		s.mu.Unlock()
	}
	return n
}

func TestAModelServerThatDiesUnderARunIsStartedAgainAndTheRunRepeated(t *testing.T) {
	t.Parallel()
	// The first completion is the probe, the second one the run.
	r, _ := newServingRig(t, fakellama.Config{CrashAfter: 2})
	r.plane.Deploy(nil, r.group, "other", 2)
	r.awaitWords("other", "ready")
	run := <-r.ask("tiny")
	// The second attempt meets the same: it is as far as a run goes.
	if run.State != tasks.Failed || run.Attempt != ai.MaxAttempts || run.Error == nil {
		t.Errorf("the run is %+v", run)
	}
	r.await("the model again", func() bool { d := r.deployment("tiny"); return d.State.Serving() && d.Restarts > 0 })
	if got := r.deployment("other"); got.Restarts != 0 {
		t.Error("the other model was restarted")
	}
}

func TestARequestThatIsNotWhatItsHashSaysIsNotAsked(t *testing.T) {
	t.Parallel()
	r, _ := newServingRig(t, fakellama.Config{})
	r.road.rules(func(w http.ResponseWriter, req *http.Request) bool {
		if !strings.HasPrefix(req.URL.Path, "/api/blobs/") {
			return false
		}
		_, _ = w.Write([]byte(`{"messages":[{"role":"user","content":"something else"}]}`))
		return true
	})
	run := <-r.ask("tiny")
	if run.State != tasks.Failed || run.Error == nil || run.Usage != nil {
		t.Errorf("the run is %+v, error %+v", run, run.Error)
	}
	_, err := inference.Request(context.Background(), r.agent.control, ai.BlobRef{SHA256: strings.Repeat("0", 64), Size: ai.MaxBody + 1})
	if err == nil || !strings.Contains(err.Error(), "the limit is 8388608") {
		t.Errorf("a request that is too large: %v", err)
	}
	r.road.open()
	if run := <-r.ask("tiny"); run.State != tasks.Succeeded {
		t.Errorf("afterwards: %+v", run)
	}
}

func TestASlotThatIsBusyIsShownAsFull(t *testing.T) {
	t.Parallel()
	control := fakellama.NewControl(t)
	control.Step(1)
	r, _ := newServingRig(t, fakellama.Config{Control: control.Path(), GateTokens: true})
	first, second := r.ask("tiny"), r.ask("tiny")
	d := r.awaitWords("tiny", "full")
	if d.Busy != 2 {
		t.Errorf("two slots, %d busy", d.Busy)
	}
	r.awaitMachine("full")
	control.Open()
	for _, ended := range []<-chan ai.Run{first, second} {
		if run := <-ended; run.State != tasks.Succeeded {
			t.Errorf("%+v", run)
		}
	}
	plane.Await(t, "ready again", func() bool { return r.deployment("tiny").State.Kind == fleet.StateReady })
}
