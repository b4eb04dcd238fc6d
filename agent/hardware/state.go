package hardware

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"interlock.sh/agent/supervise"
	"interlock.sh/fault"
	"interlock.sh/internal/atomicfile"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/retry"
)

// State is what the worker of a home says of itself.
type State struct {
	Running  bool               `json:"running"`
	Process  supervise.Identity `json:"process"`
	Version  string             `json:"version"`
	Worker   string             `json:"worker"`
	Alias    string             `json:"alias"`
	Server   string             `json:"server,omitempty" doc:"that the operator named; absent: one of our own"`
	Ready    bool               `json:"ready"`
	Words    string             `json:"words"`
	Stuck    bool               `json:"stuck,omitempty" doc:"it does not get ready by itself"`
	Slots    int                `json:"slots,omitempty"`
	ModelPid int                `json:"modelPid,omitempty"`
	Since    time.Time          `json:"since"`
	Seen     *time.Time         `json:"seen,omitempty" doc:"when the control plane last took its registration"`
	Busy     int                `json:"busy" doc:"answers in hand then"`
}

// stateFile is the State on disk, for whoever asks.
type stateFile struct {
	path  string
	clock clock.Clock

	mu  sync.Mutex
	now State
}

func statePath(h Home) string { return filepath.Join(h.run(), "state.json") }

func openState(h Home, version string, s Settings, c clock.Clock) (*stateFile, error) {
	me, err := supervise.Self()
	if err != nil {
		return nil, err
	}
	f := &stateFile{path: statePath(h), clock: c, now: State{
		Running: true, Process: me, Version: version, Worker: s.Worker, Alias: s.Alias, Server: s.Server, Words: "starting", Since: c.Now().UTC(),
	}}
	return f, f.write()
}

// set notes how the model server stands, and says whether that is another state.
func (f *stateFile) set(st standing) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now.Words == st.words && f.now.Ready == st.ready && f.now.ModelPid == st.pid {
		return false
	}
	f.now.Words, f.now.Ready, f.now.Stuck, f.now.Slots, f.now.ModelPid, f.now.Since = st.words, st.ready, st.stuck, st.slots, st.pid, f.clock.Now().UTC()
	_ = f.write() // the worker works without it; a full disk is seen elsewhere
	return true
}

func (f *stateFile) seen(busy int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.clock.Now().UTC()
	f.now.Seen, f.now.Busy = &at, busy
	_ = f.write() // as above
}

func (f *stateFile) end(words string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.now.Running, f.now.Ready, f.now.Stuck, f.now.Words, f.now.ModelPid, f.now.Since = false, false, false, words, 0, f.clock.Now().UTC()
	_ = f.write() // as above
}

func (f *stateFile) write() error {
	b, err := json.MarshalIndent(f.now, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, append(b, '\n'), 0o600)
}

// lock is held by the worker that runs. It tells who is alive also where a pid and its start time do not:
// under some containers a service sees another boot's id than a terminal does.
func (h Home) lock() *flock.Flock { return flock.New(filepath.Join(h.run(), "worker.lock")) }

// take makes this process the worker of the home. Whoever only looks holds the lock for a moment, so it is
// tried for a while.
func (h Home) take(ctx context.Context) (*flock.Flock, error) {
	lock := h.lock()
	short, cancel := context.WithTimeout(ctx, lockWithin)
	defer cancel()
	ok, err := lock.TryLockContext(short, lockEvery)
	if err != nil && short.Err() == nil {
		return nil, fmt.Errorf("lock %s: %w", h.run(), err)
	}
	if !ok {
		return nil, fault.New(fault.Conflict, "the worker of %s runs already", h).WithHint("look at it: interlock hardware status")
	}
	// What the worker before left must not be taken for this one's.
	if err := os.Remove(statePath(h)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("forget the worker before: %w", err), lock.Unlock())
	}
	return lock, nil
}

const (
	lockWithin = time.Second
	lockEvery  = 20 * time.Millisecond
)

// taken reports whether a worker runs.
func (h Home) taken() (bool, error) {
	if _, err := os.Stat(h.run()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	lock := h.lock()
	ok, err := lock.TryRLock()
	if err != nil {
		return false, fmt.Errorf("look for the worker: %w", err)
	}
	if ok {
		return false, lock.Unlock()
	}
	return true, nil
}

// State reads what the worker says of itself. One that was killed says it runs: its lock tells.
func (h Home) State() (State, error) {
	var st State
	alive, err := h.taken() // before the file is read: a worker that just began has removed the old one
	if err != nil {
		return st, err
	}
	b, err := os.ReadFile(statePath(h))
	if errors.Is(err, fs.ErrNotExist) {
		return State{Words: "not started yet"}, nil
	}
	if err != nil {
		return st, fmt.Errorf("read the worker's state: %w", err)
	}
	if err := json.Unmarshal(b, &st); err != nil {
		return State{Words: "its state file is damaged"}, nil // the next start writes it anew
	}
	if st.Running && !alive {
		st.Running, st.Ready, st.ModelPid, st.Words = false, false, 0, "ended without a word: see "+h.Log()
	}
	return st, nil
}

// Stop ends the worker after the work in hand and waits for that; it is no error when none runs.
func (h Home) Stop(ctx context.Context, c clock.Clock, within time.Duration) error {
	st, err := h.State()
	if err != nil || !st.Running {
		return err
	}
	id := st.Process
	if err := syscall.Kill(id.PID, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fault.Wrap(err, fault.Invalid, "the worker (pid %d) cannot be told to end: %v", id.PID, err).WithHint("is it another user's?")
	}
	err = retry.Poll(ctx, c, lookEvery, within, func() (bool, error) {
		alive, err := h.taken()
		if err != nil || !alive {
			return true, err
		}
		// A service manager may have started the next one already.
		now, err := h.State()
		return now.Running && now.Process != id, err
	})
	if errors.Is(err, retry.ErrLate) {
		return fault.New(fault.Unavailable, "the worker (pid %d) still finishes its work after %v", id.PID, within).WithHint("wait, or look at it: interlock hardware status")
	}
	return err
}

// lookEvery is between two looks at a worker that starts or ends.
const lookEvery = 100 * time.Millisecond

// Await waits until a worker other than the given process is ready, or will not be by itself, and gives its
// last state.
func (h Home) Await(ctx context.Context, c clock.Clock, before supervise.Identity, within time.Duration) (State, error) {
	var st State
	err := retry.Poll(ctx, c, lookEvery, within, func() (done bool, err error) {
		st, err = h.State()
		return (st.Ready || st.Stuck) && st.Process != before, err
	})
	if errors.Is(err, retry.ErrLate) {
		return st, nil
	}
	return st, err
}
