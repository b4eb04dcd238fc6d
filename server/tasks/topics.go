package servertasks

import "sync"

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
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.all[t] == nil {
		h.all[t] = map[chan struct{}]struct{}{}
	}
	h.all[t][ch] = struct{}{}
	return ch, func() {
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

// SubscribeWorker hints when one of a worker's attempts ended or was asked to stop: time to renew.
func (s *Service) SubscribeWorker(project, workerID string) (changes <-chan struct{}, cancel func()) {
	return s.topics.subscribe(workerTopic(project, workerID))
}
