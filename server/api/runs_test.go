package api_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// All policies × what the model names × whether a machine can serve it. A refusal creates and costs
// nothing.
func TestPlacement(t *testing.T) {
	t.Parallel()
	const none = ai.Policy("")
	for _, c := range []struct {
		policy ai.Policy
		model  string // "self": a deployment; "other": a name of nothing
		up     bool
		code   fault.Code // "" is admitted
		field  string
	}{
		{none, "self", true, "", ""},
		{none, "self", false, fault.NoEligibleWorker, "model"},
		{none, "other", true, fault.NotFound, "model"},
		{ai.SelfHostedOnly, "self", true, "", ""},
		{ai.SelfHostedOnly, "self", false, fault.NoEligibleWorker, "model"},
		{ai.SelfHostedOnly, "other", true, fault.NotFound, "model"},
		{ai.SelfHostedThenManaged, "self", true, "", ""},
		{ai.SelfHostedThenManaged, "self", false, fault.ManagedNotSet, "model"},
		{ai.SelfHostedThenManaged, "other", true, fault.ManagedNotSet, "model"},
		{ai.SelfHostedThenManaged, "other", false, fault.ManagedNotSet, "model"},
		{ai.ManagedOnly, "self", true, fault.Invalid, "routePolicy"},
		{ai.ManagedOnly, "self", false, fault.Invalid, "routePolicy"},
		{ai.ManagedOnly, "other", true, fault.ManagedNotSet, "model"},
		{ai.ManagedOnly, "other", false, fault.ManagedNotSet, "model"},
		{"nowhere", "self", true, fault.Invalid, "routePolicy"},
	} {
		name := strings.Join([]string{string(c.policy), c.model, map[bool]string{true: "up", false: "down"}[c.up]}, " ")
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !c.up {
				w.machine.Register(2)
			}
			model := map[string]string{"self": "tiny", "other": "gpt-9"}[c.model]
			got := w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: model, Prompt: "hi", RoutePolicy: c.policy})
			if c.code == "" {
				var run ai.Run
				if err := json.Unmarshal([]byte(got.body), &run); err != nil || got.status != 200 {
					t.Fatal(got.status, got.body)
				}
				want := c.policy
				if want == none {
					want = ai.SelfHostedOnly
				}
				if run.RoutePolicy != want || run.Route != "ai.self-hosted.tiny" || run.Deployment != "tiny" || run.DeploymentID != w.deployment.ID || run.State != tasks.Queued || run.TaskID == "" {
					t.Errorf("admitted as %+v", run)
				}
				return
			}
			w.refused(name, got, c.code, c.field)
			if c.code == fault.Invalid && c.policy == ai.ManagedOnly && (!strings.Contains(got.body, "managed-only") || !strings.Contains(got.body, "tiny")) {
				t.Errorf("policy and model are to be named: %s", got.body)
			}
			w.nothingHappened()
		})
	}
}

// nothingHappened checks that there is no run, no task and no usage.
func (w *world) nothingHappened() {
	w.t.Helper()
	ctx := w.t.Context()
	runs, err := w.mine.Runs(ctx, "", 0)
	list, err2 := w.mine.ListTasks(ctx, client.TaskFilter{})
	usage, err3 := w.mine.Usage(ctx, "", 0)
	if err != nil || err2 != nil || err3 != nil || len(runs.Runs) != 0 || len(list.Tasks) != 0 || usage.Runs != 0 || len(usage.Events) != 0 {
		w.t.Errorf("%d runs, %d tasks, %d usage events; %v %v %v", len(runs.Runs), len(list.Tasks), usage.Runs, err, err2, err3)
	}
}

// Which machines count: those that registered the deployment, were seen lately, and may work. A full
// one counts, its runs wait.
func TestEligibleMachines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change   func(w *world)
		eligible bool
	}{
		"ready":                {func(*world) {}, true},
		"full":                 {func(w *world) { w.run("1"); w.run("2"); w.machine.Take(); w.machine.Take() }, true},
		"another deployment":   {func(w *world) { w.machine.Register(2, w.Deploy(w.mine, w.group, "second", 2)) }, false},
		"another version":      {func(w *world) { w.handlers(ai.ChatType, 2) }, false},
		"another type":         {func(w *world) { w.handlers("demo/hello", 1) }, false},
		"draining by its word": {func(w *world) { w.drains(false) }, false},
		"draining to be back":  {func(w *world) { w.drains(true) }, true},
		"paused":               {func(w *world) { w.act(client.MachinePause) }, false},
		"draining":             {func(w *world) { w.act(client.MachineDrain) }, false},
		"resumed":              {func(w *world) { w.act(client.MachinePause); w.act(client.MachineResume) }, true},
		"revoked":              {func(w *world) { w.act(client.MachineRevoke) }, false},
		"not seen for 91 s":    {func(w *world) { w.clock.Advance(fleet.SeenFor + time.Second) }, false},
		"seen 89 s ago":        {func(w *world) { w.clock.Advance(fleet.SeenFor - time.Second) }, true},
		"no heartbeat, though registered": {func(w *world) {
			w.clock.Advance(fleet.SeenFor + time.Second)
			w.machine.Register(2, w.deployment)
		}, false},
		"no registration, though a heartbeat": {func(w *world) {
			w.clock.Advance(fleet.SeenFor + time.Second)
			w.machine.Beat(fleet.State{Kind: fleet.StateReady})
		}, false},
		"forgotten": {func(w *world) { w.call("DELETE", "/api/workers/"+w.machine.ID, w.machine.Credential, nil) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.change(w)
			got := w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: "tiny", Prompt: "hi"})
			if c.eligible != (got.status == 200) || !c.eligible && got.err.Code != fault.NoEligibleWorker {
				t.Errorf("%d %s", got.status, got.body)
			}
			listed := strings.Contains(w.call("GET", "/v1/models", w.creds["sdk"], nil).body, `"id":"tiny"`)
			if listed != c.eligible {
				t.Errorf("/v1/models lists it: %v", listed)
			}
		})
	}
}

func (w *world) act(a client.MachineAction) {
	w.t.Helper()
	if _, err := w.mine.ActOnMachine(w.t.Context(), w.machine.ID, a); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) handlers(typ string, version int) {
	w.t.Helper()
	req := w.machine.Registration(2, w.deployment)
	req.Handlers[0].Type, req.Handlers[0].SchemaVersion = typ, version
	if _, err := w.machine.RegisterWorker(w.t.Context(), req); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) drains(returns bool) {
	w.t.Helper()
	req := w.machine.Registration(2, w.deployment)
	req.Draining, req.Returns = true, returns
	if _, err := w.machine.RegisterWorker(w.t.Context(), req); err != nil {
		w.t.Fatal(err)
	}
}

// A model is named by its alias, or by group@channel, also where the group's name has an @ in it.
func TestNamesOfModels(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	odd := w.NewGroup(w.mine, "team@home / Ü")
	d := w.Deploy(w.mine, odd, "odd", 5)
	m := w.Enroll(odd, fleet.RoleClient, "second")
	m.Serve(d, 1)
	for _, g := range []string{w.group.ID, odd.ID} {
		alias := map[string]string{w.group.ID: "tiny", odd.ID: "odd"}[g]
		if _, err := w.mine.SetChannel(t.Context(), g, "stable", fleet.SetChannelRequest{Alias: alias}); err != nil {
			t.Fatal(err)
		}
	}
	for model, alias := range map[string]string{
		"tiny": "tiny", w.group.Name + "@stable": "tiny", w.group.ID + "@stable": "tiny", "odd": "odd", "team@home / Ü@stable": "odd", odd.ID + "@stable": "odd",
	} {
		run, err := w.Client(w.creds["sdk"]).SubmitRun(t.Context(), ai.RunRequest{Model: model, Prompt: "x"})
		if err != nil || run.Deployment != alias || run.Model != model {
			t.Errorf("%s: %+v %v", model, run, err)
		}
	}
	for _, model := range []string{w.group.Name, "tiny@stable", w.group.Name + "@beta", "@stable", "tiny@", w.deployment.ID, "TINY"} {
		w.refused(model, w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: model, Prompt: "x"}), fault.NotFound, "model")
	}
	var list struct {
		Object string `json:"object"`
		Data   []struct {
			ID, Object, OwnedBy string
			Created             int64
		} `json:"data"`
	}
	got := w.call("GET", "/v1/models", w.creds["sdk"], nil)
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || list.Object != "list" {
		t.Fatal(got.body, err)
	}
	var names []string
	for _, m := range list.Data {
		if m.Object != "model" || m.Created != noon.Unix() {
			t.Errorf("%+v", m)
		}
		names = append(names, m.ID)
		// One by its name, as OpenAI's clients escape it, and as a person types it.
		for _, path := range []string{url.PathEscape(m.ID), (&url.URL{Path: m.ID}).EscapedPath()} {
			one := w.call("GET", "/v1/models/"+path, w.creds["sdk"], nil)
			if one.status != 200 || !strings.Contains(got.body, strings.TrimSpace(one.body)) || !strings.Contains(one.body, m.ID) {
				t.Errorf("%s: %d %s", path, one.status, one.body)
			}
		}
	}
	if want := []string{"Garage models@stable", "odd", "team@home / Ü@stable", "tiny"}; !slices.Equal(names, want) {
		t.Errorf("models %q", names)
	}
}

func TestARunQueueIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	sdk := w.Client(w.creds["sdk"])
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for range ai.MaxQueued {
		group.Go(func() error {
			_, err := sdk.SubmitRun(ctx, ai.RunRequest{Model: "tiny", Prompt: "one of many"})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	got := w.call("POST", "/api/ai/runs", w.creds["sdk"], ai.RunRequest{Model: "tiny", Prompt: "one too many"})
	w.refused("the 1001st", got, fault.QueueFull, "")
	if got.status != 429 || got.header.Get("Retry-After") == "" || got.err.Details["limit"] != float64(ai.MaxQueued) {
		t.Errorf("%d, Retry-After %q, %s", got.status, got.header.Get("Retry-After"), got.body)
	}
	got = w.call("POST", "/v1/chat/completions", w.creds["sdk"], `{"model":"tiny","messages":[{"role":"user","content":"x"}]}`)
	if got.status != 429 || got.header.Get("Retry-After") == "" || !strings.Contains(got.body, "rate_limit_error") {
		t.Errorf("/v1: %d %s", got.status, got.body)
	}
	w.machine.Take()
	w.run("there is room again")
}

func TestARepeatedRequestIsOneRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := strings.Repeat("k", 193)
	req := ai.RunRequest{Model: "tiny", Prompt: "once", IdempotencyKey: key}
	sdk := w.Client(w.creds["sdk"])
	first, err := sdk.SubmitRun(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	again := func(what string) {
		t.Helper()
		if got, err := sdk.SubmitRun(t.Context(), req); err != nil || got.ID != first.ID {
			t.Errorf("%s: run %s, %v", what, got.ID, err)
		}
	}
	again("at once")
	if _, err := w.mine.RetireDeployment(t.Context(), w.group.ID, "tiny"); err != nil {
		t.Fatal(err)
	}
	again("when the model is not served any more")
	for name, change := range map[string]func(*ai.RunRequest){
		"prompt": func(r *ai.RunRequest) { r.Prompt = "twice" },
		"model":  func(r *ai.RunRequest) { r.Model = "other" },
		"policy": func(r *ai.RunRequest) { r.RoutePolicy = ai.SelfHostedThenManaged },
		"tokens": func(r *ai.RunRequest) { r.MaxTokens = 7 },
		"time":   func(r *ai.RunRequest) { r.TimeoutMs = 7 },
	} {
		other := req
		change(&other)
		w.refused("another "+name, w.call("POST", "/api/ai/runs", w.creds["sdk"], other), fault.IdempotencyConflict, "idempotencyKey")
	}
	runs, err := sdk.Runs(t.Context(), "", 0)
	if err != nil || len(runs.Runs) != 1 {
		t.Errorf("%d runs, %v", len(runs.Runs), err)
	}
	// A producer's task that took the key first is another request.
	if _, err := w.Client(w.creds["task-producer"]).SubmitTask(t.Context(), tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1, IdempotencyKey: "ai-run:mine"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.mine.Deploy(t.Context(), w.group.ID, fleet.NewDeploymentRequest{Release: "of-tiny", Alias: "tiny"}); err != nil {
		t.Fatal(err)
	}
	w.machine.Serve(w.deployment, 2)
	req.IdempotencyKey = "mine"
	w.refused("a producer's key", w.call("POST", "/api/ai/runs", w.creds["sdk"], req), fault.IdempotencyConflict, "idempotencyKey")
}
