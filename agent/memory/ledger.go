// Package memory is the ledger of one machine: which model servers, of all groups, were promised how
// much memory. A model is started only when it fits beside what was promised before. It measures
// nothing by itself and starts nothing.
package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
)

// Free is the memory of the machine, in bytes.
type Free struct {
	Total     int64
	Available int64 // without swapping; memory that a loaded model took is not in it any more
	GPU       int64 // free on accelerators that the model server can use; 0 without any
}

// Ledger is one file a machine, shared by its agents through a lock.
type Ledger struct {
	path  string
	alive func(pid int, started string) bool
}

// Open uses the file at path. alive says whether the agent with that pid and start time still runs:
// the promises of one that is gone are void.
func Open(path string, alive func(pid int, started string) bool) *Ledger {
	return &Ledger{path: path, alive: alive}
}

// Promise is memory promised to one model server.
type Promise struct {
	Deployment string `json:"deployment"`
	Group      string `json:"group"`
	Bytes      int64  `json:"bytes"`
	Loaded     bool   `json:"loaded"` // it has taken its memory: Free.Available knows
	Pid        int    `json:"pid"`    // of the agent
	Started    string `json:"started"`
}

// lockPoll is how often a taken lock is tried again; it is held for milliseconds.
const lockPoll = 20 * time.Millisecond

// Reserve promises memory, or refuses with the numbers: fault.Conflict with needs and has in Details.
// A promise of the same agent and deployment is replaced.
func (l *Ledger) Reserve(ctx context.Context, p Promise, free Free) error {
	return l.change(ctx, func(all []Promise) ([]Promise, error) {
		all = without(all, p)
		var loading, promised int64
		for _, q := range all {
			promised += q.Bytes
			if !q.Loaded {
				loading += q.Bytes
			}
		}
		has := free.Available - loading + free.GPU
		if free.Total > 0 {
			// Weights that are mapped from a file count as available although they are in use.
			has = min(has, free.Total+free.GPU-promised)
		}
		if p.Bytes > has {
			return nil, fault.New(fault.Conflict, "memory: the model needs %s and %s is free for it", gib(p.Bytes), gib(max(has, 0))).
				With("needs", p.Bytes).With("has", max(has, 0)).
				WithHint("use a smaller model, less context or fewer slots, or stop another model")
		}
		return append(all, p), nil
	})
}

// Loaded notes that a model server has taken its memory.
func (l *Ledger) Loaded(ctx context.Context, p Promise) error {
	return l.change(ctx, func(all []Promise) ([]Promise, error) {
		for i := range all {
			if same(all[i], p) {
				all[i].Loaded = true
			}
		}
		return all, nil
	})
}

// Release gives a promise back.
func (l *Ledger) Release(ctx context.Context, p Promise) error {
	return l.change(ctx, func(all []Promise) ([]Promise, error) { return without(all, p), nil })
}

func same(a, b Promise) bool {
	return a.Deployment == b.Deployment && a.Group == b.Group && a.Pid == b.Pid && a.Started == b.Started
}

func without(all []Promise, p Promise) []Promise {
	out := []Promise{}
	for _, q := range all {
		if !same(q, p) {
			out = append(out, q)
		}
	}
	return out
}

// change reads the live promises under the lock and replaces them.
func (l *Ledger) change(ctx context.Context, fn func([]Promise) ([]Promise, error)) error {
	if err := os.MkdirAll(filepath.Dir(l.path), 0o700); err != nil {
		return fmt.Errorf("open memory ledger: %w", err)
	}
	lock := flock.New(l.path + ".lock")
	if ok, err := lock.TryLockContext(ctx, lockPoll); err != nil || !ok {
		return fmt.Errorf("lock memory ledger: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer lock.Unlock() //nolint:errcheck // closing the file releases it as well
	var all []Promise
	b, err := os.ReadFile(l.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read memory ledger: %w", err)
	}
	if err == nil && json.Unmarshal(b, &all) != nil {
		all = nil // a damaged ledger promises nothing: it is made again by those that run
	}
	live := []Promise{}
	for _, p := range all {
		if l.alive(p.Pid, p.Started) {
			live = append(live, p)
		}
	}
	next, err := fn(live)
	if err != nil {
		return err
	}
	if b, err = json.Marshal(next); err != nil {
		return err
	}
	return atomicfile.Write(l.path, b, 0o600)
}

func gib(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }
