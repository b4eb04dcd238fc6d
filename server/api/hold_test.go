package api_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"interlock.sh/access"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	kit "interlock.sh/internal/testkit/plane"
	"interlock.sh/tasks"
)

// held is an answer that comes in while the test goes on.
type held struct {
	header <-chan *http.Response // nil when the request broke
	text   <-chan string         // all of it, at its end
}

func (w *world) hold(method, path, credential, body string) held {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+credential)
	header, text := make(chan *http.Response, 1), make(chan string, 1)
	go func() {
		resp, err := w.http.Do(req)
		header <- resp
		if err != nil {
			text <- err.Error()
			return
		}
		defer resp.Body.Close() //nolint:errcheck // read only
		all, err := io.ReadAll(resp.Body)
		if err != nil {
			all = append(all, err.Error()...)
		}
		text <- string(all)
	}()
	return held{header, text}
}

// end is what came in until the answer's end.
func (h held) end(t *testing.T, what string) (status int, text string) {
	t.Helper()
	select {
	case text := <-h.text:
		if resp := <-h.header; resp != nil {
			return resp.StatusCode, text
		}
		t.Fatal(what, text)
	case <-time.After(kit.Patience):
		t.Fatal(what, "goes on")
	}
	return 0, ""
}

// A key ends at once, with what is open under it: event streams, parked claims, and answers of /v1.
func TestARevokedKeyEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, task := w.run("hi"), w.task()
	const chat = `{"model":"tiny","messages":[{"role":"user","content":"hi"}]`
	worker, err := w.mine.NewKey(t.Context(), "mine", access.NewKeyRequest{Kind: access.TaskWorker, Label: "registers"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Client(worker.Key).RegisterWorker(t.Context(), tasks.RegisterRequest{
		WorkerID: "w", MaxConcurrent: 1, Handlers: []tasks.Handler{{Type: "demo/other", SchemaVersion: 1, EffectSafety: tasks.Pure}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		kind         access.Kind
		method, path string
		body         string
		open         string // the gauge that counts it
		status       int
		says         string
	}{
		{"a run's stream", access.SDK, "GET", "/api/ai/runs/" + run.ID + "/stream", "", "streams", 200, ""},
		{"a project's hints", access.SDK, "GET", "/api/events", "", "streams", 200, ""},
		{"a task's journal", access.TaskProducer, "GET", "/api/tasks/" + task.ID + "/watch", "", "streams", 200, ""},
		{"a worker's wake-ups", access.TaskWorker, "GET", "/api/workers/events?worker=w", "", "streams", 200, ""},
		{"a claim", access.TaskWorker, "POST", "/api/workers/claim", `{"workerId":"w","max":1,"waitMs":25000}`, "parked_claims", 401, string(fault.Revoked)},
		{"a chat's stream", access.SDK, "POST", "/v1/chat/completions", chat + `,"stream":true}`, "streams", 200, "was revoked"},
		{"a chat", access.SDK, "POST", "/v1/chat/completions", chat + `}`, "", 401, "was revoked"},
	} {
		key, err := w.mine.NewKey(t.Context(), "mine", access.NewKeyRequest{Kind: c.kind, Label: c.name})
		if err != nil {
			t.Fatal(err)
		}
		before := w.live()
		h := w.hold(c.method, c.path, key.Key, c.body)
		kit.Await(t, c.name+" is open", func() bool {
			if c.open == "" {
				return w.live() > before
			}
			return w.gauge("interlock_http_"+c.open) == 1
		})
		if _, err := w.mine.RevokeKey(t.Context(), "mine", key.ID); err != nil {
			t.Fatal(err)
		}
		status, text := h.end(t, c.name)
		if status != c.status || !strings.Contains(text, c.says) || strings.Contains(text, "[DONE]") {
			t.Errorf("%s: %d %s", c.name, status, text)
		}
	}
}

// live is how many tasks have not ended.
func (w *world) live() float64 {
	return w.gauge(`interlock_tasks{state="queued"}`) + w.gauge(`interlock_tasks{state="leased"}`)
}

// A key that is rolled ends like one that is revoked, but for a worker's, which is moved over first.
func TestARolledKeyEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ends := w.hold("GET", "/api/events", w.creds["sdk"], "")
	stays := w.hold("GET", "/api/workers/events?worker=w", w.creds["task-worker"], "")
	kit.Await(t, "the streams", func() bool { return w.gauge("interlock_http_streams") == 2 })
	for _, kind := range []string{"task-worker", "sdk"} {
		if _, err := w.mine.RollKey(t.Context(), "mine", w.keyIDs[kind]); err != nil {
			t.Fatal(err)
		}
	}
	ends.end(t, "the sdk key's stream")
	if got := w.gauge("interlock_http_streams"); got != 1 {
		t.Errorf("%v streams are open", got)
	}
	if _, err := w.mine.RevokeKey(t.Context(), "mine", w.keyIDs["task-worker"]); err != nil {
		t.Fatal(err)
	}
	stays.end(t, "the worker's stream")
}

// A machine that is revoked loses what it holds open, and no other does.
func TestARevokedMachineEndsWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.Enroll(w.group, fleet.RoleClient, "other")
	stays := w.hold("GET", "/api/workers/events", other.Credential, "")
	events := w.hold("GET", "/api/workers/events", w.machine.Credential, "")
	claim := w.hold("POST", "/api/workers/claim", w.machine.Credential, `{"workerId":"`+w.machine.ID+`","max":1,"waitMs":25000}`)
	w.awaitParked(1)
	kit.Await(t, "the streams", func() bool { return w.gauge("interlock_http_streams") == 2 })
	if _, err := w.mine.ActOnMachine(t.Context(), w.machine.ID, client.MachineRevoke); err != nil {
		t.Fatal(err)
	}
	events.end(t, "the machine's stream")
	if status, text := claim.end(t, "the machine's claim"); status < 400 {
		t.Errorf("the claim: %d %s", status, text)
	}
	if got := w.gauge("interlock_http_streams"); got != 1 || len(stays.text) != 0 {
		t.Errorf("%v streams are open", got)
	}
}
