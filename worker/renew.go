package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/retry"
	"interlock.sh/tasks"
)

// hintGap is the least time between renewals that hints ask for.
const hintGap = 300 * time.Millisecond

// renewal is when leases are renewed next. Worker.mu guards it.
type renewal struct {
	at   time.Time // of the next renewal; zero when nothing is held
	last time.Time // of the last try
}

// lease is how long an attempt is ours, by our clock. Worker.mu guards it.
type lease struct {
	length time.Duration
	renew  time.Time
	end    time.Time
	lost   bool
}

// leaseFrom counts a lease from when it was asked for, so that the control plane's ends later. The
// spread keeps a fleet that began together from renewing together.
func leaseFrom(asked time.Time, ms int64) lease {
	d := cmp.Or(time.Duration(ms)*time.Millisecond, tasks.Lease)
	third := d / 3
	return lease{length: d, renew: asked.Add(third - time.Duration(rand.Int64N(int64(third/10)+1))), end: asked.Add(d)}
}

// expect makes sure that at is renewed in time. The caller holds mu.
func (w *Worker) expect(at *attempt) {
	if w.renewing.at.IsZero() || at.lease.renew.Before(w.renewing.at) {
		w.renewing.at = at.lease.renew
		hint(w.kick)
	}
}

// renewLoop renews what is held, all of it whenever the first falls due.
func (w *Worker) renewLoop(ctx context.Context) {
	back := retry.Backoff{Base: 250 * time.Millisecond, Cap: 3 * time.Second}
	for {
		w.mu.Lock()
		at, last := w.renewing.at, w.renewing.last
		w.mu.Unlock()
		var due <-chan time.Time
		if !at.IsZero() {
			due = w.clock.After(at.Sub(w.clock.Now()))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
			continue
		case <-w.hinted:
			if w.idle() {
				continue // an end that is on its way learns everything from its own answer
			}
			if soonest := last.Add(hintGap); w.clock.Now().Before(soonest) {
				w.mu.Lock()
				if len(w.held) > 0 && (w.renewing.at.IsZero() || soonest.Before(w.renewing.at)) {
					w.renewing.at = soonest
				}
				w.mu.Unlock()
				continue
			}
		case <-due:
		}
		if err := w.renewAll(ctx, w.leases()); err != nil && ctx.Err() == nil {
			w.log.Warn("renew leases", slog.Any("cause", err))
			w.loseLate(back.Next(client.RetryAfter(err)))
		} else {
			back.Reset()
			w.loseLate(0)
		}
	}
}

// idle reports whether no handler runs, so that nobody could be told to stop.
func (w *Worker) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.busy == 0
}

// leases are the attempts to renew.
func (w *Worker) leases() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renewing.last = w.clock.Now()
	all := make([]*attempt, 0, len(w.held))
	for _, at := range w.held {
		if !at.lease.lost {
			all = append(all, at)
		}
	}
	return all
}

// renewAll renews in batches; each attempt has its own answer.
func (w *Worker) renewAll(ctx context.Context, all []*attempt) error {
	for len(all) > 0 {
		batch := all[:min(len(all), tasks.MaxBatch)]
		all = all[len(batch):]
		req := tasks.RenewRequest{WorkerID: w.o.WorkerID}
		within := tasks.Lease
		w.mu.Lock()
		for _, at := range batch {
			req.Attempts = append(req.Attempts, at.Ref)
			within = min(within, at.lease.length)
		}
		w.mu.Unlock()
		asked := w.clock.Now()
		// A connection that died silently must not eat the whole lease.
		try, cancel := context.WithTimeout(ctx, within/4)
		got, err := w.transport.RenewTasks(try, req)
		cancel()
		if err != nil {
			if judge(err) == expelled {
				w.giveUp(err)
			}
			return err
		}
		if len(got.Renewals) != len(batch) {
			return fault.New(fault.Internal, "%d attempts were to be renewed, the answer has %d", len(batch), len(got.Renewals))
		}
		for i, r := range got.Renewals {
			w.renewed(batch[i], asked, r)
		}
	}
	return nil
}

func (w *Worker) renewed(at *attempt, asked time.Time, r tasks.Renewal) {
	if r.Error != nil {
		at.silence()
		return
	}
	w.mu.Lock()
	at.lease = leaseFrom(asked, r.LeaseMs)
	w.mu.Unlock()
	if r.Cancel {
		at.cancelled(r.CancelReason)
	}
}

// loseLate ends the attempts whose lease must be considered lost, and sets when to renew next: in retry
// after a failure, else when the first lease is a third old.
func (w *Worker) loseLate(again time.Duration) {
	now := w.clock.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.renewing.at = time.Time{}
	for _, at := range w.held {
		if at.lease.lost || at.silent() {
			continue
		}
		if !now.Before(at.lease.end) {
			at.lease.lost = true
			at.stop(ErrStale)
			continue
		}
		next := at.lease.renew
		if again > 0 {
			next = now.Add(again)
			if next.After(at.lease.end) {
				next = at.lease.end // to end it in time
			}
		}
		if w.renewing.at.IsZero() || next.Before(w.renewing.at) {
			w.renewing.at = next
		}
	}
}

// answerErr is the refusal of one item of a batch as an error.
func answerErr(a *tasks.Answer) error {
	if a == nil {
		return nil
	}
	return &fault.Error{Code: fault.Code(a.Code), Message: a.Message, Details: a.Details}
}

func isStale(err error) bool { return errors.Is(err, fault.StaleAttempt) }
