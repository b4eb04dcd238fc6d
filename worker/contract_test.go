package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/testkit"
	"interlock.sh/tasks"
	"interlock.sh/worker"
)

// vector is one step of a scenario of testdata/contract/tasks; its README explains the fields.
type vector struct {
	As     string `json:"as"`
	Call   string `json:"call"`
	Body   any    `json:"body"`
	Status int    `json:"status"`
	Answer any    `json:"answer"`
}

// stub answers a worker as a scenario says, and checks what it sends.
type stub struct {
	*plane
	steps    []vector
	captured map[string]any
	bad      []string
}

// stubOf takes the first n steps of a scenario that a worker makes.
func stubOf(t *testing.T, file string, n int) *stub {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testkit.Root(t), "testdata", "contract", "tasks", file))
	if err != nil {
		t.Fatal(err)
	}
	var scenario struct{ Steps []vector }
	if err := json.Unmarshal(text, &scenario); err != nil {
		t.Fatal(err)
	}
	s := &stub{plane: newFake(t), captured: map[string]any{}}
	for _, v := range scenario.Steps {
		if v.As == "worker" && len(s.steps) < n {
			s.steps = append(s.steps, v)
		}
	}
	if len(s.steps) != n {
		t.Fatalf("%s has %d steps of a worker, want %d", file, len(s.steps), n)
	}
	return s
}

func (s *stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body any
	_ = json.NewDecoder(r.Body).Decode(&body)
	call := r.Method + " " + r.URL.Path
	if strings.HasSuffix(call, "/events") {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if strings.HasSuffix(call, "/claim") { // its turn comes, or the worker ends
		for !s.turn(call) {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(time.Millisecond):
			}
		}
	}
	status, answer := http.StatusOK, any(map[string]any{"leaseMs": 30000, "seenMs": 30000, "renewals": []any{}})
	s.note(func() {
		if len(s.steps) == 0 || s.steps[0].Call != call {
			return
		}
		step := s.steps[0]
		s.steps = s.steps[1:]
		if err := s.match("body", step.Body, body); err != nil {
			s.bad = append(s.bad, fmt.Sprintf("%s: %v", call, err))
		}
		status, answer = step.Status, s.fill(step.Answer)
	})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if status != http.StatusNoContent {
		_ = json.NewEncoder(w).Encode(answer)
	}
}

func (s *stub) turn(call string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.steps) > 0 && s.steps[0].Call == call
}

// match compares what was sent with what a scenario sends; more members are allowed.
func (s *stub) match(at string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		members, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s is %v, want an object", at, got)
		}
		for k, v := range want {
			if err := s.match(at+"."+k, v, members[k]); err != nil {
				return err
			}
		}
		return nil
	case []any:
		items, ok := got.([]any)
		if !ok || len(items) != len(want) {
			return fmt.Errorf("%s is %v, want %d items", at, got, len(want))
		}
		for i := range want {
			if err := s.match(fmt.Sprintf("%s[%d]", at, i), want[i], items[i]); err != nil {
				return err
			}
		}
		return nil
	case string:
		if name, ok := strings.CutPrefix(want, "$get "); ok {
			return s.match(at, s.captured[name], got)
		}
	case float64: // a count that is zero may be left out
		if want == 0 && got == nil {
			return nil
		}
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("%s is %v, want %v", at, got, want)
	}
	return nil
}

// fill makes an answer of a pattern: what the server would choose is made up, once for each name.
func (s *stub) fill(pattern any) any {
	switch p := pattern.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, v := range p {
			if v != "$absent" {
				out[k] = s.fill(v)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, v := range p {
			out = append(out, s.fill(v))
		}
		return out
	case string:
		name, set := strings.CutPrefix(p, "$set ")
		if get, ok := strings.CutPrefix(p, "$get "); ok {
			name, set = get, s.captured[get] == nil
		}
		switch {
		case set && strings.HasPrefix(name, "fence"):
			s.captured[name] = float64(len(s.captured) + 1)
		case set:
			s.captured[name] = fmt.Sprintf("%s-%d", name, len(s.captured))
		case name == p && p == "$any":
			return "any"
		case name == p:
			return p
		}
		return s.captured[name]
	}
	return pattern
}

func TestWorkerSpeaksTheContract(t *testing.T) {
	broken := func(err error) worker.HandlerFunc {
		return func(context.Context, *worker.Task) (any, error) { return nil, err }
	}
	for name, c := range map[string]struct {
		file   string
		steps  int
		safety tasks.EffectSafety
		run    func(*stub) worker.HandlerFunc
	}{
		"result with reports on the way": {"lifecycle.json", 6, tasks.Pure, func(s *stub) worker.HandlerFunc {
			return func(_ context.Context, task *worker.Task) (any, error) {
				var in struct{ Name string }
				err := task.Decode(&in)
				s.pass(time.Second, "the renewal", func() bool { return len(s.steps) == 3 })
				task.Progress(50, "half")
				s.until("the progress", func() bool { return len(s.steps) == 2 })
				task.Log("info", "hello")
				return map[string]string{"message": "hello, " + in.Name}, err
			}
		}},
		"retryable failures": {"retry.json", 5, tasks.Pure, func(*stub) worker.HandlerFunc {
			return broken(worker.Retryable(worker.Fail("BROKEN", "it broke")))
		}},
		"unknown outcome": {"unknown-outcome.json", 3, tasks.NonIdempotent, func(*stub) worker.HandlerFunc {
			return broken(worker.Unknown("the payment call timed out"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := stubOf(t, c.file, c.steps)
			srv := httptest.NewServer(s)
			defer srv.Close()
			cl, err := client.New(client.Options{BaseURL: srv.URL, Credential: "key"})
			if err != nil {
				t.Fatal(err)
			}
			w, err := worker.New(cl, worker.Options{WorkerID: "w1", Clock: s.clock, Spool: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Handle("demo/hello", 1, c.safety, c.run(s)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan error, 1)
			go func() { done <- w.Run(ctx) }()
			s.until("every step", func() bool { return len(s.steps) == 0 && w.Stats().Held == 0 })
			cancel()
			s.pass(time.Second, "the end", func() bool { return len(done) == 1 })
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			for _, b := range s.bad {
				t.Error(b)
			}
			if n := w.Stats().Handled; n == 0 {
				t.Error("no report was taken")
			}
		})
	}
}

func TestRetryableKeepsWhatItWraps(t *testing.T) {
	p := newFake(t)
	p.run(worker.Options{}, tasks.Pure, func(context.Context, *worker.Task) (any, error) {
		return nil, fmt.Errorf("call: %w", worker.Retryable(worker.Unknown("sent")))
	})
	p.add("default", 1)
	p.until("the report", func() bool { return len(p.unknowns) == 1 })
	if len(p.fails) != 0 || p.unknowns[0].Reason != "sent" {
		t.Errorf("reported %+v %+v", p.fails, p.unknowns)
	}
	if fault.CodeOf(worker.Retryable(away)) != fault.Unavailable {
		t.Error("the code of a wrapped error is lost")
	}
}
