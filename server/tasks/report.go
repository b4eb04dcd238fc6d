package servertasks

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"interlock.sh/fault"
	"interlock.sh/internal/ident"
	"interlock.sh/server/hints"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

const (
	maxReportLines = 200
	// maxChatter bounds what logs and progress of one attempt put into the journal.
	maxChatter  = 1 << 20
	cutMark     = " … (cut)"
	maxText     = 8 << 10 // of a failure's message, a reason, a progress message
	chatterFull = "this attempt's logs reached the limit of 1 MiB; what follows is dropped"
)

// stale is the one refusal of a report whose attempt is not the current one. It names no current
// state: to this worker nothing of the task matters any more.
func stale(ref tasks.Ref) error {
	return fault.New(fault.StaleAttempt, "attempt %s is not the current attempt of task %s; its lease was replaced or the task has ended", ref.AttemptID, ref.TaskID).
		WithHint("stop this attempt and drop its spool record; the refusal is final")
}

func notYours(ref tasks.Ref) error {
	return fault.New(fault.ScopeDenied, "attempt %s was leased to a worker that this credential cannot act for", ref.AttemptID)
}

// proves reports whether ref is the newest attempt of t, with its token.
func (t *task) proves(ref tasks.Ref) bool {
	return t.attemptID == ref.AttemptID && t.fence == ref.Fence && t.leaseHash != "" &&
		subtle.ConstantTimeCompare([]byte(t.leaseHash), []byte(ident.HashSecret(ref.LeaseToken))) == 1
}

// newest is the task whose newest attempt ref is, be it over or not. The zero Caller is ourselves.
func newest(q store.Querier, c Caller, ref tasks.Ref) (*task, error) {
	t, err := taskByID(q, ref.TaskID)
	switch {
	case err != nil:
		return nil, err
	case t == nil, c.Project != "" && t.project != c.Project, !t.proves(ref):
		return nil, stale(ref)
	case c.Project != "" && c.CheckWorker(t.workerID) != nil:
		return nil, notYours(ref)
	}
	return t, nil
}

// holder is the task that ref holds, or STALE_ATTEMPT.
func (o *op) holder(c Caller, ref tasks.Ref) (*task, error) {
	t, err := newest(o.tx, c, ref)
	if err == nil && !t.state.Held() {
		return nil, stale(ref)
	}
	return t, err
}

// start moves a leased task to running at its attempt's first report.
func (o *op) start(t *task) error {
	if t.state != tasks.Leased {
		return nil
	}
	if _, err := o.tx.Exec("UPDATE attempts SET started_at = $1 WHERE id = $2", o.now.UnixMilli(), t.attemptID); err != nil {
		return fmt.Errorf("start attempt %s: %w", t.attemptID, err)
	}
	return o.advance(t, tasks.EventStart, func(t *task) {
		if t.started == 0 {
			t.started = o.now.UnixMilli()
		}
	}, entry{kind: tasks.EntryRunning})
}

// answerFor splits an item's error into its own refusal, before which nothing of it was written, and
// what undoes the whole batch.
func answerFor(err error) (*tasks.Answer, error) {
	var coded *fault.Error
	if !errors.As(err, &coded) {
		return nil, err
	}
	switch coded.Code {
	case fault.StaleAttempt, fault.ScopeDenied, fault.StreamGap:
	default:
		return nil, err
	}
	return &tasks.Answer{Code: string(coded.Code), Message: coded.Error(), Details: coded.Details}, nil
}

// Renew extends the leases of several attempts; each has its own answer.
func (s *Service) Renew(ctx context.Context, c Caller, req tasks.RenewRequest) (tasks.RenewResponse, error) {
	if err := c.CheckWorker(req.WorkerID); err != nil {
		return tasks.RenewResponse{}, err
	}
	if err := checkBatch("attempts", len(req.Attempts)); err != nil {
		return tasks.RenewResponse{}, err
	}
	var out []tasks.Renewal
	err := s.write(ctx, store.LaneRenew, "renew", func(o *op) error {
		out = make([]tasks.Renewal, 0, len(req.Attempts))
		for _, ref := range req.Attempts {
			r, err := o.renew(c, ref)
			if r.Error, err = answerFor(err); err != nil {
				return err
			}
			out = append(out, r)
		}
		return o.seenRenewing(c, req.WorkerID)
	})
	return tasks.RenewResponse{Renewals: out}, err
}

func (o *op) renew(c Caller, ref tasks.Ref) (tasks.Renewal, error) {
	r := tasks.Renewal{AttemptID: ref.AttemptID}
	t, err := o.holder(c, ref)
	if err == nil {
		err = o.start(t)
	}
	if err == nil {
		err = o.touch(t, func(t *task) { t.leaseUntil = o.now.Add(o.s.lease).UnixMilli() })
	}
	if err != nil {
		return r, err
	}
	r.LeaseMs, r.Cancel, r.CancelReason = o.s.lease.Milliseconds(), t.cancelRequested != byNone, t.cancelReason
	return r, nil
}

// seenRenewing notes that a worker which only renews is alive; it may be one that never registered.
func (o *op) seenRenewing(c Caller, workerID string) error {
	_, err := o.tx.Exec("UPDATE workers SET last_seen = $1 WHERE project = $2 AND worker_id = $3 AND last_seen <= $4",
		o.now.UnixMilli(), c.Project, workerID, o.now.Add(-seenStep).UnixMilli())
	return err
}

func checkBatch(field string, n int) error {
	if n < 1 || n > tasks.MaxBatch {
		return fault.New(fault.Invalid, "%d %s in one request; it takes 1 to %d", n, field, tasks.MaxBatch).WithField(field)
	}
	return nil
}

// Progress records a worker's newest word on an attempt.
func (s *Service) Progress(ctx context.Context, c Caller, req tasks.ProgressReport) error {
	if !(req.Percent >= 0 && req.Percent <= 100) {
		return fault.New(fault.Invalid, "percent is %v; it goes from 0 to 100", req.Percent).WithField("percent")
	}
	req.Message = cut(req.Message, maxText)
	return s.write(ctx, store.LaneTelemetry, "progress", func(o *op) error {
		t, err := o.holder(c, req.Ref)
		if err != nil {
			return err
		}
		if err := o.start(t); err != nil {
			return err
		}
		text := encode(req.Progress)
		entries, err := o.chatter(t, len(text), entry{tasks.EntryProgress, req.Progress}, nil)
		if err != nil {
			return err
		}
		o.effects.changed = append(o.effects.changed, hints.Task(t.id))
		return o.touch(t, func(t *task) { t.progress = text }, entries...)
	})
}

// Log appends lines to the journal, up to a limit an attempt; too long lines are cut and say so.
func (s *Service) Log(ctx context.Context, c Caller, req tasks.LogReport) error {
	if n := len(req.Lines); n < 1 || n > maxReportLines {
		return fault.New(fault.Invalid, "%d lines in one report; it takes 1 to %d", n, maxReportLines).WithField("lines")
	}
	size := 0
	for i := range req.Lines {
		l := &req.Lines[i]
		switch l.Level {
		case "":
			l.Level = "info"
		case "debug", "info", "warn", "error":
		default:
			return fault.New(fault.Invalid, "level is %q; it is debug, info, warn or error", l.Level).WithField("lines.level")
		}
		l.Line = cut(l.Line, tasks.MaxLogLine)
		size += len(l.Line)
	}
	return s.write(ctx, store.LaneTelemetry, "log", func(o *op) error {
		t, err := o.holder(c, req.Ref)
		if err != nil {
			return err
		}
		if err := o.start(t); err != nil {
			return err
		}
		full := &entry{tasks.EntryLog, logData{[]tasks.LogLine{{Level: "warn", Line: chatterFull}}}}
		entries, err := o.chatter(t, size, entry{tasks.EntryLog, logData{req.Lines}}, full)
		if err != nil || len(entries) == 0 {
			return err
		}
		return o.touch(t, nil, entries...)
	})
}

// chatter is what a log or progress report may put into the journal: its entry, once the word that the
// limit is reached, and nothing after that.
func (o *op) chatter(t *task, size int, e entry, full *entry) ([]entry, error) {
	var used int
	err := o.tx.QueryRow("SELECT chatter_bytes FROM attempts WHERE id = $1", t.attemptID).Scan(&used)
	if err != nil || used > maxChatter {
		return nil, err
	}
	entries := []entry{e}
	if used+size > maxChatter {
		if full == nil {
			return nil, nil
		}
		entries, size = []entry{*full}, maxChatter+1
	}
	_, err = o.tx.Exec("UPDATE attempts SET chatter_bytes = chatter_bytes + $1 WHERE id = $2", size, t.attemptID)
	return entries, err
}

// cut bounds a text at a character's edge and says that it was cut.
func cut(text string, limit int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit {
		return text
	}
	end := limit - len(cutMark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + cutMark
}
