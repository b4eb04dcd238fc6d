package servertasks

import (
	"context"

	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// Cancel stops a task that nobody holds at once; of one that is held it asks the worker. A request
// stands: it blocks every retry. Repeating it, or cancelling what has ended, changes nothing.
func (s *Service) Cancel(ctx context.Context, project, id, reason string) (tasks.View, error) {
	if err := tasks.CheckLabel("reason", reason, false); err != nil {
		return tasks.View{}, err
	}
	var v tasks.View
	err := s.write(ctx, store.LaneAdmit, "cancel task", func(o *op) error {
		t, err := taskIn(o.tx, project, id)
		if err != nil {
			return err
		}
		if err := o.cancel(t, reason); err != nil {
			return err
		}
		if v, err = t.view(); err != nil {
			return err
		}
		v.Input, err = inputOf(o.tx, id)
		return err
	})
	return v, err
}

func (o *op) cancel(t *task, reason string) error {
	switch {
	case t.state.Terminal() || t.cancelRequested != byNone:
		return nil
	case t.state.Held():
		return o.requestCancel(t, byRequest, reason)
	}
	return o.advance(t, tasks.EventCancel, func(t *task) {
		t.cancelRequested, t.cancelReason = byRequest, reason
	}, entry{tasks.EntryCancelled, cancelData{reason}})
}

// requestCancel asks the worker that holds t to stop.
func (o *op) requestCancel(t *task, by canceller, reason string) error {
	if o.effects.cancels == nil {
		o.effects.cancels = map[string]string{}
	}
	o.effects.cancels[t.attemptID] = reason
	o.effects.changed = append(o.effects.changed, hints.Worker(t.project, t.workerID))
	return o.touch(t, func(t *task) { t.cancelRequested, t.cancelReason = by, reason },
		entry{tasks.EntryCancelRequested, cancelData{reason}})
}
