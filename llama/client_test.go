package llama

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
)

const key = "the-key"

// guarded answers like a llama-server that was given the key.
func guarded(paths map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" && r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}`)
			return
		}
		answer, ok := paths[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotImplemented)
			return
		}
		_, _ = io.WriteString(w, answer)
	}
}

func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	c := NewClient(srv.URL, key)
	t.Cleanup(c.CloseStreams)
	return c
}

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func TestHealthOfOurs(t *testing.T) {
	c := serve(t, guarded(map[string]string{"/health": `{"status":"ok"}`, "/props": `{}`}))
	if s, err := c.Health(t.Context()); s != OK || err != nil {
		t.Errorf("%v, %v; want ok", s, err)
	}
	loading := serve(t, status(503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`))
	if s, err := loading.Health(t.Context()); s != Loading || err != nil {
		t.Errorf("%v, %v; want loading", s, err)
	}
}

func TestHealthOfForeign(t *testing.T) {
	other := func(accepts string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/props" && r.Header.Get("Authorization") != "Bearer "+accepts {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}
	}
	for name, h := range map[string]http.HandlerFunc{
		"a llama-server without a key":     status(200, `{"status":"ok"}`),
		"a llama-server with another key":  other("another"),
		"a web server":                     status(404, "not here"),
		"a redirect":                       status(302, ""),
		"a server that wants a log-in":     status(401, ""),
		"an old server without /props":     guarded(map[string]string{"/health": "ok"}),
		"a server that accepts our health": func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "ok") },
	} {
		s, err := serve(t, h).Health(t.Context())
		if s != Foreign || !errors.Is(err, fault.Conflict) {
			t.Errorf("%s: %v, %v; want foreign", name, s, err)
		}
	}
}

// listen answers each connection with the given function.
func listen(t *testing.T, answer func(net.Conn)) *Client {
	t.Helper()
	l, err := net.Listen("tcp4", Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answer(conn)
		}
	}()
	return NewClient("http://"+l.Addr().String(), key)
}

func TestHealthWithoutHTTP(t *testing.T) {
	l, err := net.Listen("tcp4", Host+":0")
	if err != nil {
		t.Fatal(err)
	}
	free := "http://" + l.Addr().String()
	_ = l.Close()
	if s, err := NewClient(free, key).Health(t.Context()); s != Refused || err == nil {
		t.Errorf("nobody listens: %v, %v; want refused", s, err)
	}
	ssh := listen(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n"); _ = c.Close() })
	if s, err := ssh.Health(t.Context()); s != Foreign || err == nil {
		t.Errorf("another protocol: %v, %v; want foreign", s, err)
	}
	gone := listen(t, func(c net.Conn) { _ = c.Close() })
	if s, err := gone.Health(t.Context()); s != Unreachable || err == nil {
		t.Errorf("a connection that breaks: %v, %v; want unreachable", s, err)
	}
	held := make(chan net.Conn, 4)
	mute := listen(t, func(c net.Conn) { held <- c })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := mute.Health(ctx); s != Silent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a server that never answers: %v, %v; want silent", s, err)
	}
	_ = (<-held).Close()
}

func TestVerifyProps(t *testing.T) {
	asked := Spec{Model: "/m/tiny.gguf", Alias: "tiny", ContextLength: 500, Slots: 2}
	good := Props{SlotContext: 512, Slots: 2, ModelPath: "/m/tiny.gguf", ModelAlias: "tiny"}
	if err := VerifyProps(good, asked); err != nil {
		t.Errorf("what was asked was refused: %v", err)
	}
	for want, change := range map[string]func(*Props){
		"499 tokens of context a slot, asked were 500":  func(p *Props) { p.SlotContext = 499 },
		"1024 tokens of context a slot, asked were 500": func(p *Props) { p.SlotContext = 1024 },
		"4 slots, asked were 2":                         func(p *Props) { p.Slots = 4 },
		"the model file other.gguf":                     func(p *Props) { p.ModelPath = "/m/other.gguf" },
		`the model name "x", asked was "tiny"`:          func(p *Props) { p.ModelAlias = "x" },
	} {
		p := good
		change(&p)
		if err := VerifyProps(p, asked); !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q in it", p, err, want)
		}
	}
}

func TestProbeFindsTheWedged(t *testing.T) {
	works := serve(t, guarded(map[string]string{"/completion": `{"content":"x","tokens_predicted":1}`}))
	if err := works.Probe(t.Context()); err != nil {
		t.Errorf("a server that computes: %v", err)
	}
	idle := serve(t, guarded(map[string]string{"/completion": `{"content":"","tokens_predicted":0}`}))
	if err := idle.Probe(t.Context()); err == nil {
		t.Error("a server that computes nothing passed")
	}
	broken := serve(t, status(500, `{"error":{"message":"failed to decode"}}`))
	if err := broken.Probe(t.Context()); err == nil || !strings.Contains(err.Error(), "failed to decode") {
		t.Errorf("a server that fails: %v", err)
	}
	// Health answers and the computation never ends: llama.cpp's wedged server.
	wedged := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/completion" {
			_, _ = io.Copy(io.Discard, r.Body) // or the server does not see the client go
			<-r.Context().Done()
			return
		}
		guarded(map[string]string{"/health": "{}", "/props": "{}"})(w, r)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if s, err := wedged.Health(ctx); s != OK {
		t.Fatalf("%v, %v; want ok", s, err)
	}
	if err := wedged.Probe(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wedged server: %v", err)
	}
}

func TestLoadIsAbsentWhenUnknown(t *testing.T) {
	none, err := serve(t, guarded(nil)).Load(t.Context())
	if err != nil || none != (Load{}) {
		t.Errorf("a build that offers neither: %+v, %v", none, err)
	}
	l, err := serve(t, guarded(map[string]string{
		"/slots": `[{"id":0,"is_processing":true},{"id":1,"is_processing":false}]`,
		"/metrics": "# HELP x\nllamacpp:predicted_tokens_seconds 0\nllamacpp:prompt_tokens_seconds 16.5\n" +
			"llamacpp:requests_deferred 3\nllamacpp:tokens_predicted_total 21\nllamacpp:tokens_predicted_seconds_total 0.5\n",
	})).Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprint(*l.Slots, *l.Busy, *l.Queued, *l.PromptPerSecond, *l.Tokens, *l.TokenSeconds, l.TokensPerSecond)
	if got != "2 1 3 16.5 21 0.5 <nil>" {
		t.Errorf("load %s", got)
	}
	if _, err := serve(t, status(500, "")).Load(t.Context()); err == nil {
		t.Error("a server that fails gave a load")
	}
}

func TestCloseStreamsEndsThemAndRefusesNewOnes(t *testing.T) {
	left := make(chan struct{})
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, "data: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	res, err := c.Chat(t.Context(), []byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if c.Active() != 1 {
		t.Errorf("%d active, want 1", c.Active())
	}
	c.CloseStreams()
	if _, err := io.ReadAll(res.Body); err == nil {
		t.Error("the stream ended as if it were whole")
	}
	<-left // the server sees it too
	_ = res.Body.Close()
	_ = res.Body.Close()
	if c.Active() != 0 {
		t.Errorf("%d active, want 0", c.Active())
	}
	if _, err := c.Chat(t.Context(), []byte(`{}`)); !errors.Is(err, fault.Unavailable) {
		t.Errorf("a request after the close: %v", err)
	}
}

// TestAConnectionClosedAfterAStreamIsNotUsedAgain: llama-server promises to keep the connection open and
// closes it after each streamed answer.
func TestAConnectionClosedAfterAStreamIsNotUsedAgain(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nKeep-Alive: timeout=5, max=100\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n")
		_ = conn.Close()
	})
	for range 50 {
		res, err := c.Chat(t.Context(), []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(res.Body); err != nil || string(b) != "done" {
			t.Fatalf("%q, %v", b, err)
		}
		_ = res.Body.Close()
	}
}

func TestClientUsesNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	c := serve(t, guarded(map[string]string{"/props": `{"total_slots":3}`}))
	if p, err := c.Props(t.Context()); err != nil || p.Slots != 3 {
		t.Errorf("%+v, %v", p, err)
	}
}
