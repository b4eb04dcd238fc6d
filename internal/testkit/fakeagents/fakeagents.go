// Package fakeagents plays the agents of one machine for tests of what talks to them: enrollment folders,
// and on each socket a local API that keeps the owner's wishes in memory. It follows the wire of
// agent/localapi and runs no model.
package fakeagents

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
)

// Agent plays one agent.
type Agent struct {
	Older bool // from before the owner's hours
	Lines []string

	mu      sync.Mutex
	st      localapi.Status
	working fleet.Heartbeat // what it reports while it may work
	changes int
	changed chan struct{} // closed at the next change
	srv     *http.Server
	ended   chan struct{}
}

// Ready is an agent that serves a model.
func Ready(group, alias string, tokensPerSecond float64) *Agent {
	a := &Agent{changed: make(chan struct{}), Lines: []string{"agent started", "model loaded"}}
	a.st = localapi.Status{
		Group: group, GroupName: group, Role: fleet.RoleClient, Origin: "http://127.0.0.1:8090", Version: "0.4.0", Pid: os.Getpid(),
		Owner: fleet.Active, Server: fleet.Active, Wish: localapi.Wish{Availability: schedule.Availability{Mode: schedule.Always}},
	}
	mem := int64(2 << 30)
	a.working = fleet.Heartbeat{Deployments: []fleet.DeploymentReport{{
		ID: "d1", Alias: alias, State: fleet.State{Kind: fleet.StateReady}, Slots: 4, Busy: 1,
		TokensPerSecond: &tokensPerSecond, MemoryBytes: &mem, ContextLength: 8192,
	}}}
	a.settle()
	return a
}

// Change edits what the agent says; the wish decides again what follows from it.
func (a *Agent) Change(edit func(*localapi.Status, *fleet.Heartbeat)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	edit(&a.st, &a.working)
	a.settle()
}

// Group is the agent's group.
func (a *Agent) Group() string { return a.st.Group }

// Wish is what the owner said last, and how often anything was said.
func (a *Agent) Wish() (localapi.Wish, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.st.Wish, a.changes
}

// Changed is closed when the owner says something next.
func (a *Agent) Changed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// settle makes the state follow from the wish; the lock is held, or nobody else has the agent yet.
func (a *Agent) settle() {
	v := a.st.Wish.At(time.Now(), a.st.Wish.Hold, schedule.Facts{})
	a.st.Hours = fleet.Hours{Mode: string(a.st.Wish.Mode), Open: v.Open, Why: v.Why, Next: v.Next}
	a.st.Report = a.working
	a.st.State = fleet.Summary(a.working.Deployments)
	if !v.Open {
		a.st.Report.Deployments = nil
		a.st.State = fleet.State{Kind: fleet.StatePaused, Detail: fleet.PausedByOwner}
		if v.Why != "" {
			a.st.State.Detail += " " + v.Why
		}
	}
	a.st.Words = a.st.State.String()
	if a.Older {
		a.st.Hours, a.st.Wish.Mode = fleet.Hours{}, ""
	}
}

// ServeHTTP is the agent's local API.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	call := r.Method + " " + r.URL.Path
	switch {
	case call == "GET /status":
	case call == "GET /logs":
		_ = json.NewEncoder(w).Encode(localapi.Logs{Lines: a.Lines})
		return
	case call == "POST /resume":
		a.st.Owner, a.st.Wish.Hold = fleet.Active, nil
		if a.st.Wish.Mode == schedule.Paused {
			a.st.Wish.Mode = schedule.Always
		}
		a.said()
	case call == "POST /pause":
		a.st.Owner = fleet.Paused
		hold := &schedule.Hold{}
		if n, err := strconv.Atoi(r.URL.Query().Get("minutes")); err == nil && !a.Older {
			until := time.Now().Add(time.Duration(n) * time.Minute)
			hold.Until = &until
		}
		a.st.Wish.Hold = hold
		a.said()
	case call == "PUT /availability" && !a.Older:
		var want schedule.Availability
		if err := json.NewDecoder(r.Body).Decode(&want); err != nil || want.Check() != nil {
			refuse(w, fault.New(fault.Invalid, "no availability"))
			return
		}
		a.st.Wish.Availability = want
		a.said()
	default:
		refuse(w, fault.New(fault.NotFound, "the agent has no %s %s", r.Method, r.URL.Path))
		return
	}
	_ = json.NewEncoder(w).Encode(a.st)
}

func (a *Agent) said() {
	a.settle()
	a.changes++
	close(a.changed)
	a.changed = make(chan struct{})
}

func refuse(w http.ResponseWriter, e *fault.Error) {
	w.WriteHeader(e.Code.Status())
	_ = json.NewEncoder(w).Encode(map[string]any{"error": e})
}

// Start enrolls the agent in a home and serves it there.
func (a *Agent) Start(home enrollment.Home) error {
	if err := a.enroll(home); err != nil {
		return err
	}
	socket, err := home.Socket(a.st.Group, a.st.Role)
	if err != nil {
		return err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return fmt.Errorf("open socket: %w", err)
	}
	a.srv, a.ended = &http.Server{Handler: a, ReadHeaderTimeout: time.Second}, make(chan struct{})
	go func() { defer close(a.ended); _ = a.srv.Serve(l) }()
	return nil
}

// Stop ends the agent; its enrollment stays.
func (a *Agent) Stop() error {
	err := a.srv.Close()
	<-a.ended
	return err
}

func (a *Agent) enroll(home enrollment.Home) error {
	role := home.Role(a.st.Group, a.st.Role)
	if err := os.MkdirAll(role, 0o700); err != nil {
		return err
	}
	group, err := json.Marshal(map[string]any{"schema": 1, "modelId": a.st.Group, "name": a.st.GroupName, "project": "demo", "origin": a.st.Origin})
	if err != nil {
		return err
	}
	for path, text := range map[string]string{
		filepath.Join(home.Group(a.st.Group), "group.json"): string(group),
		filepath.Join(role, "role.json"):                    fmt.Sprintf(`{"schema":1,"role":%q,"runtime":"llama.cpp","machine":"m1","name":"garage"}`, a.st.Role),
		filepath.Join(role, "worker.env"):                   "INTERLOCK_MACHINE_CREDENTIAL=none\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
