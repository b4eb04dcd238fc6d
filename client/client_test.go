package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
)

// hasty is a clock whose short waits are over at once; the long ones, which guard against silence,
// are real.
type hasty struct{ clock.Clock }

func (h hasty) After(d time.Duration) <-chan time.Time {
	if d >= 50*time.Second {
		return h.Clock.After(d)
	}
	ch := make(chan time.Time, 1)
	ch <- h.Now()
	return ch
}

func newClient(t *testing.T, o client.Options) *client.Client {
	t.Helper()
	if o.Clock == nil {
		o.Clock = hasty{clock.System}
	}
	c, err := client.New(o)
	if err != nil {
		t.Fatalf("client.New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

func serve(t *testing.T, h http.HandlerFunc) (*client.Client, *httptest.Server) {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return newClient(t, client.Options{BaseURL: srv.URL, Credential: "key1", Project: "p1"}), srv
}

func wantCode(t *testing.T, err error, code fault.Code, words ...string) *fault.Error {
	t.Helper()
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != code {
		t.Fatalf("error = %v (code %s), want code %s", err, fault.CodeOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
	return f
}

func TestPlainHTTPOnlyToLoopback(t *testing.T) {
	for _, base := range []string{"http://localhost:8090", "http://127.0.0.1:1", "http://127.9.9.9", "http://[::1]:1/x", "https://example.com"} {
		if _, err := client.New(client.Options{BaseURL: base}); err != nil {
			t.Errorf("New(%s): %v", base, err)
		}
	}
	for _, base := range []string{"http://example.com", "http://10.0.0.1:8090", "http://localhost.example.com", "http://127.0.0.1.example.com"} {
		_, err := client.New(client.Options{BaseURL: base})
		wantCode(t, err, fault.Invalid, "https", "--insecure-http")
		if _, err := client.New(client.Options{BaseURL: base, InsecureHTTP: true}); err != nil {
			t.Errorf("New(%s, InsecureHTTP): %v", base, err)
		}
	}
	for _, base := range []string{"", "localhost:8090", "ftp://localhost", "https://user:pw@example.com", "https://example.com/?a=b"} {
		_, err := client.New(client.Options{BaseURL: base})
		if f := wantCode(t, err, fault.Invalid); f.Field != "baseUrl" {
			t.Errorf("New(%q): field %q", base, f.Field)
		}
	}
}

func TestPin(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"proto":"` + r.Proto + `"}`))
	}))
	srv.EnableHTTP2 = true
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are the test
	srv.StartTLS()
	t.Cleanup(srv.Close)
	right := client.PinOf(srv.Certificate().RawSubjectPublicKeyInfo)
	wrong := "sha256//" + strings.Repeat("A", 43) + "="

	var got struct{ Proto string }
	for _, pin := range []string{right, wrong + ";" + right} {
		c := newClient(t, client.Options{BaseURL: srv.URL, Pin: pin})
		if err := c.Do(t.Context(), "GET", "/", nil, &got); err != nil || got.Proto != "HTTP/2.0" {
			t.Errorf("with pin %s: %+v, %v; want HTTP/2.0", pin, got, err)
		}
	}
	c := newClient(t, client.Options{BaseURL: srv.URL, Pin: wrong})
	f := wantCode(t, c.Do(t.Context(), "GET", "/", nil, &got), fault.Unavailable, wrong, right)
	if f.Field != "pin" {
		t.Errorf("field = %q, want pin", f.Field)
	}
	c = newClient(t, client.Options{BaseURL: srv.URL})
	wantCode(t, c.Do(t.Context(), "GET", "/", nil, &got), fault.Unavailable, "not trusted", "--pin")

	for _, bad := range []string{"md5//abc", "sha256//short", right + ";", "sha256//" + strings.Repeat("A", 44)} {
		_, err := client.New(client.Options{BaseURL: srv.URL, Pin: bad})
		wantCode(t, err, fault.Invalid, "pin")
	}
	_, err := client.New(client.Options{BaseURL: "http://localhost:1", Pin: right})
	wantCode(t, err, fault.Invalid, "no TLS key")
}

func TestPlainServerBehindHTTPS(t *testing.T) {
	_, srv := serve(t, func(http.ResponseWriter, *http.Request) {})
	c := newClient(t, client.Options{BaseURL: "https://" + strings.TrimPrefix(srv.URL, "http://")})
	wantCode(t, c.Do(t.Context(), "GET", "/", nil, nil), fault.Unavailable, "plain http")
}

func TestLocalhostTriesBothFamilies(t *testing.T) {
	for _, ip := range []string{"127.0.0.1", "::1"} {
		l, err := net.Listen("tcp", net.JoinHostPort(ip, "0"))
		if err != nil {
			t.Fatalf("listen on %s: %v", ip, err)
		}
		srv := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
		done := make(chan struct{})
		go func() { defer close(done); _ = srv.Serve(l) }()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c := newClient(t, client.Options{BaseURL: "http://localhost:" + port})
		if err := c.Do(t.Context(), "GET", "/", nil, nil); err != nil {
			t.Errorf("server on %s by the name localhost: %v", ip, err)
		}
		_ = srv.Close()
		<-done
	}
}

func TestNobodyListens(t *testing.T) {
	base := fmt.Sprintf("http://127.0.0.1:%d", testkit.FreePort(t))
	c := newClient(t, client.Options{BaseURL: base})
	wantCode(t, c.Do(t.Context(), "GET", "/", nil, nil), fault.Unavailable, base, "connection refused", "interlock serve")
}

func TestCancelledCallerIsNoFault(t *testing.T) {
	c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Do(ctx, "GET", "/", nil, nil, client.WithRetry(0)); !errors.Is(err, context.Canceled) {
		t.Fatalf("error = %v, want context.Canceled", err)
	}
}

func TestServerThatNeverAnswers(t *testing.T) {
	c, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	err := c.Do(t.Context(), "GET", "/", nil, nil, client.WithTimeout(20*time.Millisecond))
	wantCode(t, err, fault.Unavailable, "did not answer within 20ms")
}
