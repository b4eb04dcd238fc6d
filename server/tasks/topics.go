package servertasks

import (
	"context"

	"interlock.sh/server/hints"
)

// SubscribeTask hints at every change of one task until cancel is called. Hints coalesce.
func (s *Service) SubscribeTask(id string) (changes <-chan struct{}, cancel func()) {
	return s.hints.Subscribe(hints.Task(id))
}

// SubscribeProject hints at every change of any task or worker of a project.
func (s *Service) SubscribeProject(project string) (changes <-chan struct{}, cancel func()) {
	return s.hints.Subscribe(hints.Tasks(project))
}

// SubscribeWorker hints when a claim of the worker may succeed, when it registered anew, and when one of
// its attempts ended or was asked to stop: time to claim and to renew.
func (s *Service) SubscribeWorker(project, workerID string) (changes <-chan struct{}, cancel func()) {
	ch := make(chan struct{}, 1)
	leave := s.hints.Join(hints.Worker(project, workerID), ch)
	var keys []workKey // stay empty for a worker that has not registered yet: registering fills them in
	if w, err := workerIn(s.db.Reader(context.Background()), project, workerID); err == nil {
		keys = w.keys()
	}
	unfollow := s.work.follow(project, workerID, keys, ch)
	return ch, func() { leave(); unfollow() }
}
