package servertasks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"interlock.sh/fault"
	"interlock.sh/server/store"
	"interlock.sh/tasks"
)

// UnknownOutcome is the error text of every task whose outcome cannot be proved.
const UnknownOutcome = "The worker may have finished, but Interlock cannot prove the outcome."

// The codes of failures that the control plane itself records.
const (
	CodeAttemptLost    = "ATTEMPT_LOST"
	CodeExpired        = "EXPIRED"
	CodeHandlerFailed  = "HANDLER_FAILED"
	CodeReturned       = "RETURNED"
	CodeOutcomeUnknown = "OUTCOME_UNKNOWN"
)

// How an attempt ended, as its row keeps it.
const (
	byComplete = "complete"
	byFail     = "fail"
	byUnknown  = "unknown"
	byLoss     = "lost"
	byNobody   = "undelivered"
)

// Complete ends several attempts with results; each has its own answer. A result above the inline
// limit fails its task for good with RESULT_TOO_LARGE: the work is done and would be too large again.
func (s *Service) Complete(ctx context.Context, c Caller, req tasks.CompleteRequest) (tasks.CompleteResponse, error) {
	if err := checkBatch("completions", len(req.Completions)); err != nil {
		return tasks.CompleteResponse{}, err
	}
	for i := range req.Completions {
		if err := compactResult(&req.Completions[i]); err != nil {
			return tasks.CompleteResponse{}, err
		}
	}
	var out []tasks.Outcome
	err := s.write(ctx, store.LaneFinish, "complete", func(o *op) error {
		out = make([]tasks.Outcome, 0, len(req.Completions))
		for _, done := range req.Completions {
			outcome, err := o.complete(c, done)
			if outcome.Error, err = answerFor(err); err != nil {
				return err
			}
			out = append(out, outcome)
		}
		return nil
	})
	return tasks.CompleteResponse{Outcomes: out}, err
}

func compactResult(c *tasks.Completion) error {
	if c.StreamBytes < 0 {
		return fault.New(fault.Invalid, "streamBytes is %d; a length is not negative", c.StreamBytes).WithField("completions.streamBytes")
	}
	if len(c.Result) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, c.Result); err != nil {
		return fault.New(fault.Malformed, "the result of task %s is no JSON: %v", c.TaskID, err).WithField("completions.result")
	}
	c.Result = b.Bytes()
	return nil
}

func (o *op) complete(c Caller, done tasks.Completion) (tasks.Outcome, error) {
	t, repeat, err := o.ending(c, done.Ref, byComplete, done.StreamBytes)
	if err != nil || repeat {
		return outcome(t, done.Ref), err
	}
	if size := len(done.Result); size > tasks.MaxInline {
		f := tasks.Failure{Code: string(fault.ResultTooLarge),
			Message: fmt.Sprintf("the result is %d bytes; the inline limit is %d. Store it as a file and return its hash, size and type", size, tasks.MaxInline)}
		err = o.advance(t, tasks.EventFail, func(t *task) { t.failure = encode(f) }, entry{tasks.EntryFailed, f})
		return outcome(t, done.Ref), err
	}
	err = o.advance(t, tasks.EventSucceed, func(t *task) { t.result = string(done.Result) },
		entry{tasks.EntrySucceeded, succeededData{len(done.Result)}})
	return outcome(t, done.Ref), err
}

func outcome(t *task, ref tasks.Ref) tasks.Outcome {
	o := tasks.Outcome{TaskID: ref.TaskID}
	if t != nil {
		o.State = t.state
	}
	return o
}

// ending readies the end of the attempt that ref holds: what it streamed goes into the journal first.
// repeat is true when this very report ended the task before; see the package doc.
func (o *op) ending(c Caller, ref tasks.Ref, by string, streamBytes int64) (t *task, repeat bool, err error) {
	if t, err = newest(o.tx, c, ref); err != nil {
		return nil, false, err
	}
	if t.state.Terminal() {
		var ended string
		if err := o.tx.QueryRow("SELECT ended_by FROM attempts WHERE id = $1", ref.AttemptID).Scan(&ended); err != nil {
			return nil, false, fmt.Errorf("read attempt %s: %w", ref.AttemptID, err)
		}
		if ended != by {
			return nil, false, stale(ref)
		}
		return t, true, nil
	}
	if !t.state.Held() {
		return nil, false, stale(ref)
	}
	held, err := o.flush(t)
	if err != nil {
		return nil, false, err
	}
	if streamBytes > held {
		return nil, false, streamGap(streamBytes, held)
	}
	return t, false, o.endAttempt(t, by)
}

func (o *op) endAttempt(t *task, by string) error {
	_, err := o.tx.Exec("UPDATE attempts SET ended_at = $1, ended_by = $2 WHERE id = $3 AND ended_at = 0", o.now.UnixMilli(), by, t.attemptID)
	if err != nil {
		return fmt.Errorf("end attempt %s: %w", t.attemptID, err)
	}
	return nil
}

// Fail ends an attempt without a result. What follows is tasks.AfterFailure's decision, or for an
// attempt handed back undone tasks.AfterReturn's.
func (s *Service) Fail(ctx context.Context, c Caller, req tasks.FailReport) (tasks.Outcome, error) {
	if req.Code == "" {
		req.Code = CodeHandlerFailed
		if req.Returned {
			req.Code = CodeReturned
		}
	}
	if err := tasks.CheckLabel("code", req.Code, true); err != nil {
		return tasks.Outcome{}, err
	}
	if req.StreamBytes < 0 {
		return tasks.Outcome{}, fault.New(fault.Invalid, "streamBytes is %d; a length is not negative", req.StreamBytes).WithField("streamBytes")
	}
	req.Message = cut(req.Message, maxText)
	var out tasks.Outcome
	err := s.write(ctx, store.LaneFinish, "fail", func(o *op) error {
		t, repeat, err := o.ending(c, req.Ref, byFail, req.StreamBytes)
		if err == nil && !repeat {
			err = o.fail(t, req)
		}
		out = outcome(t, req.Ref)
		return err
	})
	return out, err
}

func (o *op) fail(t *task, req tasks.FailReport) error {
	failed := entry{tasks.EntryAttemptFailed, failedData{req.Failure, req.Returned}}
	event, why, uncounted := tasks.AfterFailure(t.standing(o.now), req.Retryable), "failed", 0
	if req.Returned {
		standing := t.standing(o.now)
		if req.Unbegun {
			standing.Safety = tasks.Pure
		}
		event, why, uncounted = tasks.AfterReturn(standing), "returned", 1
	}
	return o.settle(t, event, why, uncounted, req.Failure, failed)
}

// settle carries out what was decided for an attempt that ended without a result.
func (o *op) settle(t *task, event tasks.Event, why string, uncounted int, f tasks.Failure, first entry) error {
	back := func(t *task) { t.attempts -= uncounted }
	switch event {
	case tasks.EventRequeue:
		return o.requeue(t, why, uncounted, first)
	case tasks.EventCancel:
		return o.advance(t, event, back, first, entry{tasks.EntryCancelled, cancelData{t.cancelReason}})
	case tasks.EventExpire:
		return o.advance(t, event, func(t *task) { back(t); t.failure = encode(expired(t)) }, first, entry{kind: tasks.EntryExpired})
	case tasks.EventUnknown:
		return o.advance(t, event, func(t *task) { back(t); t.failure = encode(unknownFailure()) },
			first, entry{tasks.EntryUnknown, unknownData{Reason: f.Message, Lost: why == "lost"}})
	}
	return o.advance(t, event, func(t *task) { back(t); t.failure = encode(f) }, first, entry{tasks.EntryFailed, f})
}

func unknownFailure() tasks.Failure {
	return tasks.Failure{Code: CodeOutcomeUnknown, Message: UnknownOutcome}
}

func expired(t *task) tasks.Failure {
	return tasks.Failure{Code: CodeExpired, Message: fmt.Sprintf("the deadline, %d ms after admission, passed first", t.expires-t.created)}
}

// requeue sends a held task back into the queue, at the place its admission and priority give it.
func (o *op) requeue(t *task, why string, uncounted int, first ...entry) error {
	return o.advance(t, tasks.EventRequeue, func(t *task) {
		t.attempts -= uncounted
		t.leaseHash, t.leaseUntil, t.progress = "", 0, ""
	}, append(first, entry{tasks.EntryQueued, queuedData{why}})...)
}

// Unknown ends a task whose effect may have happened and cannot be proved. It is never retried.
func (s *Service) Unknown(ctx context.Context, c Caller, req tasks.UnknownReport) (tasks.Outcome, error) {
	req.Reason = cut(req.Reason, maxText)
	var out tasks.Outcome
	err := s.write(ctx, store.LaneFinish, "report unknown outcome", func(o *op) error {
		t, repeat, err := o.ending(c, req.Ref, byUnknown, 0)
		if err == nil && !repeat {
			err = o.advance(t, tasks.EventUnknown, func(t *task) { t.failure = encode(unknownFailure()) },
				entry{tasks.EntryUnknown, unknownData{Reason: req.Reason}})
		}
		out = outcome(t, req.Ref)
		return err
	})
	return out, err
}
