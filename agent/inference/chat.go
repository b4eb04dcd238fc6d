package inference

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"interlock.sh/ai"
	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/llama"
	"interlock.sh/worker"
)

// Out is where an answer goes while it is given; *worker.Task is one.
type Out interface {
	io.Writer
	Progress(percent float64, message string)
}

// Chat asks a model server and passes its answer on, chunk by chunk. What its error means for the
// attempt, Failure says.
func Chat(ctx context.Context, clk clock.Clock, model *llama.Client, request []byte, out Out) (ai.ChatResult, error) {
	w := &answer{out: out, began: clk.Now()}
	reading := func() { out.Progress(0, "the model reads the prompt") }
	err := watched(ctx, clk, w, reading, func(ctx context.Context) error { return w.ask(ctx, model, request) })
	if err != nil {
		return ai.ChatResult{}, err
	}
	return w.result(clk.Now()), nil
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
func watched(ctx context.Context, clk clock.Clock, w *answer, reading func(), ask func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- ask(ctx) }()
	seen, since := int64(0), clk.Now()
	for look := hasItAfter; ; look = watchEvery {
		select {
		case err := <-done:
			return err
		case <-clk.After(look):
		}
		if look == hasItAfter && w.chunks.Load() == 0 {
			reading()
		}
		now := clk.Now()
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

// Failure is what is reported of an attempt whose Chat failed, and whether the model server is to be
// doubted for it. A refusal by the model server is final: it would refuse again, wherever it is; after a
// connection that broke, another machine may try.
func Failure(ctx context.Context, err error) (report error, doubt bool) {
	if ctx.Err() != nil {
		return context.Cause(ctx), false
	}
	var refused *modelError
	if errors.As(err, &refused) && refused.final() {
		return worker.Fail(refused.Type, refused.Message), false
	}
	if errors.Is(err, errPassOn) {
		return worker.Retryable(err), false
	}
	return worker.Retryable(fault.Wrap(err, fault.Unavailable, "the model server broke off: %v", err)), true
}

// Blobs is where the bodies of requests are; *client.Client is one.
type Blobs interface {
	ReadBlob(ctx context.Context, want client.Ref) ([]byte, error)
}

// Request fetches the body of a chat, checked by its hash, and makes it a stream with its usage.
func Request(ctx context.Context, blobs Blobs, ref ai.BlobRef) ([]byte, error) {
	if ref.Size > ai.MaxBody {
		return nil, fault.New(fault.TooLarge, "the request has %d bytes; the limit is %d", ref.Size, ai.MaxBody)
	}
	b, err := blobs.ReadBlob(ctx, client.Ref{SHA256: ref.SHA256, Size: ref.Size})
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
