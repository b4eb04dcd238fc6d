package servertasks

import (
	"context"
	"sync"
)

// topic is something that event streams watch.
type topic struct{ kind, id string }

func projectTopic(project string) topic        { return topic{"project", project} }
func taskTopic(id string) topic                { return topic{"task", id} }
func workerTopic(project, worker string) topic { return topic{"worker", project + "\x00" + worker} }

// topics tells watchers that something changed. A hint carries nothing: who gets it reads truth.
type topics struct {
	mu  sync.Mutex
	all map[topic]map[chan struct{}]struct{}
}

func newTopics() *topics { return &topics{all: map[topic]map[chan struct{}]struct{}{}} }

// subscribe gives a channel that holds one hint at most, so that no writer ever waits for a reader.
func (h *topics) subscribe(t topic) (<-chan struct{}, func()) {
	ch := make(chan struct{}, 1)
	return ch, h.add(t, ch)
}

func (h *topics) add(t topic, ch chan struct{}) (cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[t] == nil {
		h.all[t] = map[chan struct{}]struct{}{}
	}
	h.all[t][ch] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.all[t], ch)
		if len(h.all[t]) == 0 {
			delete(h.all, t)
		}
	}
}

func (h *topics) notify(changed []topic) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range changed {
		for ch := range h.all[t] {
			select {
			case ch <- struct{}{}:
			default:
			}
		}
	}
}

// SubscribeTask hints at every change of one task until cancel is called. Hints coalesce.
func (s *Service) SubscribeTask(id string) (changes <-chan struct{}, cancel func()) {
	return s.topics.subscribe(taskTopic(id))
}

// SubscribeProject hints at every change of any task or worker of a project.
func (s *Service) SubscribeProject(project string) (changes <-chan struct{}, cancel func()) {
	return s.topics.subscribe(projectTopic(project))
}

// SubscribeWorker hints when a claim of the worker may succeed, when it registered anew, and when one of
// its attempts ended or was asked to stop: time to claim and to renew.
func (s *Service) SubscribeWorker(project, workerID string) (changes <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	leave := s.topics.add(workerTopic(project, workerID), ch)
	var keys []workKey // stay empty for a worker that has not registered yet: registering fills them in
	if w, err := workerIn(s.db.Reader(context.Background()), project, workerID); err == nil {
		keys = w.keys()
	}
	unfollow := s.work.follow(project, workerID, keys, ch)
	return ch, func() { leave(); unfollow() }
}
