package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/tasks"
)

// A project's own hardware: a worker with a task-worker key that serves a model by its alias.

const ownModel = "garage-llama"

// registers a worker of the project's own hardware for models.
func (w *world) hardware(credential, id string, change func(*tasks.RegisterRequest), models ...string) *client.Client {
	w.t.Helper()
	req := tasks.RegisterRequest{
		WorkerID: id, MaxConcurrent: 1, Version: "test",
		Handlers: []tasks.Handler{{Type: ai.ChatType, SchemaVersion: ai.ChatVersion, EffectSafety: tasks.Pure}},
	}
	for _, m := range models {
		req.Pools = append(req.Pools, ai.HardwarePool(m))
	}
	if change != nil {
		change(&req)
	}
	c := w.Client(w.creds[credential])
	if _, err := c.RegisterWorker(w.t.Context(), req); err != nil {
		w.t.Fatal("register:", err)
	}
	return c
}

// Which hardware counts: what registered the chat in the pool of the model, was seen lately and does not
// drain. What is away is refused as such when it was ever known, and costs nothing.
func TestEligibleHardware(t *testing.T) {
	t.Parallel()
	type change func(w *world)
	for name, c := range map[string]struct {
		model  string
		change change
		want   fault.Code // none: the run is admitted
	}{
		"ready": {ownModel, func(w *world) { w.hardware("task-worker", "garage", nil, ownModel) }, ""},
		"full": {ownModel, func(w *world) {
			w.hardware("task-worker", "garage", func(r *tasks.RegisterRequest) { r.Running = 1 }, ownModel)
		}, ""},
		"draining": {ownModel, func(w *world) {
			w.hardware("task-worker", "garage", func(r *tasks.RegisterRequest) { r.Draining = true }, ownModel)
		}, fault.NoEligibleWorker},
		"not seen for 91 s": {ownModel, func(w *world) {
			w.hardware("task-worker", "garage", nil, ownModel)
			w.clock.Advance(tasks.SeenFor + time.Second)
		}, fault.NoEligibleWorker},
		"another type": {ownModel, func(w *world) {
			w.hardware("task-worker", "garage", func(r *tasks.RegisterRequest) { r.Handlers[0].Type = "demo/hello" }, ownModel)
		}, fault.NotFound},
		"another model":               {ownModel, func(w *world) { w.hardware("task-worker", "garage", nil, "other") }, fault.NotFound},
		"another project's":           {ownModel, func(w *world) { w.hardware("their task-worker", "garage", nil, ownModel) }, fault.NotFound},
		"never seen":                  {ownModel, func(*world) {}, fault.NotFound},
		"a name that is no label":     {strings.Repeat("x", 4000), func(*world) {}, fault.NotFound},
		"forgotten, with runs before": {ownModel, func(w *world) { w.forgottenHardware() }, fault.NoEligibleWorker},
		"a profile that nobody runs":  {"qwen3-6-35b-a3b", func(*world) {}, fault.NoEligibleWorker},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			got := w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: c.model, Prompt: "hi"})
			if c.want == "" && got.status != 200 || got.err.Code != c.want {
				t.Errorf("%d %s, want %q", got.status, got.body, c.want)
			}
			listed := strings.Contains(w.call("GET", "/v1/models", w.creds["sdk"], nil).body, `"id":"`+c.model+`"`)
			if listed != (c.want == "") {
				t.Errorf("/v1/models lists it: %v", listed)
			}
			if usage, err := w.mine.Usage(t.Context(), "", 0); err != nil || len(usage.Events) != 0 {
				t.Errorf("usage: %+v %v", usage, err)
			}
		})
	}
}

func (w *world) forgottenHardware() {
	w.t.Helper()
	w.hardware("task-worker", "garage", nil, ownModel)
	if got := w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: ownModel, Prompt: "hi"}); got.status != 200 {
		w.t.Fatal(got.body)
	}
	if got := w.call("DELETE", "/api/workers/garage", w.creds["task-worker"], nil); got.status >= 300 {
		w.t.Fatal(got.body)
	}
}

// The policies mean for hardware what they mean for a fleet.
func TestPoliciesOnHardware(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy ai.Policy
		served bool
		want   fault.Code
	}{
		{ai.ManagedOnly, true, fault.Invalid},
		{ai.ManagedOnly, false, fault.Invalid},
		{ai.SelfHostedOnly, true, ""},
		{ai.SelfHostedOnly, false, fault.NoEligibleWorker},
		{ai.SelfHostedThenManaged, true, ""},
		{ai.SelfHostedThenManaged, false, fault.ManagedNotSet},
	} {
		t.Run(string(c.policy)+map[bool]string{true: " served"}[c.served], func(t *testing.T) {
			w := newWorld(t)
			if c.served {
				w.hardware("task-worker", "garage", nil, "qwen3-6-35b-a3b")
			}
			got := w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: "qwen3-6-35b-a3b", Prompt: "hi", RoutePolicy: c.policy})
			if got.err.Code != c.want {
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
}

// A run on the project's own hardware from admission to its one charge.
func TestARunOnHardware(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	garage := w.hardware("task-worker", "garage", nil, "qwen3-6-35b-a3b")
	ctx := t.Context()
	run, err := w.Client(w.creds["sdk"]).SubmitRun(ctx, ai.RunRequest{Model: "qwen3-6-35b-a3b", Prompt: "hi"})
	if err != nil || run.Deployment != "qwen3-6-35b-a3b" || run.Route != "ai.self-hosted.qwen3.6-35b-a3b" || run.RoutePolicy != ai.SelfHostedOnly {
		t.Fatalf("%+v %v", run, err)
	}
	claimed, err := garage.ClaimTasks(ctx, tasks.ClaimRequest{WorkerID: "garage", Max: 1, WaitMs: 10_000})
	if err != nil || len(claimed.Attempts) != 1 {
		t.Fatalf("claimed %+v %v", claimed, err)
	}
	held := claimed.Attempts[0]
	var input ai.ChatInput
	if err := json.Unmarshal(held.Input, &input); err != nil {
		t.Fatal(err)
	}
	request := "/api/blobs/" + input.Request.SHA256
	for who, may := range map[string]bool{"task-worker": true, "their task-worker": false, "machine": false, "trainer machine": false} {
		got := w.call("GET", request, w.creds[who], nil)
		if may != (got.status == 200) {
			t.Errorf("%s reads the request: %d %s", who, got.status, got.body)
		}
	}
	result := json.RawMessage(`{"content":"hello","finishReason":"stop","usage":{"promptTokens":3,"completionTokens":2,"totalTokens":5}}`)
	done, err := garage.CompleteTasks(ctx, tasks.CompleteRequest{Completions: []tasks.Completion{{Ref: held.Ref, Result: result}}})
	if err != nil || len(done.Outcomes) != 1 || done.Outcomes[0].Error != nil {
		t.Fatalf("complete: %+v %v", done, err)
	}
	w.refused("the request after the run", w.call("GET", request, w.creds["task-worker"], nil), fault.ChecksumUnknown, "")
	got, err := w.mine.Run(ctx, run.ID)
	if err != nil || got.State != tasks.Succeeded || got.WorkerID != "garage" || got.Machine != "" || got.Answer == nil || *got.Answer != "hello" {
		t.Errorf("%+v %v", got, err)
	}
	usage, err := w.mine.Usage(ctx, "", 0)
	if err != nil || len(usage.Events) != 1 || usage.Events[0].Route != run.Route || usage.Events[0].WorkerID != "garage" || usage.Events[0].Usage.TotalTokens != 5 {
		t.Errorf("usage %+v %v", usage, err)
	}
}

// A deployment of the fleet goes before hardware of the same name, and no machine passes for hardware.
func TestAFleetGoesBeforeHardware(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hardware("task-worker", "garage", nil, "tiny")
	run := w.run("hi")
	if run.DeploymentID != w.deployment.ID {
		t.Errorf("the run went to %s", run.DeploymentID)
	}
	models, _, _ := strings.Cut(w.call("GET", "/v1/models", w.creds["sdk"], nil).body, "\x00")
	if n := strings.Count(models, `"id":"tiny"`); n != 1 {
		t.Errorf("listed %d times: %s", n, models)
	}
	req := w.machine.Registration(1)
	req.Pools = []string{ai.HardwarePool(ownModel)}
	w.refused("a machine as hardware", w.call("POST", "/api/workers/register", w.machine.Credential, req), fault.ScopeDenied, "pools")
}

// A run that may wait says that it waits for hardware.
func TestARunWaitsForHardware(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sdk := w.Client(w.creds["sdk"])
	run, err := sdk.SubmitRun(t.Context(), ai.RunRequest{Model: "qwen3-6-35b-a3b", Prompt: "hi", WaitForMs: time.Hour.Milliseconds()})
	if err != nil || run.Waiting == nil || run.Waiting.Reason != "no worker of your hardware serves qwen3-6-35b-a3b now" {
		t.Fatalf("%+v %+v %v", run, run.Waiting, err)
	}
	garage := w.hardware("task-worker", "garage", nil, "qwen3-6-35b-a3b")
	claimed, err := garage.ClaimTasks(t.Context(), tasks.ClaimRequest{WorkerID: "garage", Max: 1, WaitMs: 10_000})
	if err != nil || len(claimed.Attempts) != 1 || !slices.ContainsFunc(claimed.Attempts, func(a tasks.Attempt) bool { return a.TaskID == run.TaskID }) {
		t.Errorf("claimed %+v %v", claimed, err)
	}
}
