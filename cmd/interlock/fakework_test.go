package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/fault"
	"interlock.sh/tasks"
)

func (f *fakeAPI) taskRoutes(mux *http.ServeMux) {
	done := tasks.View{
		ID: "tsk_1", Project: "home", Type: "demo/hello", SchemaVersion: 1, State: tasks.Succeeded, Pool: "default", Attempts: 1, MaxAttempts: 3,
		EffectKey: "tsk_1", Result: json.RawMessage(`{"message":"hello"}`), CreatedAt: born, UpdatedAt: born, Cursor: 2,
	}
	bad := done
	bad.ID, bad.State, bad.Result, bad.Error = "tsk_bad", tasks.Failed, nil, &tasks.Failure{Code: "BOOM", Message: "it\x1b[2J broke"}
	f.handle(mux, "POST /api/tasks", func(r *http.Request) (any, error) {
		req, err := decode[json.RawMessage](r)
		f.submitted = append(f.submitted, req)
		view := done
		view.State, view.Result = tasks.Queued, nil
		return view, err
	}, access.Account)
	f.handle(mux, "GET /api/tasks", func(*http.Request) (any, error) {
		return tasks.List{Tasks: []tasks.View{done, bad}, Next: "cur_2"}, nil
	}, access.Account)
	byID := func(r *http.Request) (tasks.View, error) {
		switch r.PathValue("id") {
		case done.ID:
			return done, nil
		case bad.ID:
			return bad, nil
		}
		return tasks.View{}, fault.New(fault.NotFound, "there is no task %s", r.PathValue("id"))
	}
	f.handle(mux, "GET /api/tasks/{id}", func(r *http.Request) (any, error) { return byID(r) }, access.Account)
	f.handle(mux, "POST /api/tasks/{id}/cancel", func(r *http.Request) (any, error) { return byID(r) }, access.Account)
	f.handle(mux, "GET /api/tasks/{id}/journal", func(r *http.Request) (any, error) {
		view, err := byID(r)
		page := tasks.Journal{State: view.State, Cursor: 2}
		if r.URL.Query().Get("after") == "" {
			page.Entries = []tasks.Entry{
				{Seq: 1, At: born, Kind: tasks.EntrySubmitted},
				{Seq: 2, At: born, Kind: tasks.EntryLog, Data: json.RawMessage(`{"lines":["one","two"]}`)},
			}
		}
		return page, err
	}, access.Account)
	f.handle(mux, "GET /api/workers", func(*http.Request) (any, error) {
		return map[string]any{"workers": []tasks.WorkerView{{WorkerID: "garage", State: "full", Running: 2, MaxConcurrent: 2,
			Handlers: []tasks.Handler{{Type: "demo/hello", SchemaVersion: 1}}, Pools: []string{"default"}, LastSeen: born}}}, nil
	}, access.Account)
}

// runOf is a finished run whose answer the prompt chooses.
func runOf(id string) ai.Run {
	speed := 42.25
	answer := map[string]string{"run_evil": "red \x1b[31mtext"}[id]
	if answer == "" {
		answer = "Hello from the fleet."
	}
	r := ai.Run{
		ID: id, TaskID: "tsk_1", Project: "home", State: tasks.Succeeded, Model: "tiny", Deployment: "tiny", DeploymentID: "dep_1",
		RoutePolicy: ai.SelfHostedOnly, Route: "ai.self-hosted.tiny", Answer: &answer, FinishReason: "stop",
		Usage: &ai.Usage{PromptTokens: 12, CompletionTokens: 5, TotalTokens: 17}, Machine: "garage-mac", Attempt: 1,
		TokensPerSecond: &speed, DurationMs: 1500, CreatedAt: born,
	}
	switch id {
	case "run_fail":
		r.State, r.Answer, r.Usage, r.TokensPerSecond = tasks.Failed, nil, nil, nil
		r.Error = &tasks.Failure{Code: "MODEL_CRASHED", Message: "the model server ended"}
	case "run_hang":
		r.State, r.Answer = tasks.Running, nil
	case "run_lost":
		r.Attempt = 2
	}
	return r
}

// waitingRun is a run that no machine serves before the evening.
func waitingRun(id string) ai.Run {
	r := runOf(id)
	begin, end := born.Add(10*time.Hour), born.Add(12*time.Hour)
	r.State, r.Answer, r.Usage, r.TokensPerSecond, r.Machine, r.Attempt, r.DurationMs = tasks.Queued, nil, nil, nil, "", 0, 0
	r.Waiting = &ai.Waiting{Reason: "about 22:00, garage-mac's hours", NotBefore: &begin, Until: &end}
	return r
}

func (f *fakeAPI) runRoutes(mux *http.ServeMux) {
	f.handle(mux, "POST /api/ai/runs", func(r *http.Request) (any, error) {
		raw, err := decode[json.RawMessage](r)
		if err != nil {
			return nil, err
		}
		f.submitted = append(f.submitted, raw)
		var req ai.RunRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, err
		}
		if req.Model != "tiny" {
			return nil, fault.New(fault.NoEligibleWorker, "no healthy machine of this project serves %s", req.Model)
		}
		if req.WaitForMs > 0 {
			return waitingRun("run_" + strings.TrimSpace(req.Prompt)), nil
		}
		return runOf("run_" + strings.TrimSpace(req.Prompt)), nil
	}, access.Account, access.SDK)
	f.handle(mux, "GET /api/ai/runs", func(*http.Request) (any, error) {
		return ai.RunList{Runs: []ai.Run{runOf("run_good"), runOf("run_fail"), waitingRun("run_wait")}}, nil
	}, access.Account, access.SDK)
	f.handle(mux, "GET /api/ai/runs/{id}", func(r *http.Request) (any, error) {
		if id := r.PathValue("id"); id == "run_wait" {
			return waitingRun(id), nil
		}
		return runOf(r.PathValue("id")), nil
	}, access.Account, access.SDK)
	f.handle(mux, "POST /api/ai/runs/{id}/cancel", func(r *http.Request) (any, error) {
		f.cancelled = true
		c := runOf(r.PathValue("id"))
		c.State = tasks.Cancelled
		return c, nil
	}, access.Account, access.SDK)
	f.handle(mux, "GET /api/usage", func(*http.Request) (any, error) {
		u := ai.Usage{PromptTokens: 12, CompletionTokens: 5, TotalTokens: 17}
		return ai.UsageList{Runs: 1, Total: u, Events: []ai.UsageEvent{{
			ID: "use_1", RunID: "run_good", Route: "ai.self-hosted.tiny", RoutePolicy: ai.SelfHostedOnly, Deployment: "tiny", WorkerID: "mac_1", Attempt: 2,
			Usage: u, DurationMs: 4200, State: tasks.Succeeded, At: born,
		}}}, nil
	}, access.Account, access.SDK)
	mux.HandleFunc("GET /api/ai/runs/{id}/stream", f.stream)
}

func (f *fakeAPI) stream(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	w.Header().Set("Content-Type", "text/event-stream")
	seq := 0
	send := func(event string, ev ai.StreamEvent) {
		seq++
		data, _ := json.Marshal(ev)
		fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", seq, event, data)
	}
	snapshot := runOf(id)
	send(ai.StreamHello, ai.StreamEvent{Run: &snapshot})
	switch id {
	case "run_gap":
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 0, Text: "Hello "})
	case "run_lost":
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 0, Text: "Hel"})
		send(ai.StreamRestarted, ai.StreamEvent{Attempt: 2})
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 2, Offset: 0, Text: "Hello from the fleet."})
	case "run_evil":
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 0, Text: "red \x1b[31mtext"})
	case "run_fail":
	case "run_hang":
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 0, Text: "so far"})
		_ = http.NewResponseController(w).Flush()
		f.streams <- struct{}{}
		<-r.Context().Done()
		return
	default:
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 0, Text: "Hello "})
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 0, Text: "Hello "}) // a repeat
		send(ai.StreamDelta, ai.StreamEvent{Attempt: 1, Offset: 40, Text: "from the fleet."})
	}
	send(ai.StreamEnd, ai.StreamEvent{Run: &snapshot})
}
