package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/tasks"
	"interlock.sh/tui/tuitest"
)

// fleetServer speaks the control plane's API over a made-up fleet.
type fleetServer struct {
	*httptest.Server
	backend *tuitest.Backend
	lists   atomic.Int64 // how often the machines were listed
	hints   chan string
}

func newFleetServer(t *testing.T) *fleetServer {
	t.Helper()
	s := &fleetServer{backend: tuitest.New(), hints: make(chan string)}
	mux := http.NewServeMux()
	get := func(pattern string, answer func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			v, err := answer(r)
			w.Header().Set("Content-Type", "application/json")
			if err != nil {
				f := fault.Of(err)
				w.WriteHeader(f.Code.Status())
				v = map[string]any{"error": f}
			}
			_ = json.NewEncoder(w).Encode(v)
		})
	}
	b := s.backend
	get("GET /api/whoami", func(r *http.Request) (any, error) { return b.Whoami(r.Context()) })
	get("GET /api/models/groups", func(r *http.Request) (any, error) {
		v, err := b.Groups(r.Context())
		return map[string]any{"groups": v}, err
	})
	get("GET /api/machines", func(r *http.Request) (any, error) {
		s.lists.Add(1)
		v, err := b.Machines(r.Context())
		return map[string]any{"machines": v}, err
	})
	get("GET /api/machines/{id}", func(r *http.Request) (any, error) { return b.Machine(r.Context(), r.PathValue("id")) })
	get("POST /api/machines/{id}/{verb}", func(r *http.Request) (any, error) {
		return b.ActOnMachine(r.Context(), r.PathValue("id"), client.MachineAction(r.PathValue("verb")))
	})
	get("GET /api/tasks", func(r *http.Request) (any, error) {
		return b.ListTasks(r.Context(), client.TaskFilter{State: tasks.State(r.URL.Query().Get("state")), Type: r.URL.Query().Get("type")})
	})
	get("GET /api/tasks/{id}", func(r *http.Request) (any, error) { return b.Task(r.Context(), r.PathValue("id")) })
	get("GET /api/tasks/{id}/journal", func(r *http.Request) (any, error) {
		after, _ := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64) // absent is from the beginning
		return b.TaskJournal(r.Context(), r.PathValue("id"), after, 500)
	})
	get("POST /api/ai/runs", func(r *http.Request) (any, error) {
		var req ai.RunRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			return nil, err
		}
		return b.SubmitRun(r.Context(), req)
	})
	get("GET /api/ai/runs/{id}", func(*http.Request) (any, error) { return b.Done, nil })
	mux.HandleFunc("GET /api/ai/runs/{id}/stream", func(w http.ResponseWriter, _ *http.Request) {
		for _, ev := range b.Events {
			event(w, ai.StreamDelta, ev)
		}
		event(w, ai.StreamEnd, ai.StreamEvent{Run: &b.Done})
	})
	mux.HandleFunc("GET /api/events", func(w http.ResponseWriter, r *http.Request) {
		event(w, "machines", struct{}{})
		for {
			select {
			case kind := <-s.hints:
				event(w, kind, struct{}{})
			case <-r.Context().Done():
				return
			}
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.stop)
	return s
}

// stop cuts every connection, streams included.
func (s *fleetServer) stop() {
	s.CloseClientConnections()
	s.Close()
}

func (s *fleetServer) acts() []string {
	s.backend.Lock()
	defer s.backend.Unlock()
	return append([]string(nil), s.backend.Acts...)
}

func event(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/event-stream")
	b, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(w, "event: %s\ndata: %s\n\n", name, b)
	w.(http.Flusher).Flush() //nolint:errcheck // the test server's writer is one
}
