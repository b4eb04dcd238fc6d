package updater

import (
	"context"
	"time"
)

// Services are the programs that run out of the app folder: what an update restarts and is judged by.
type Services interface {
	Subjects(ctx context.Context) ([]Subject, error)
}

// Subject is one service.
type Subject interface {
	// Name tells it from the others, the same one at every pass.
	Name() string
	// Health asks how it is. The error says why it cannot be asked; then it counts as down, and of the answer
	// only Wanted is looked at.
	Health(ctx context.Context) (Health, error)
	// Restart makes the service run what current names, and returns as soon as that is asked: the service
	// may finish the work in hand within the time given. One that does not listen is ended, so that the
	// service manager starts it anew. Where a service cannot be told and left alone, it may also return
	// when that has happened.
	Restart(ctx context.Context, within time.Duration) error
	// Reach asks the service's control plane, from this process and not through the service.
	Reach(ctx context.Context) error
}

// Health is how a service is.
type Health struct {
	Up        bool
	Wanted    bool      // one that is not up is not at rest either: it is being started, or it hangs
	Version   string    // that it runs
	Heartbeat time.Time // newest that the control plane accepted; zero for none
	Children  []string  // what it serves or is loading
	Lost      []string  // what it is meant to serve and neither serves nor loads
	Busy      bool      // it has work in hand
	Why       string    // what is wrong, in its own words
}

// noServices is a folder whose programs nobody runs as a service.
type noServices struct{}

// Subjects are none.
func (noServices) Subjects(context.Context) ([]Subject, error) { return nil, nil }
