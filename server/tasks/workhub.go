package servertasks

import (
	"slices"
	"sync"
)

// workKey is what a queued task asks of a worker.
type workKey struct {
	project, typ string
	version      int
	pool         string
}

// workHub wakes claims that are parked, one for each task that became claimable, the longest waiting
// first. Only when nobody is parked for a task does one event stream of a fitting worker get a hint,
// in turn. So a thousand idle workers cost one wake-up a task.
type workHub struct {
	mu        sync.Mutex
	parked    map[workKey][]*waiter
	followers map[string][]*follower // by project; the one whose turn is next comes first
}

// follower is one worker's event stream.
type follower struct {
	worker string
	keys   []workKey // as registered last
	hints  chan struct{}
}

// waiter is one parked claim.
type waiter struct {
	keys []workKey
	wake chan struct{} // holds one

	signalled bool // guarded by the hub: woken for key, not consumed yet
	key       workKey
}

func newWorkHub() *workHub {
	return &workHub{parked: map[workKey][]*waiter{}, followers: map[string][]*follower{}}
}

// park queues a claim. Parking comes before the look into the database, so that no task falls between.
func (h *workHub) park(keys []workKey) *waiter {
	w := &waiter{keys: keys, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range keys {
		h.parked[k] = append(h.parked[k], w)
	}
	return w
}

// consume takes w's wake-up; w keeps its place at the head of the queue for the case that somebody
// else was faster.
func (h *workHub) consume(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !w.signalled {
		return
	}
	w.signalled = false
	for _, k := range w.keys {
		h.parked[k] = slices.Insert(h.parked[k], 0, w)
	}
}

// leave ends w's waiting. A wake-up that it did not act upon goes to the next.
func (h *workHub) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.signalled {
		w.signalled = false
		h.offerLocked(w.key)
		return
	}
	remove(h.parked, w)
}

// offer says that one claim of k may succeed.
func (h *workHub) offer(k workKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.offerLocked(k)
}

func (h *workHub) offerLocked(k workKey) {
	if q := h.parked[k]; len(q) > 0 {
		w := q[0]
		remove(h.parked, w)
		w.signalled, w.key = true, k
		hint(w.wake)
		return
	}
	all := h.followers[k.project]
	for i, f := range all {
		if slices.Contains(f.keys, k) {
			copy(all[i:], all[i+1:])
			all[len(all)-1] = f
			hint(f.hints)
			return
		}
	}
}

// follow hints a worker's event stream at work, in turn with the others, until cancel is called.
func (h *workHub) follow(project, worker string, keys []workKey, hints chan struct{}) (cancel func()) {
	f := &follower{worker: worker, keys: keys, hints: hints}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers[project] = append(h.followers[project], f)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		all := h.followers[project]
		if i := slices.Index(all, f); i >= 0 {
			h.followers[project] = slices.Delete(all, i, i+1)
		}
		if len(h.followers[project]) == 0 {
			delete(h.followers, project)
		}
	}
}

// learn notes what a worker can claim from now on.
func (h *workHub) learn(project, worker string, keys []workKey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range h.followers[project] {
		if f.worker == worker {
			f.keys = keys
		}
	}
}

func remove(m map[workKey][]*waiter, w *waiter) {
	for _, k := range w.keys {
		if i := slices.Index(m[k], w); i >= 0 {
			m[k] = slices.Delete(m[k], i, i+1)
		}
		if len(m[k]) == 0 {
			delete(m, k)
		}
	}
}

func hint(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
