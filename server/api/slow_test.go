package api

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// Whoever sends a body a byte at a time, or not at all, is refused when its time is up, and holds no
// handler and no connection; on a documented operation as on a plain one.
func TestABodyThatDoesNotComeIn(t *testing.T) {
	t.Parallel()
	a := New(Info{Version: "test", Clock: clock.System, Logger: slog.New(slog.DiscardHandler), BodyTime: 50 * time.Millisecond}, Parts{Meters: NewMeters()})
	a.mux.Handle("POST /plain", a.guard(anyone, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var v any
		a.fail(w, r, readJSON(r, &v))
	})))
	srv := httptest.NewServer(a)
	defer srv.Close()
	for _, path := range []string{"/api/login", "/plain"} {
		conn, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close() //nolint:errcheck // read only
		if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"token\":", path); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn) // to the end of the connection
		if err != nil {
			t.Fatalf("%s: %v after %s", path, err, text)
		}
		head, body, _ := strings.Cut(string(text), "\r\n\r\n")
		var coded struct{ Error fault.Error }
		if err := json.Unmarshal([]byte(body), &coded); err != nil || coded.Error.Code != fault.Malformed || coded.Error.Field != "body" || !strings.Contains(head, " 400 ") {
			t.Errorf("%s: %s", path, text)
		}
	}
}

// reads is a connection that keeps which read deadline it has.
type reads struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (r *reads) SetReadDeadline(at time.Time) error {
	r.until = at
	return nil
}

// The deadline is the body's alone: what parks or streams after it is not ended by it.
func TestTheDeadlineEndsWithTheBody(t *testing.T) {
	t.Parallel()
	a, _ := bare(t)
	for _, c := range []struct {
		rule rule
		want time.Duration
	}{{anyone, 30 * time.Second}, {anyone.upTo(8 << 20), 86 * time.Second}, {anyone.upTo(maxReports), 150 * time.Second}} {
		w := &reads{ResponseRecorder: httptest.NewRecorder()}
		began := time.Now()
		a.guard(c.rule, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if w.until.Before(began.Add(c.want)) || w.until.After(time.Now().Add(c.want)) {
				t.Errorf("a body of %d bytes has until %v", c.rule.limit(), w.until)
			}
			if _, err := io.ReadAll(r.Body); err != nil || !w.until.IsZero() {
				t.Errorf("after the body there is a deadline, %v, %v", w.until, err)
			}
		})).ServeHTTP(w, httptest.NewRequest("POST", "/", strings.NewReader("{}")))
		a.guard(c.rule, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			if !w.until.IsZero() {
				t.Errorf("a request without a body has until %v", w.until)
			}
		})).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	}
}
