// Package agents finds the agents of this machine and talks to them: it lists the enrollments, asks each
// agent on its socket how it is, and carries the owner's wishes to it. It keeps one snapshot, which is
// what the menu and the window show. It decides nothing about a machine and draws nothing.
package agents

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"interlock.sh/agent/enrollment"
	"interlock.sh/agent/localapi"
	"interlock.sh/agent/supervise"
	"interlock.sh/fleet"
	"interlock.sh/fleet/schedule"
	"interlock.sh/internal/clock"
	"interlock.sh/tray"
)

// Door is the local API of one agent.
type Door interface {
	Status(ctx context.Context) (localapi.Status, error)
	SetAvailability(ctx context.Context, a schedule.Availability) (localapi.Status, error)
	Pause(ctx context.Context, d time.Duration) (localapi.Status, error)
	SetOwner(ctx context.Context, mode fleet.Mode) (localapi.Status, error)
	Logs(ctx context.Context, deployment string, lines int) (localapi.Logs, error)
}

const (
	gently   = 15 * time.Second // between two looks while nobody looks
	eagerly  = 2 * time.Second  // while the menu or the window is open
	settling = 30 * time.Second // how long what a wish sets off is followed: a drain, a model that loads
	answerIn = 3 * time.Second  // an agent answers from memory; one that does not is silent
)

// Watcher keeps the snapshot of one home.
type Watcher struct {
	home  enrollment.Home
	clock clock.Clock
	dial  func(enrollment.Enrollment, string) Door

	changed chan struct{}
	kick    chan struct{}

	mu    sync.Mutex
	doors map[string]Door // by socket: a client keeps its connection
	snap  tray.Snapshot
	wrote map[tray.Key]int // wishes so far: an answer that was asked for before one is stale
	eager time.Time        // until when somebody looks
}

// New watches a home with the real local API.
func New(home enrollment.Home, c clock.Clock) *Watcher {
	return NewWith(home, c, func(e enrollment.Enrollment, socket string) Door {
		return localapi.DialRunning(socket, func() bool { _, runs := supervise.Recorded(e.PidFile()); return runs })
	})
}

// NewWith watches a home with another way to its agents: to that of an enrollment, at its socket.
func NewWith(home enrollment.Home, c clock.Clock, dial func(e enrollment.Enrollment, socket string) Door) *Watcher {
	return &Watcher{
		home: home, clock: c, dial: dial,
		changed: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		doors: map[string]Door{}, wrote: map[tray.Key]int{},
	}
}

// Run looks until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-w.kick:
		case <-w.clock.After(w.pause()):
		}
	}
}

func (w *Watcher) pause() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clock.Now().Before(w.eager) {
		return eagerly
	}
	return gently
}

// Changed gets a value after the snapshot was renewed; several renewals may be one value.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Snapshot is what is known now. It is the caller's own.
func (w *Watcher) Snapshot() tray.Snapshot {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.snap
	s.Agents, s.Broken = slices.Clone(s.Agents), slices.Clone(s.Broken)
	return s
}

// Eager looks at once, and often for the next d: somebody looks at what is shown.
func (w *Watcher) Eager(d time.Duration) {
	w.mu.Lock()
	if until := w.clock.Now().Add(d); until.After(w.eager) {
		w.eager = until
	}
	w.mu.Unlock()
	signal(w.kick)
}

// look renews the whole snapshot. Each agent is shown as soon as it has answered.
func (w *Watcher) look(ctx context.Context) {
	found, broken := discover(w.home)
	w.mu.Lock()
	before := w.snap
	w.snap = tray.Snapshot{Loaded: true, Broken: broken}
	live := map[string]bool{}
	for _, f := range found {
		a := f.agent
		if known, ok := before.Find(a.Key); ok && a.Reach == tray.Asking {
			a.Reach, a.Why, a.Status = known.Reach, known.Why, known.Status
		}
		w.snap.Agents = append(w.snap.Agents, a)
		live[f.socket] = true
	}
	for socket := range w.doors {
		if !live[socket] {
			delete(w.doors, socket)
		}
	}
	w.mu.Unlock()
	signal(w.changed)
	var all sync.WaitGroup
	for _, f := range found {
		if f.agent.Reach == tray.Asking {
			all.Go(func() { w.ask(ctx, f) })
		}
	}
	all.Wait()
}

func (w *Watcher) ask(ctx context.Context, f found) {
	w.mu.Lock()
	asked := w.wrote[f.agent.Key]
	door := w.door(f.agent.Key, f.socket)
	w.mu.Unlock()
	bound, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	st, err := door.Status(bound)
	if ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrote[f.agent.Key] == asked {
		w.put(f.agent.Key, st, err)
	}
}

// door is the client of an agent's socket; the lock is held.
func (w *Watcher) door(k tray.Key, socket string) Door {
	d, ok := w.doors[socket]
	if !ok {
		d = w.dial(enrollment.Enrollment{Home: w.home, Group: k.Group, Role: k.Role}, socket)
		w.doors[socket] = d
	}
	return d
}

// put keeps what an agent said; the lock is held.
func (w *Watcher) put(k tray.Key, st localapi.Status, err error) {
	for i := range w.snap.Agents {
		if a := &w.snap.Agents[i]; a.Key == k {
			a.Status = st
			if a.Reach, a.Why = reachOf(err); err != nil {
				a.Status = localapi.Status{}
			}
			signal(w.changed)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// byName orders what is shown, whatever the folders are called.
func byName(x, y found) int {
	if c := strings.Compare(x.agent.GroupName, y.agent.GroupName); c != 0 {
		return c
	}
	return strings.Compare(x.agent.Key.String(), y.agent.Key.String())
}
