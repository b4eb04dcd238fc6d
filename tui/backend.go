package tui

import (
	"context"
	"time"

	"interlock.sh/access"
	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fleet"
	"interlock.sh/tasks"
)

// Backend is what the dashboard needs of a control plane. *client.Client is one.
type Backend interface {
	server
	machineBackend
	taskBackend
	runBackend
}

type server interface {
	BaseURL() string
	Project() string
	ServerTimeSkew() time.Duration
	Whoami(ctx context.Context) (access.Whoami, error)
	Follow(ctx context.Context, path, from string, fn func(client.Event) error, opts ...client.CallOption) error
}

type machineBackend interface {
	Groups(ctx context.Context) ([]fleet.Group, error)
	Machines(ctx context.Context) ([]fleet.Machine, error)
	Machine(ctx context.Context, id string) (fleet.MachineDetail, error)
	ActOnMachine(ctx context.Context, id string, action client.MachineAction) (fleet.Machine, error)
}

type taskBackend interface {
	ListTasks(ctx context.Context, f client.TaskFilter) (tasks.List, error)
	Task(ctx context.Context, id string) (tasks.View, error)
	TaskJournal(ctx context.Context, id string, after int64, limit int) (tasks.Journal, error)
	CancelTask(ctx context.Context, id, reason string) (tasks.View, error)
}

type runBackend interface {
	SubmitRun(ctx context.Context, req ai.RunRequest) (ai.Run, error)
	Run(ctx context.Context, id string) (ai.Run, error)
	CancelRun(ctx context.Context, id, reason string) (ai.Run, error)
	FollowRun(ctx context.Context, id string, on func(event string, ev ai.StreamEvent) error) (ai.Run, error)
}

var _ Backend = (*client.Client)(nil)
