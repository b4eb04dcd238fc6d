// Package hints wakes whoever waits for a change: parked requests and open streams. A hint says only
// that something of a topic changed; the receiver reads the truth again. Hints may be lost or merged,
// so nobody may depend on one: every waiter also looks by itself from time to time.
package hints

import "sync"

// Hub hands hints from publishers to subscribers inside one process. The zero value is ready.
type Hub struct {
	mu  sync.Mutex
	all map[string]map[chan struct{}]struct{}
}

// Subscribe gives a channel that is signalled when something of the topic changed, until cancel is
// called. The channel holds one hint at most, so that no publisher ever waits for a reader.
func (h *Hub) Subscribe(topic string) (changed <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	return ch, h.Join(topic, ch)
}

// Join signals a channel of the caller's, which must hold one, for one more topic.
func (h *Hub) Join(topic string, ch chan struct{}) (leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all == nil {
		h.all = map[string]map[chan struct{}]struct{}{}
	}
	if h.all[topic] == nil {
		h.all[topic] = map[chan struct{}]struct{}{}
	}
	h.all[topic][ch] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all[topic], ch)
		if len(h.all[topic]) == 0 {
			delete(h.all, topic)
		}
	}
}

// Publish hints at topics. It never blocks.
func (h *Hub) Publish(topics ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range topics {
		for ch := range h.all[t] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}

// Machine is the topic of one machine's desired state.
func Machine(id string) string { return "machine/" + id }

// Machines is the topic of a project's machines.
func Machines(project string) string { return "machines/" + project }

// Runs is the topic of a project's AI runs.
func Runs(project string) string { return "runs/" + project }

// Tasks is the topic of a project's tasks and workers.
func Tasks(project string) string { return "tasks/" + project }

// Task is the topic of one task.
func Task(id string) string { return "task/" + id }

// Key is the topic of one credential's validity.
func Key(id string) string { return "key/" + id }

// Worker is the topic of what concerns one worker's attempts and registration.
func Worker(project, worker string) string { return "worker/" + project + "/" + worker }
