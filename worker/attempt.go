package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"interlock.sh/tasks"
)

// attempt is one leased attempt, from its claim until its end is answered.
type attempt struct {
	tasks.Attempt
	w       *Worker
	pool    *pool
	handler handler
	lease   lease

	ctx     context.Context // the handler's
	stop    context.CancelCauseFunc
	alive   context.Context // of its reports; ends when nothing more may be said
	hush    context.CancelCauseFunc
	desert  chan struct{} // closes when a handler that does not stop is no longer waited for
	stream  *stream
	chatter *chatter
	ending  atomic.Bool // its end is being reported

	abandoned sync.Once     // guards desert
	gone      chan struct{} // closes when nothing of it is left to do
}

// newAttempt readies an attempt. The caller holds mu.
func (w *Worker) newAttempt(p *pool, a tasks.Attempt) *attempt {
	at := &attempt{
		Attempt: a, w: w, pool: p, handler: w.handlers[handlerKey{a.Type, a.SchemaVersion}],
		lease: leaseFrom(w.clock.Now(), a.LeaseMs), desert: make(chan struct{}), gone: make(chan struct{}),
	}
	at.alive, at.hush = context.WithCancelCause(w.life)
	at.ctx, at.stop = context.WithCancelCause(at.alive)
	at.stream = newStream(at.alive, w, a.Ref, tail{}, at)
	at.chatter = &chatter{at: at}
	return at
}

// cancelled passes a cancel request on to the handler.
func (at *attempt) cancelled(reason string) {
	if reason == "" {
		at.stop(ErrCancelled)
		return
	}
	at.stop(fmt.Errorf("%w: %s", ErrCancelled, reason))
}

// silence ends everything of an attempt that is no longer ours. Once its end is on the way only the answer
// to that counts: a renewal that crossed it is told that the attempt is over because the end was taken.
func (at *attempt) silence() {
	if !at.ending.Load() {
		at.hush(ErrStale)
	}
}

func (at *attempt) silent() bool { return at.alive.Err() != nil }

// run carries the attempt out and sees to it that its end is answered.
func (at *attempt) run() {
	defer at.forget()
	ended := make(chan ending, 1)
	go func() {
		ended <- at.call() // before the slot is free: whoever waits for quiet may then desert what is left
		at.w.release(at.pool)
	}()
	var e ending
	select {
	case e = <-ended:
	case <-at.desert:
		select {
		case e = <-ended: // in the same moment
		default:
			e = handBack(at.handler.safety, context.Cause(at.ctx))
		}
	}
	at.w.deliver(at, e)
}

// forget drops the attempt from what is held.
func (at *attempt) forget() {
	at.stream.close()
	at.chatter.close()
	at.hush(context.Canceled)
	at.w.mu.Lock()
	defer at.w.mu.Unlock()
	delete(at.w.held, at.AttemptID)
	at.w.move()
	close(at.gone)
}

// call runs the handler, whatever it does.
func (at *attempt) call() (e ending) {
	if at.handler.run == nil { // only a control plane that mixes workers up sends this
		return unbegun(errors.New("this worker has no handler for it"))
	}
	if cause := context.Cause(at.ctx); errors.Is(cause, ErrStopping) { // leased while the work was handed back
		return unbegun(cause)
	}
	if at.DeadlineMs > 0 {
		ended := make(chan struct{})
		defer close(ended)
		expires := at.w.clock.After(time.Duration(at.DeadlineMs) * time.Millisecond)
		at.w.work.Go(func() {
			select {
			case <-expires:
				at.stop(context.DeadlineExceeded)
			case <-ended:
			case <-at.alive.Done():
			}
		})
	}
	returned := false
	defer func() {
		if returned {
			return
		}
		v := recover()
		if v == nil {
			v = "it ended its goroutine"
		}
		at.w.log.Error("a handler panicked", slog.String("task", at.TaskID), slog.String("type", at.Type),
			slog.Any("panic", v), slog.String("stack", string(debug.Stack())))
		e = panicked(v)
	}()
	value, err := at.handler.run(at.ctx, at.task())
	var cause error
	if at.ctx.Err() != nil {
		cause = context.Cause(at.ctx)
	}
	var result []byte
	if err == nil {
		result, err = encodeResult(value)
	}
	e = endOf(at.handler.safety, result, err, cause)
	if e.kind == endComplete && len(result) > tasks.MaxInline {
		e = tooLarge(len(result))
	}
	returned = true
	return e
}

func (at *attempt) task() *Task {
	return &Task{
		ID: at.TaskID, AttemptID: at.AttemptID, Number: at.Number, EffectKey: at.EffectKey,
		Type: at.Type, SchemaVersion: at.SchemaVersion, Pool: at.Pool, Correlations: at.Correlations, Input: at.Input,
		at: at,
	}
}

// encodeResult is v as JSON, without the escapes that are for web pages only.
func encodeResult(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the handler's result: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
