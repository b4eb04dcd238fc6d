package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"runtime/debug"
	"strings"
	"time"

	"interlock.sh/fault"
)

// observe numbers, logs and times every request. Queries, bodies and credentials stay out of the log.
func (a *API) observe(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := a.info.Clock.Now()
		req := requestID(r)
		r = r.WithContext(context.WithValue(r.Context(), requestKey{}, req))
		w.Header().Set("X-Request-Id", req)
		sw := &statusWriter{ResponseWriter: w}
		a.Meters.inFlight.Inc()
		defer func() {
			if broke := recover(); broke != nil {
				a.panicked(sw, r, broke)
			}
			a.Meters.inFlight.Dec()
			took := a.info.Clock.Now().Sub(began)
			if sw.status == 0 {
				sw.status = http.StatusOK // what net/http sends of a handler that wrote nothing
			}
			a.Meters.request(r, sw.status, took)
			level := slog.LevelDebug
			if sw.status >= 500 {
				level = slog.LevelWarn
			}
			a.info.Logger.LogAttrs(r.Context(), level, "request", slog.String("id", req), slog.String("from", a.from(r)), slog.String("method", r.Method),
				slog.String("route", r.Pattern), slog.Int("status", sw.status), slog.Duration("took", took.Round(time.Microsecond)))
		}()
		next.ServeHTTP(sw, r)
	})
}

// panicked answers a request whose handler broke, so that one fault does not look like a dead server.
func (a *API) panicked(w *statusWriter, r *http.Request, broke any) {
	err, ok := broke.(error)
	if !ok {
		err = fmt.Errorf("%v", broke)
	}
	if errors.Is(err, http.ErrAbortHandler) {
		panic(broke) // the way to break a connection off
	}
	began := w.status != 0
	a.fail(w, r, fault.Wrap(fmt.Errorf("panic: %w\n%s", err, debug.Stack()), fault.Internal, "internal error").
		WithHint("the server's log has the cause under this request's id"))
	if began {
		panic(http.ErrAbortHandler) // or half an answer would look like a whole one
	}
}

// from is the caller's address: the peer's, or what a trusted proxy says of it.
func (a *API) from(r *http.Request) string {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	addr := peer.Addr().Unmap()
	hops := strings.Split(r.Header.Get("X-Forwarded-For"), ",")
	for i := len(hops) - 1; i >= 0 && a.trusts(addr); i-- {
		next, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			break
		}
		addr = next.Unmap()
	}
	return addr.String()
}

func (a *API) trusts(addr netip.Addr) bool {
	for _, p := range a.info.TrustedProxies {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// statusWriter remembers the status for the log. Unwrap keeps flushing and deadlines reachable.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader remembers the first status.
func (w *statusWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write remembers the status that a body without one has.
func (w *statusWriter) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
