package servertasks

import (
	"context"
	"fmt"

	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// A task that was admitted with a wait has start_by set: until then it may stay queued, and its deadline
// does not run. The first claim ends the wait and begins the deadline. Who admitted it looks for those
// that nobody claimed in time and decides with EndWait.

// begin starts the deadline of a task that is claimed for the first time.
func (o *op) begin(t *task) error {
	if t.startBy == 0 {
		return nil
	}
	if now := o.now.UnixMilli(); now < t.startBy {
		t.expires -= t.startBy - now
		o.effects.due = t.expires
	}
	t.startBy = 0
	_, err := o.tx.Exec("UPDATE tasks SET start_by = 0, expires_at = $1 WHERE id = $2", t.expires, t.id)
	if err != nil {
		return fmt.Errorf("begin the deadline of task %s: %w", t.id, err)
	}
	return nil
}

// EndWait ends the wait of a task that nobody claimed before its start_by: with a failure the task
// expires and the failure is its error; without one it waits on until its deadline, as every queued task
// does. A task that was claimed or ended meanwhile is left alone.
func (s *Service) EndWait(ctx context.Context, id string, f *tasks.Failure) error {
	return s.write(ctx, store.LaneAdmit, "end a wait", func(o *op) error {
		t, err := taskByID(o.tx, id)
		if err != nil || t == nil || t.state != tasks.Queued || t.startBy == 0 || t.startBy > o.now.UnixMilli() {
			return err
		}
		if err := o.begin(t); err != nil || f == nil {
			return err
		}
		return o.advance(t, tasks.EventExpire, func(t *task) { t.failure = encode(f) }, entry{tasks.EntryExpired, f})
	})
}
