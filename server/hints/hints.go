// Package hints wakes whoever waits for a change: parked requests and open streams. A hint says only
// that something of a topic changed; the receiver reads the truth again. Hints may be lost or merged,
// so nobody may depend on one: every waiter also looks by itself from time to time.
package hints

import "sync"

// Hub hands hints from publishers to subscribers inside one process. The zero value is ready.
type Hub struct {
	mu   sync.Mutex
	subs map[string]map[*Sub]bool
}

// Sub receives the hints of its topics, merged: the newest topic set wins nothing, each is kept once.
type Sub struct {
	hub    *Hub
	topics []string
	wake   chan struct{}

	mu      sync.Mutex
	pending []string
}

// Subscribe starts receiving hints of the topics. Close it.
func (h *Hub) Subscribe(topics ...string) *Sub {
	s := &Sub{hub: h, topics: topics, wake: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[string]map[*Sub]bool{}
	}
	for _, t := range topics {
		if h.subs[t] == nil {
			h.subs[t] = map[*Sub]bool{}
		}
		h.subs[t][s] = true
	}
	return s
}

// Publish wakes the subscribers of a topic. It never blocks.
func (h *Hub) Publish(topic string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs[topic] {
		s.add(topic)
	}
}

func (s *Sub) add(topic string) {
	s.mu.Lock()
	known := false
	for _, t := range s.pending {
		known = known || t == topic
	}
	if !known {
		s.pending = append(s.pending, topic)
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Wake is signalled when Take has something.
func (s *Sub) Wake() <-chan struct{} { return s.wake }

// Take returns the topics that were hinted at since the last Take, each once.
func (s *Sub) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.pending
	s.pending = nil
	return t
}

// Close stops receiving.
func (s *Sub) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, t := range s.topics {
		delete(s.hub.subs[t], s)
		if len(s.hub.subs[t]) == 0 {
			delete(s.hub.subs, t)
		}
	}
}

// The topics. A project's topic names what kind of thing changed in it.
func Machine(id string) string       { return "machine/" + id }
func Machines(project string) string { return "machines/" + project }
func Tasks(project string) string    { return "tasks/" + project }
func Runs(project string) string     { return "runs/" + project }
