package tuitest

import (
	"context"
	"sync"
	"time"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Backend is a control plane in memory. Its fields may be changed between calls, under Lock.
type Backend struct {
	sync.Mutex
	Err     error // every call fails with it
	Fleet   []fleet.Machine
	Group   []fleet.Group
	List    tasks.List
	Log     tasks.Journal
	Samples []fleet.Sample
	Events  []ai.StreamEvent // of a run, deltas and restarts
	Done    ai.Run           // how a run ends
	RunErr  error            // SubmitRun fails with it
	Acts    []string         // what was done, in order
	Reads   int              // calls that read
	Hints   chan string      // kinds of hints that Follow hands on
}

// New is a backend over the made-up fleet.
func New() *Backend {
	b := &Backend{
		Fleet: Machines(), List: Tasks(), Samples: Samples(), Hints: make(chan string),
		Group: []fleet.Group{{ID: "qwen-coder-4tq2zx", Name: "qwen-coder", Project: "demo", Machines: 7, Releases: 2}},
	}
	b.Log = Journal(b.List.Tasks[0].CreatedAt)
	b.List.Tasks[0].Cursor = b.Log.Cursor
	for i, s := range []string{"A lease is a promise with a clock: ", "whoever holds it may work until the time runs out, ", "and after that its word no longer counts."} {
		b.Events = append(b.Events, ai.StreamEvent{Attempt: 1, Offset: int64(i * 90), Text: s})
	}
	answer := "A lease is a promise with a clock: whoever holds it may work until the time runs out, and after that its word no longer counts."
	b.Done = ai.Run{
		ID: "run_71c0", TaskID: "t_00009c41", State: tasks.Succeeded, Model: "qwen3-6-35b-a3b", Deployment: "qwen3-6-35b-a3b", Answer: &answer,
		FinishReason: "stop", Usage: &ai.Usage{PromptTokens: 14, CompletionTokens: 31, TotalTokens: 45}, WorkerID: "m_01studio", Machine: "studio-mac",
		Attempt: 1, TokensPerSecond: ptr(57.05), DurationMs: 812,
	}
	return b
}

func (b *Backend) read() error {
	b.Reads++
	return b.Err
}

func (b *Backend) did(what string) error {
	if b.Err == nil {
		b.Acts = append(b.Acts, what)
	}
	return b.Err
}

// BaseURL is a made-up address.
func (b *Backend) BaseURL() string { return "https://fleet.example.com" }

// Project is the made-up project.
func (b *Backend) Project() string { return "demo" }

// ServerTimeSkew is none.
func (b *Backend) ServerTimeSkew() time.Duration { return 0 }

// Whoami is an account.
func (b *Backend) Whoami(context.Context) (access.Whoami, error) {
	b.Lock()
	defer b.Unlock()
	return access.Whoami{Kind: access.Account, Account: "mia", Projects: []access.Project{{ID: "demo"}}, Version: "0.1.0"}, b.read()
}

// Follow hands on the kinds that are put into Hints.
func (b *Backend) Follow(ctx context.Context, _, _ string, fn func(client.Event) error, _ ...client.CallOption) error {
	for {
		select {
		case kind := <-b.Hints:
			if err := fn(client.Event{Event: kind, Data: []byte("{}")}); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Groups lists Group.
func (b *Backend) Groups(context.Context) ([]fleet.Group, error) {
	b.Lock()
	defer b.Unlock()
	return b.Group, b.read()
}

// Machines lists Fleet, copied as if decoded anew.
func (b *Backend) Machines(context.Context) ([]fleet.Machine, error) {
	b.Lock()
	defer b.Unlock()
	return append([]fleet.Machine(nil), b.Fleet...), b.read()
}

// Machine finds one of Fleet.
func (b *Backend) Machine(_ context.Context, id string) (fleet.MachineDetail, error) {
	b.Lock()
	defer b.Unlock()
	for _, m := range b.Fleet {
		if m.ID == id {
			return fleet.MachineDetail{Machine: m, Samples: b.Samples}, b.read()
		}
	}
	return fleet.MachineDetail{}, fault.New(fault.NotFound, "no machine %s", id)
}

// ActOnMachine notes the action.
func (b *Backend) ActOnMachine(_ context.Context, id string, action client.MachineAction) (fleet.Machine, error) {
	b.Lock()
	defer b.Unlock()
	return fleet.Machine{ID: id, State: fleet.State{Kind: fleet.StateDraining}}, b.did(string(action) + " " + id)
}

// ListTasks filters List.
func (b *Backend) ListTasks(_ context.Context, f client.TaskFilter) (tasks.List, error) {
	b.Lock()
	defer b.Unlock()
	out := tasks.List{Next: b.List.Next}
	for _, v := range b.List.Tasks {
		if (f.State == "" || v.State == f.State) && (f.Type == "" || v.Type == f.Type) {
			out.Tasks = append(out.Tasks, v)
		}
	}
	return out, b.read()
}

// Task finds one of List.
func (b *Backend) Task(_ context.Context, id string) (tasks.View, error) {
	b.Lock()
	defer b.Unlock()
	for _, v := range b.List.Tasks {
		if v.ID == id {
			return v, b.read()
		}
	}
	return tasks.View{}, fault.New(fault.NotFound, "no task %s", id)
}

// TaskJournal pages through the one journal.
func (b *Backend) TaskJournal(_ context.Context, _ string, after int64, limit int) (tasks.Journal, error) {
	b.Lock()
	defer b.Unlock()
	all := b.Log.Entries
	from := min(int(after), len(all))
	to := min(from+limit, len(all))
	return tasks.Journal{Entries: all[from:to], Cursor: int64(to), State: tasks.Running}, b.read()
}

// CancelTask notes the cancel.
func (b *Backend) CancelTask(_ context.Context, id, _ string) (tasks.View, error) {
	b.Lock()
	defer b.Unlock()
	return tasks.View{ID: id, State: tasks.Running, CancelRequested: true}, b.did("cancel " + id)
}

// SubmitRun starts the one run.
func (b *Backend) SubmitRun(_ context.Context, req ai.RunRequest) (ai.Run, error) {
	b.Lock()
	defer b.Unlock()
	if b.RunErr != nil {
		return ai.Run{}, b.RunErr
	}
	return ai.Run{ID: b.Done.ID, State: tasks.Queued, Model: req.Model}, b.did("ask " + req.Model + ": " + req.Prompt)
}

// Run is the run while it is held.
func (b *Backend) Run(context.Context, string) (ai.Run, error) {
	b.Lock()
	defer b.Unlock()
	r := b.Done
	r.State, r.Answer, r.Usage, r.TokensPerSecond = tasks.Running, nil, nil, nil
	return r, b.read()
}

// CancelRun notes the cancel.
func (b *Backend) CancelRun(_ context.Context, id, _ string) (ai.Run, error) {
	b.Lock()
	defer b.Unlock()
	return b.Done, b.did("cancel " + id)
}

// FollowRun plays Events and ends with Done.
func (b *Backend) FollowRun(_ context.Context, _ string, on func(string, ai.StreamEvent) error) (ai.Run, error) {
	for _, ev := range b.Events {
		name := ai.StreamDelta
		if ev.Text == "" {
			name = ai.StreamRestarted
		}
		if err := on(name, ev); err != nil {
			return ai.Run{}, err
		}
	}
	b.Lock()
	defer b.Unlock()
	return b.Done, b.read()
}
