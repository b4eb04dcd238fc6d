package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"interlock.sh/internal/testkit"
	"interlock.sh/tasks"
)

// events opens an event stream and gives its lines that say something.
func (p *plane) events(t *testing.T, as, path, lastID string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+p.keys[as])
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Fatalf("%s: %s %v", path, resp.Status, resp.Header)
	}
	lines := make(chan string, 64)
	go func() {
		defer close(lines)
		defer resp.Body.Close()
		for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
			if sc.Text() != "" {
				lines <- sc.Text()
			}
		}
	}()
	return lines
}

func next(t *testing.T, lines <-chan string, want string) {
	t.Helper()
	select {
	case got, open := <-lines:
		if !open || !strings.HasPrefix(got, want) {
			t.Fatalf("line %q (open %v), want %q", got, open, want)
		}
	case <-time.After(testkit.Patience):
		t.Fatalf("no line within 20 s, want %q", want)
	}
}

func (p *plane) submit(t *testing.T) tasks.View {
	t.Helper()
	var v tasks.View
	p.must(t, "producer", "POST", "/api/tasks", tasks.SubmitRequest{Type: "demo/hello", SchemaVersion: 1}, &v)
	return v
}

func (p *plane) registerWorker(t *testing.T) {
	t.Helper()
	p.must(t, "worker", "POST", "/api/workers/register", tasks.RegisterRequest{WorkerID: "w1", MaxConcurrent: 1,
		Handlers: []tasks.Handler{{Type: "demo/hello", SchemaVersion: 1, EffectSafety: tasks.Pure}}}, nil)
}

func TestWatchATask(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.registerWorker(t)
	v := p.submit(t)
	lines := p.events(t, "producer", "/api/tasks/"+v.ID+"/watch", "")
	next(t, lines, ":")
	next(t, lines, "id: 1")
	next(t, lines, "event: submitted")
	next(t, lines, `data: {"seq":1,`)
	var got tasks.ClaimResponse
	p.must(t, "worker", "POST", "/api/workers/claim", tasks.ClaimRequest{WorkerID: "w1", Max: 1}, &got)
	next(t, lines, "id: 2")
	next(t, lines, "event: leased")
	next(t, lines, "data: ")
	p.clock.AwaitWaiters(3) // it waited once before the claim, and waits again; so does the look at its key
	p.clock.Advance(25 * time.Second)
	next(t, lines, ":") // a comment keeps the connection alive
	p.must(t, "worker", "POST", "/api/workers/complete", tasks.CompleteRequest{Completions: []tasks.Completion{{Ref: got.Attempts[0].Ref}}}, nil)
	next(t, lines, "id: 3")
	next(t, lines, "event: succeeded")
	next(t, lines, "data: ")
	if line, open := <-lines; open {
		t.Fatalf("the stream goes on after the end: %q", line)
	}
	again := p.events(t, "producer", "/api/tasks/"+v.ID+"/watch", "2")
	next(t, again, ":")
	next(t, again, "id: 3")
	status, text, err := p.send("producer", "GET", "/api/tasks/tsk_none/watch", nil)
	if err != nil || status != http.StatusNotFound {
		t.Fatalf("%d %s %v", status, text, err)
	}
}

func TestAWorkerIsWokenByItsEvents(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.registerWorker(t)
	lines := p.events(t, "worker", "/api/workers/events?worker=w1", "")
	next(t, lines, ":")
	p.submit(t)
	next(t, lines, "event: work")
}

// A control plane that goes down answers parked claims at once, with nothing, and leases nothing more.
func TestParkedClaimsEndWhenTheControlPlaneCloses(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	p.registerWorker(t)
	before := p.clock.Waiters()
	answer := make(chan string, 1)
	go func() {
		body, _ := json.Marshal(tasks.ClaimRequest{WorkerID: "w1", Max: 1, WaitMs: 25_000})
		status, text, err := p.send("worker", "POST", "/api/workers/claim", body)
		answer <- fmt.Sprint(status, " ", strings.TrimSpace(string(text)), " ", err)
	}()
	p.clock.AwaitWaiters(before + 3) // its time, its look for work, the look at its key
	p.api.Close()
	if got := <-answer; got != `200 {"attempts":[]} <nil>` {
		t.Fatalf("answer %s", got)
	}
}
