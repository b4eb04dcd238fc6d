package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

func TestDoSendsAndDecodes(t *testing.T) {
	type seen struct{ Method, Path, Query, Auth, Agent, Type, Body, ID string }
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_ = json.NewEncoder(w).Encode(seen{
			r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Get("Authorization"),
			r.UserAgent(), r.Header.Get("Content-Type"), string(body), r.Header.Get("X-Request-Id"),
		})
	})
	var got seen
	err := c.Do(t.Context(), "PUT", "/api/x/a%2Fb", map[string]int{"n": 1}, &got,
		client.WithParam("q", "ä b"), client.WithHeader("X-Request-Id", "id1"))
	if err != nil {
		t.Fatal(err)
	}
	want := seen{"PUT", "/api/x/a%2Fb", "project=p1&q=%C3%A4+b", "Bearer key1", "interlock-go", "application/json", `{"n":1}`, "id1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := c.Do(t.Context(), "GET", "/", nil, &got, client.WithParam("project", "other")); err != nil {
		t.Fatal(err)
	}
	if got.Query != "project=other" {
		t.Errorf("query = %q", got.Query)
	}
	if got.ID == "" || got.Type != "" {
		t.Errorf("request id %q, content type %q of a call without body", got.ID, got.Type)
	}
	if c.WithProject("p2").WithCredential("k2").Do(t.Context(), "GET", "/", nil, &got) != nil || got.Query != "project=p2" || got.Auth != "Bearer k2" {
		t.Errorf("derived client sent %+v", got)
	}
}

// answers are the shapes in which a refusal comes, and what each must be read as.
func TestAnswers(t *testing.T) {
	const html = "text/html; charset=utf-8"
	const js = "application/json"
	for name, tc := range map[string]struct {
		status        int
		typ, body     string
		header        [2]string
		code          fault.Code
		words         string
		retryAfter    time.Duration
		transient     bool
		deniedDetails map[string]any
	}{
		"coded": {
			status: 409, typ: js, code: fault.StaleAttempt, words: "too old (claim again)",
			body:          `{"error":{"code":"STALE_ATTEMPT","message":"too old","hint":"claim again","field":"fence","details":{"fence":7}}}`,
			deniedDetails: map[string]any{"fence": 7.0},
		},
		"a code of a newer server": {status: 409, typ: js, body: `{"error":{"code":"NEW_ONE","message":"m"}}`, code: "NEW_ONE", words: "m"},
		"json without a code":      {status: 404, typ: js, body: `{"error":{"message":"m"}}`, code: fault.NotFound, words: "m"},
		"bare 401":                 {status: 401, code: fault.Unauthenticated, words: "Unauthorized"},
		"bare 404 text":            {status: 404, typ: "text/plain", body: "404 page not found\n", code: fault.NotFound, words: "404 page not found"},
		"torn json":                {status: 503, typ: js, body: `{"error":`, code: fault.Unavailable, words: "503", transient: true},
		"retry-after seconds": {
			status: 503, header: [2]string{"Retry-After", "7"}, code: fault.Unavailable, words: "503",
			retryAfter: 7 * time.Second, transient: true,
		},
		"retry-after by the body": {
			status: 429, typ: js, header: [2]string{"Retry-After", "7"}, code: fault.QueueFull, words: "full",
			body:       `{"error":{"code":"QUEUE_FULL","message":"full","details":{"retryAfterSeconds":3}}}`,
			retryAfter: 3 * time.Second, transient: true,
		},
		"portal 200": {status: 200, typ: html, body: "<html>Welcome", code: fault.CaptivePortal, words: "a login page answered instead of http://127.0.0.1:", transient: true},
		"portal 302": {status: 302, header: [2]string{"Location", "http://portal.lan:8080/login?from=x"}, code: fault.CaptivePortal, words: "redirects to portal.lan:8080", transient: true},
		"portal 307": {status: 307, typ: html, header: [2]string{"Location", "//portal.lan/"}, code: fault.CaptivePortal, words: "sign in", transient: true},
		"portal 511": {status: 511, typ: html, code: fault.CaptivePortal, words: "sign in", transient: true},
		"portal 511, no page": {
			status: 511, typ: js, body: `{}`, code: fault.CaptivePortal, words: "captive portal?", transient: true,
		},
		"to https":      {status: 301, header: [2]string{"Location", "https://127.0.0.1/x"}, code: fault.Unavailable, words: "redirects to https://127.0.0.1/x", transient: true},
		"to a path":     {status: 308, header: [2]string{"Location", "/sub/x"}, code: fault.Unavailable, words: "redirects to /sub/x", transient: true},
		"proxy 403":     {status: 403, typ: html, code: fault.Unavailable, words: "something between", transient: true},
		"proxy 404":     {status: 404, typ: html, code: fault.Unavailable, words: "something between", transient: true},
		"nginx 502":     {status: 502, typ: html, code: fault.Unavailable, words: "something between", transient: true},
		"nginx 413":     {status: 413, typ: html, code: fault.TooLarge, words: "something between"},
		"text for json": {status: 200, typ: "text/plain", body: "hi", code: fault.Unavailable, words: "text/plain", transient: true},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = nil
				if tc.typ != "" {
					w.Header().Set("Content-Type", tc.typ)
				}
				if tc.header[0] != "" {
					w.Header().Set(tc.header[0], tc.header[1])
				}
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			var out struct{}
			err := c.Do(t.Context(), "POST", "/x", nil, &out)
			f := wantCode(t, err, tc.code, tc.words)
			if got := client.StatusOf(err); got != tc.status {
				t.Errorf("StatusOf = %d", got)
			}
			if got := client.RetryAfter(err); got != tc.retryAfter {
				t.Errorf("RetryAfter = %s", got)
			}
			if got := client.Transient(err); got != tc.transient {
				t.Errorf("Transient = %v", got)
			}
			if diff := cmp.Diff(tc.deniedDetails, f.Details); tc.deniedDetails != nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRetryAfterAsDate(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		// A server whose clock is years away: only the difference to its own date counts.
		at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
		w.Header().Set("Date", at.Format(http.TimeFormat))
		w.Header().Set("Retry-After", at.Add(90*time.Second).Format(http.TimeFormat))
		w.WriteHeader(503)
	})
	if got := client.RetryAfter(c.Do(t.Context(), "GET", "/", nil, nil)); got != 90*time.Second {
		t.Errorf("RetryAfter = %s, want 90s", got)
	}
}

func TestServerTimeSkew(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", now.Add(-time.Hour).Format(http.TimeFormat))
	})
	c := newClient(t, client.Options{BaseURL: srv.URL, Clock: clock.NewFake(now)})
	if got := c.ServerTimeSkew(); got != 0 {
		t.Errorf("before the first answer: %s", got)
	}
	if err := c.Do(t.Context(), "GET", "/", nil, nil); err != nil {
		t.Fatal(err)
	}
	if got := c.ServerTimeSkew(); got != -time.Hour+500*time.Millisecond {
		t.Errorf("skew = %s, want an hour behind, to half a second", got)
	}
}

func TestAnswerOverTheLimit(t *testing.T) {
	length := 16<<20 - 2 // with its quotes the largest answer that is taken
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `"`+strings.Repeat("x", length)+`"`)
	})
	var s string
	if err := c.Do(t.Context(), "GET", "/", nil, &s); err != nil || len(s) != length {
		t.Errorf("at the limit: %d bytes, %v", len(s), err)
	}
	length++
	wantCode(t, c.Do(t.Context(), "GET", "/", nil, &s), fault.TooLarge, "16777216 bytes")
}

func TestTornAnswerIsUnavailable(t *testing.T) {
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"a":1}`)
	})
	var out any
	wantCode(t, c.Do(t.Context(), "GET", "/", nil, &out), fault.Unavailable, "connection broke")
}

func TestRetry(t *testing.T) {
	calls, failures := 0, 3
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		calls++
		body, _ := io.ReadAll(r.Body)
		if string(body) != `"in"` {
			t.Errorf("try %d has the body %q", calls, body)
		}
		if calls <= failures {
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(503)
		}
	})
	if err := c.Do(t.Context(), "POST", "/", "in", nil, client.WithRetry(0)); err != nil || calls != 4 {
		t.Errorf("until it answers: %v after %d calls", err, calls)
	}
	calls, failures = 0, 100
	wantCode(t, c.Do(t.Context(), "POST", "/", "in", nil, client.WithRetry(3)), fault.Unavailable)
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
	calls = 0
	wantCode(t, c.Do(t.Context(), "POST", "/", "in", nil), fault.Unavailable)
	if calls != 1 {
		t.Errorf("%d calls without WithRetry", calls)
	}
	// A wait beyond the deadline is not begun, and both reasons are told.
	calls = 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := c.Do(ctx, "POST", "/", "in", nil, client.WithRetry(0))
	wantCode(t, err, fault.Unavailable)
	if !errors.Is(err, context.DeadlineExceeded) || calls != 1 {
		t.Errorf("past the deadline: %v after %d calls", err, calls)
	}
}

func TestRetryHonoursRetryAfter(t *testing.T) {
	fake := clock.NewFake(time.Now())
	second := make(chan struct{})
	calls := 0
	_, srv := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(429)
			return
		}
		close(second)
	})
	c := newClient(t, client.Options{BaseURL: srv.URL, Clock: fake})
	done := make(chan error, 1)
	go func() { done <- c.Do(t.Context(), "GET", "/", nil, nil, client.WithRetry(0)) }()
	fake.AwaitWaiters(1)
	fake.Advance(30*time.Second - 1)
	select {
	case <-second:
		t.Fatal("the second try came before Retry-After was over")
	default:
	}
	fake.Advance(1)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestDefinitiveIsNotRetried(t *testing.T) {
	calls := 0
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) { calls++; w.WriteHeader(403) })
	wantCode(t, c.Do(t.Context(), "GET", "/", nil, nil, client.WithRetry(0)), fault.ScopeDenied)
	if calls != 1 {
		t.Errorf("%d calls", calls)
	}
}
