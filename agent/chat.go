package agent

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/worker"
)

// chat answers one ai/chat@1 attempt with the model server of its deployment and streams the answer.
func (a *Agent) chat(ctx context.Context, t *worker.Task) (any, error) {
	var in ai.ChatInput
	if err := t.Decode(&in); err != nil {
		return nil, err
	}
	s := a.serving(in.DeploymentID)
	if s == nil {
		return nil, worker.Retryable(fault.New(fault.Unavailable, "deployment %s is not served here any more", in.Alias))
	}
	request, err := a.request(ctx, in.Request)
	if err != nil {
		return nil, err
	}
	model, lease, err := s.lease()
	if err != nil {
		return nil, worker.Retryable(err)
	}
	answer := &answer{out: t, began: a.clock.Now()}
	reading := func() { t.Progress(0, "the model reads the prompt") }
	err = a.watched(ctx, answer, reading, func(ctx context.Context) error { return answer.ask(ctx, model, request) })
	lease.Done(err == nil)
	if err != nil {
		return nil, a.failed(ctx, s, err)
	}
	res := answer.result(a.clock.Now())
	s.spoke(res.TokensPerSecond)
	return res, nil
}

// A model server that is healthy but wedged takes a request and never goes on. Reading a long prompt on
// a small machine may take minutes; between two tokens a minute is an eternity.
const (
	firstWithin = 15 * time.Minute
	nextWithin  = time.Minute
	watchEvery  = 15 * time.Second
	// A server that has neither answered nor refused by then has the request. It sends no header before
	// it has read the whole prompt, so there is nothing earlier to see. An answer that begins sooner
	// speaks for itself and costs no report.
	hasItAfter = time.Second
)

var errWedged = errors.New("the model server stopped answering in the middle of a request")

// watched runs ask and gives it up when the model stands still for too long. While the answer waits to
// be passed on, which a control plane that is away makes it do, the model is not to blame. reading is
// called once when the model has the request and its first word takes a while: such an attempt is billed,
// also when it ends before that word.
func (a *Agent) watched(ctx context.Context, w *answer, reading func(), ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- ask(ctx) }()
	seen, since := int64(0), a.clock.Now()
	for look := hasItAfter; ; look = watchEvery {
		select {
		case err := <-done:
			return err
		case <-a.clock.After(look):
		}
		if look == hasItAfter && w.chunks.Load() == 0 {
			reading()
		}
		now := a.clock.Now()
		if n := w.chunks.Load(); n != seen || w.passing.Load() {
			seen, since = n, now
			continue
		}
		limit := firstWithin
		if seen > 0 {
			limit = nextWithin
		}
		if now.Sub(since) >= limit {
			cancel(errWedged)
			if err := <-done; err == nil {
				return nil // the end came in that very moment
			}
			return errWedged
		}
	}
}

// failed decides whether another machine may try. A refusal by the model server is final: it would
// refuse again; a connection that broke is not.
func (a *Agent) failed(ctx context.Context, s *serving, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refused *modelError
	if errors.As(err, &refused) && refused.final() {
		return worker.Fail(refused.Type, refused.Message)
	}
	if errors.Is(err, errPassOn) {
		return worker.Retryable(err)
	}
	s.doubt(err.Error())
	return worker.Retryable(fault.Wrap(err, fault.Unavailable, "the model server broke off: %v", err))
}

// request fetches the body of the chat.
func (a *Agent) request(ctx context.Context, ref ai.BlobRef) ([]byte, error) {
	if ref.Size > ai.MaxBody {
		return nil, fault.New(fault.TooLarge, "the request has %d bytes; the limit is %d", ref.Size, ai.MaxBody)
	}
	b, err := a.control.ReadBlob(ctx, client.Ref{SHA256: ref.SHA256, Size: ref.Size})
	if err != nil {
		return nil, worker.Retryable(err)
	}
	var body map[string]json.RawMessage
	if err := json.Unmarshal(b, &body); err != nil {
		return nil, fault.Wrap(err, fault.Malformed, "the request is no JSON object")
	}
	body["stream"] = json.RawMessage("true")
	body["stream_options"] = json.RawMessage(`{"include_usage":true}`)
	return json.Marshal(body)
}
