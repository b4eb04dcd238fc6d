package servertasks_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// submitWaiting admits a task with a deadline of ten minutes that may wait an hour for its first claim.
func (p *plane) submitWaiting(key string, wait time.Duration) (v tasks.View, err error) {
	p.t.Helper()
	err = p.db.Write(context.Background(), store.LaneAdmit, func(tx *store.Tx) error {
		a, err := p.core.SubmitTx(tx, project, tasks.SubmitRequest{
			Type: p.typ, SchemaVersion: 1, ExpiresInMs: (10 * time.Minute).Milliseconds(), IdempotencyKey: key,
		}, wait)
		v = a.Task
		return err
	})
	return v, err
}

// The deadline of a task that may wait begins with its first claim, at the latest when the wait ends.
func TestADeadlineBeginsWithTheFirstClaimOfAWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ claimed, deadline time.Duration }{
		"at once":                  {0, 10 * time.Minute},
		"after half the wait":      {30 * time.Minute, 40 * time.Minute},
		"when the wait has ended":  {time.Hour, 70 * time.Minute},
		"five minutes after it":    {65 * time.Minute, 70 * time.Minute},
		"just before all is over ": {70*time.Minute - time.Second, 70 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			v, err := p.submitWaiting("", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.ExpiresAt.Sub(v.CreatedAt); got != 70*time.Minute {
				t.Errorf("while it waits it expires after %v", got)
			}
			for left := c.claimed; left > 0; left -= 5 * time.Minute {
				p.advance(min(left, 5*time.Minute))
				if err := p.core.EndWait(context.Background(), v.ID, nil); err != nil {
					t.Fatal(err)
				}
				p.register("w1", 1, tasks.Pure)
			}
			p.register("w1", 1, tasks.Pure)
			got := p.claim("w1", 1)
			if len(got) != 1 {
				t.Fatalf("claimed %d", len(got))
			}
			want := c.deadline - c.claimed
			if left := time.Duration(got[0].DeadlineMs) * time.Millisecond; left != want {
				t.Errorf("the worker has %v, want %v", left, want)
			}
			p.advance(want + time.Second)
			if v := p.get(v.ID); !v.CancelRequested {
				t.Error("its deadline passed unnoticed")
			}
		})
	}
}

func TestTheEndOfAWait(t *testing.T) {
	t.Parallel()
	nobody := tasks.Failure{Code: "NOBODY", Message: "nobody came"}
	for name, c := range map[string]struct {
		prepare func(p *plane, v tasks.View)
		failure *tasks.Failure
		want    tasks.State
	}{
		"nobody came": {func(p *plane, _ tasks.View) { p.advance(time.Hour) }, &nobody, tasks.Expired},
		// Only whoever admitted it knows how the wait ends, so the reaper leaves it alone until it was asked.
		"long after, when the control plane was away": {func(p *plane, _ tasks.View) { p.advance(3 * time.Hour) }, &nobody, tasks.Expired},
		"somebody is about to":                        {func(p *plane, _ tasks.View) { p.advance(time.Hour) }, nil, tasks.Queued},
		"it is not over":                              {func(p *plane, _ tasks.View) { p.advance(59 * time.Minute) }, &nobody, tasks.Queued},
		"it was claimed": {func(p *plane, _ tasks.View) {
			p.register("w1", 1, tasks.Pure)
			p.claim("w1", 1)
			p.clock.Advance(time.Hour)
		}, &nobody, tasks.Leased},
		"it was claimed and given back": {func(p *plane, _ tasks.View) {
			p.register("w1", 1, tasks.Pure)
			p.fail(p.claim("w1", 1)[0], tasks.Failure{}, true)
			p.clock.Advance(time.Hour)
		}, &nobody, tasks.Queued},
		"it was cancelled": {func(p *plane, v tasks.View) {
			if _, err := p.core.Cancel(context.Background(), project, v.ID, ""); err != nil {
				p.t.Fatal(err)
			}
			p.advance(time.Hour)
		}, &nobody, tasks.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlane(t)
			v, err := p.submitWaiting("", time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			c.prepare(p, v)
			if err := p.core.EndWait(context.Background(), v.ID, c.failure); err != nil {
				t.Fatal(err)
			}
			got := p.wantState(v.ID, c.want)
			if c.want != tasks.Expired {
				if got.Error != nil {
					t.Errorf("error %+v", got.Error)
				}
				return
			}
			if got.Error == nil || *got.Error != nobody || got.Attempts != 0 {
				t.Errorf("ended as %+v", got)
			}
			if want := []tasks.EntryKind{tasks.EntrySubmitted, tasks.EntryExpired}; !slices.Equal(p.kinds(v.ID), want) {
				t.Errorf("journal %v", p.kinds(v.ID))
			}
		})
	}
}

func TestAWaitIsPartOfTheRequest(t *testing.T) {
	t.Parallel()
	p := newPlane(t)
	first, err := p.submitWaiting("k", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := p.submitWaiting("k", time.Hour); err != nil || again.ID != first.ID {
		t.Errorf("the same request again: %v, %v", again.ID, err)
	}
	_, err = p.submitWaiting("k", 2*time.Hour)
	wantCode(t, err, fault.IdempotencyConflict)
}
