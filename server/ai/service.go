// Package serverai admits AI runs, places them on machines of the fleet, reads them back, streams their
// answers and writes the one usage event of each. It owns the tables of the ai migration. A run stands
// on a durable task of type ai/chat@1; package servertasks moves it. It never authorizes.
package serverai

import (
	"context"
	"time"

	"interlock.sh/ai"
	"interlock.sh/fleet"
	"interlock.sh/server/files"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/server/tasks"
	"interlock.sh/tasks"
)

// Fleet is what placement needs of the fleet.
type Fleet interface {
	Resolve(ctx context.Context, project, model string) (fleet.Deployment, bool, error)
	Machines(ctx context.Context, project string) ([]fleet.Machine, error)
	Groups(ctx context.Context, project string) ([]fleet.Group, error)
	Status(ctx context.Context, project, group string) (fleet.Status, error)
}

// Service is the AI runs of one control plane.
type Service struct {
	db    *store.DB
	tasks *servertasks.Service
	fleet Fleet
	files *files.Store
	hints *hints.Hub
}

// New is a service over its parts. It hooks itself into the commit that ends a task.
func New(db *store.DB, t *servertasks.Service, f Fleet, blobs *files.Store, h *hints.Hub) *Service {
	s := &Service{db: db, tasks: t, fleet: f, files: blobs, hints: h}
	t.OnEnd(s.meter)
	return s
}

func at(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// isRun reports whether a task is that of an AI run.
func isRun(v tasks.View) bool { return v.Type == ai.ChatType && v.SchemaVersion == ai.ChatVersion }
