package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

func streamOf(t *testing.T, h http.HandlerFunc) *client.Client {
	t.Helper()
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		h(w, r)
	})
	return c
}

func write(w http.ResponseWriter, s string) {
	_, _ = io.WriteString(w, s)
	_ = http.NewResponseController(w).Flush()
}

func readAll(t interface {
	Helper()
	Fatalf(string, ...any)
}, s *client.EventStream,
) (got []client.Event) {
	t.Helper()
	for {
		ev, err := s.Next()
		if errors.Is(err, io.EOF) {
			return got
		}
		if err != nil {
			t.Fatalf("Next: %v", err)
		}
		got = append(got, ev)
	}
}

// TestEventStreamParses sends one text with every line ending, cut at random places.
func TestEventStreamParses(t *testing.T) {
	const text = ": hello\n\nretry: 10\nid: a/1\nevent: delta\ndata: one\ndata:  two\ndata\n\n" +
		"data: x\n\n: heartbeat\n\nevent: lost\n\nid: 2\n\nid\ndata:y:z\nunknown: f\n\nid: no\x00pe\ndata: n\n\ndata: unfinished\n"
	want := []client.Event{
		{ID: "a/1", Event: "delta", Data: []byte("one\n two\n")},
		{ID: "a/1", Event: "message", Data: []byte("x")},
		{ID: "", Event: "message", Data: []byte("y:z")},
		{ID: "", Event: "message", Data: []byte("n")},
	}
	var pieces []string
	c := streamOf(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, p := range pieces {
			write(w, p)
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		rest := strings.ReplaceAll(text, "\n", rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(rt, "ending"))
		if rapid.Bool().Draw(rt, "bom") {
			rest = "\uFEFF" + rest
		}
		pieces = nil
		for rest != "" {
			n := min(len(rest), rapid.IntRange(1, 60).Draw(rt, "cut"))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		s, err := c.Stream(t.Context(), "/s", "")
		if err != nil {
			rt.Fatalf("Stream: %v", err)
		}
		defer s.Close()
		if diff := cmp.Diff(want, readAll(rt, s)); diff != "" {
			rt.Error(diff)
		}
	})
}

func TestEventIsDeliveredBeforeTheNextByte(t *testing.T) {
	c := streamOf(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, "data: now\r\r") // a reader that waits for the LF of a CRLF would hang here
		<-r.Context().Done()
	})
	s, err := c.Stream(t.Context(), "/s", "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if ev, err := s.Next(); err != nil || string(ev.Data) != "now" {
		t.Fatalf("Next = %+v, %v", ev, err)
	}
}

func TestEventLineLimit(t *testing.T) {
	n := 0
	c := streamOf(t, func(w http.ResponseWriter, _ *http.Request) { write(w, "data:"+strings.Repeat("x", n)+"\n\n") })
	for size, fits := range map[int]bool{1<<20 - 5: true, 1<<20 - 4: false} {
		n = size
		s, err := c.Stream(t.Context(), "/s", "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Next()
		if (err == nil) != fits || (!fits && !errors.Is(err, fault.TooLarge)) {
			t.Errorf("a line of %d bytes: %v", size+5, err)
		}
		_ = s.Close()
	}
}

func TestSilentStreamEnds(t *testing.T) {
	fake := clock.NewFake(time.Now())
	_, srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		write(w, "data: 1\n\n")
		<-r.Context().Done()
	})
	c := newClient(t, client.Options{BaseURL: srv.URL, Clock: fake})
	s, err := c.Stream(t.Context(), "/s", "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { _, err := s.Next(); done <- err }()
	fake.AwaitWaiters(1)
	fake.Advance(60 * time.Second)
	wantCode(t, <-done, fault.Unavailable, "silent for 1m0s")
}

func TestStreamRefusals(t *testing.T) {
	status, typ := 0, ""
	c, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", typ)
		w.WriteHeader(status)
	})
	status, typ = 200, "text/html"
	_, err := c.Stream(t.Context(), "/s", "")
	wantCode(t, err, fault.CaptivePortal, "a login page answered")
	status, typ = 502, "text/html"
	_, err = c.Stream(t.Context(), "/s", "")
	wantCode(t, err, fault.Unavailable, "something between")
	status, typ = 204, ""
	if _, err := c.Stream(t.Context(), "/s", ""); !errors.Is(err, io.EOF) {
		t.Errorf("204: %v, want io.EOF", err)
	}
	if err := c.Follow(t.Context(), "/s", "", nil); err != nil {
		t.Errorf("Follow of a stream that ended for good: %v", err)
	}
	status = 404
	wantCode(t, c.Follow(t.Context(), "/s", "", nil), fault.NotFound)
	status = 418
	wantCode(t, c.Follow(t.Context(), "/s", "", nil), fault.Invalid)
}

// TestFollow: broken, ended, refused and portal-answered connections in between, every event once.
func TestFollow(t *testing.T) {
	var froms []string
	c, _ := serve(t, func(w http.ResponseWriter, r *http.Request) {
		froms = append(froms, r.Header.Get("Last-Event-ID"))
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("Accept-Encoding = %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Type", "text/event-stream")
		switch len(froms) {
		case 1:
			write(w, "id: 1\ndata: a\n\nid: 2\ndata: b\n\nid: 3\ndata: torn")
			panic(http.ErrAbortHandler)
		case 2:
			w.WriteHeader(503)
		case 3:
			w.Header().Set("Content-Type", "text/html")
		case 4:
			write(w, "retry: 5\nid: 3\ndata: c\n\n") // and an orderly end
		default:
			write(w, "id: 4\ndata: d\n\n")
			<-r.Context().Done()
		}
	})
	got := ""
	err := c.Follow(t.Context(), "/s", "0", func(ev client.Event) error {
		if got += string(ev.Data); len(got) == 4 {
			return client.ErrStop
		}
		return nil
	})
	if err != nil || got != "abcd" {
		t.Errorf("Follow = %v after %q", err, got)
	}
	if diff := cmp.Diff([]string{"0", "2", "2", "2", "3"}, froms); diff != "" {
		t.Error(diff)
	}
}

func TestFollowEndsWithItsFunctionOrContext(t *testing.T) {
	c := streamOf(t, func(w http.ResponseWriter, r *http.Request) {
		write(w, "data: 1\n\n")
		<-r.Context().Done()
	})
	mine := errors.New("mine")
	if err := c.Follow(t.Context(), "/s", "", func(client.Event) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("error of the function: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Follow(ctx, "/s", "", func(client.Event) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("after cancel: %v", err)
	}
}
