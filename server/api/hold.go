package api

import (
	"context"
	"errors"
	"net/http"

	"interlock.sh/fault"
	"interlock.sh/server/hints"
)

// plainHandler is a handler outside of huma.
type plainHandler = func(http.ResponseWriter, *http.Request) error

// streams serves a handler that keeps its answer open, and counts it.
func (a *API) streams(handle plainHandler) plainHandler {
	return a.holds(func(w http.ResponseWriter, r *http.Request) error {
		a.Meters.streams.Inc()
		defer a.Meters.streams.Dec()
		return handle(w, r)
	})
}

// parks counts the requests that wait before they answer.
func (a *API) parks(handle plainHandler) plainHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		a.Meters.parked.Inc()
		defer a.Meters.parked.Dec()
		return handle(w, r)
	}
}

// holds serves a handler that outlasts the guard's look at the credential, whileValid.
func (a *API) holds(handle plainHandler) plainHandler {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, stop := a.whileValid(r.Context())
		defer stop()
		return orRevoked(ctx, handle(w, r.WithContext(ctx)))
	}
}

// orRevoked is an error, or the revocation that ended its context, however the handler met that.
func orRevoked(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, fault.Revoked) {
		return cause
	}
	return err
}

// whileValid is a context that ends, with fault.Revoked as the cause, when the caller's credential is
// revoked. stop must be called.
func (a *API) whileValid(ctx context.Context) (_ context.Context, stop func()) {
	ctx, end := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.endWhenRevoked(ctx, end)
	}()
	return ctx, func() {
		end(nil)
		<-ended
	}
}

// endWhenRevoked looks at the credential of a context at once, which may have been revoked since the
// guard's look, then at every hint, and from time to time in case that one is lost.
func (a *API) endWhenRevoked(ctx context.Context, end context.CancelCauseFunc) {
	p := caller(ctx)
	changed := make(chan struct{}, 1)
	defer a.Hints.Join(hints.Key(p.KeyID), changed)()
	if p.Machine != "" {
		defer a.Hints.Join(hints.Machine(p.Machine), changed)() // its credential goes with it
	}
	for {
		if err := a.Auth.StillValid(ctx, p); errors.Is(err, fault.Revoked) {
			end(err)
			return
		}
		select {
		case <-changed:
		case <-a.info.Clock.After(heartbeat):
		case <-ctx.Done():
			return
		}
	}
}
