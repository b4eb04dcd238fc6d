package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

// bare is an API without rooms, whose log can be read.
func bare(t *testing.T) (*API, *bytes.Buffer) {
	t.Helper()
	var log bytes.Buffer
	a := New(Info{
		Version: "test", Clock: clock.System, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	}, Parts{Meters: NewMeters()})
	return a, &log
}

// A handler that breaks answers like everything else, and its reader learns where the cause stands.
func TestAHandlerThatPanics(t *testing.T) {
	t.Parallel()
	a, log := bare(t)
	a.mux.HandleFunc("GET /boom", func(http.ResponseWriter, *http.Request) { panic("secret detail") })
	a.mux.HandleFunc("GET /late", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		panic(errors.New("too late"))
	})
	req := httptest.NewRequest("GET", "/boom", nil)
	req.Header.Set("X-Request-Id", "request-7")
	rec := httptest.NewRecorder()
	a.ServeHTTP(rec, req)
	var body struct{ Error fault.Error }
	if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != 500 || body.Error.Code != fault.Internal || strings.Contains(rec.Body.String(), "secret") {
		t.Errorf("%d %s %v", rec.Code, rec.Body, err)
	}
	if rec.Header().Get("X-Request-Id") != "request-7" {
		t.Errorf("request id %q", rec.Header().Get("X-Request-Id"))
	}
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "secret detail") && !strings.Contains(line, "id=request-7") {
			t.Errorf("the cause cannot be found by the id: %s", line)
		}
	}
	if !strings.Contains(log.String(), "secret detail") || !strings.Contains(log.String(), "router_test.go") {
		t.Errorf("the log does not say what broke, and where: %s", log)
	}
	defer func() {
		broke := recover()
		if err, _ := broke.(error); !errors.Is(err, http.ErrAbortHandler) || !strings.Contains(log.String(), "too late") {
			t.Errorf("an answer that had begun ends with %v, log %s", broke, log)
		}
	}()
	a.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/late", nil))
	t.Error("half an answer looks whole")
}

// Queries, credentials and bodies stay out of the log.
func TestWhatIsLogged(t *testing.T) {
	t.Parallel()
	a, log := bare(t)
	req := httptest.NewRequest("POST", "/api/nothing?token=query-secret", strings.NewReader("body-secret"))
	req.Header.Set("Authorization", "Bearer header-secret")
	a.ServeHTTP(httptest.NewRecorder(), req)
	if text := log.String(); strings.Contains(text, "secret") || !strings.Contains(text, "status=404") || !strings.Contains(text, "from=192.0.2.1") {
		t.Errorf("%s", text)
	}
}

func TestWhoCalls(t *testing.T) {
	t.Parallel()
	a, _ := bare(t)
	for _, c := range []struct{ peer, forwarded, want string }{
		{"203.0.113.9:5", "", "203.0.113.9"},
		{"203.0.113.9:5", "198.51.100.1", "203.0.113.9"}, // no proxy of ours: anybody can write that
		{"10.0.0.1:5", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:5", "6.6.6.6, 198.51.100.1", "198.51.100.1"}, // only what our proxy added counts
		{"10.0.0.1:5", "198.51.100.1, 10.0.0.2", "198.51.100.1"},
		{"10.0.0.1:5", "nonsense", "10.0.0.1"},
		{"10.0.0.1:5", "", "10.0.0.1"},
		{"[::ffff:10.0.0.1]:5", "2001:db8::1", "2001:db8::1"},
		{"[::1]:5", "2001:db8::1", "2001:db8::1"},
		{"@", "", "@"}, // a unix socket
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.peer
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if got := a.from(r); got != c.want {
			t.Errorf("peer %s, forwarded %q: %s, want %s", c.peer, c.forwarded, got, c.want)
		}
	}
}

// A path that has other methods says which; one that is not there says that.
func TestAWrongMethod(t *testing.T) {
	t.Parallel()
	a, _ := bare(t)
	for _, c := range []struct {
		method, path string
		status       int
		code         fault.Code
		allow        string
	}{
		{"GET", "/api/login", 405, fault.WrongMethod, "POST"},
		{"PATCH", "/api/tasks", 405, fault.WrongMethod, "GET, HEAD, POST"},
		{"OPTIONS", "/api/blobs/uploads/x", 405, fault.WrongMethod, "GET, HEAD, PUT, DELETE"},
		{"GET", "/api/nothing", 404, fault.NotFound, ""},
		{"POST", "/", 404, fault.NotFound, ""},
	} {
		rec := httptest.NewRecorder()
		a.ServeHTTP(rec, httptest.NewRequest(c.method, c.path, nil))
		var body struct{ Error fault.Error }
		if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil || rec.Code != c.status || body.Error.Code != c.code || rec.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: %d, Allow %q, %s", c.method, c.path, rec.Code, rec.Header().Get("Allow"), rec.Body)
		}
	}
}

func TestRequestIDs(t *testing.T) {
	t.Parallel()
	for id, kept := range map[string]bool{"abc-123": true, "": false, strings.Repeat("x", 65): false, "a b": false, "a\tb": false, "ü": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("X-Request-Id", id)
		if got := requestID(r); got == "" || kept != (got == id) {
			t.Errorf("%q becomes %q", id, got)
		}
	}
}

func TestIntegersAsOtherLanguagesWriteThem(t *testing.T) {
	t.Parallel()
	type inner struct {
		N int64 `json:"n"`
	}
	type outer struct {
		A   int             `json:"a"`
		B   []int           `json:"b"`
		C   inner           `json:"c"`
		D   *uint8          `json:"d"`
		Raw json.RawMessage `json:"raw"`
		F   float64         `json:"f"`
	}
	for text, ok := range map[string]bool{
		`{"a":2121.0}`: true, `{"a":-1.0}`: true, `{"a":1e3}`: true, `{"a":12.5e1}`: true, `{"b":[1.0,2,3.0]}`: true, `{"c":{"n":7.00}}`: true, `{"d":255.0}`: true,
		`{"a":1.0,"f":1.0,"raw":1.0}`: true, `{"a": 5.0 }`: true, "{\"a\":\n5.0}": true,
		`{"a":1.5}`: false, `{"a":1e-1}`: false, `{"a":1e30}`: false, `{"d":256.0}`: false, `{"d":-1.0}`: false, `{"a":"1.0"}`: false, `{"a":1.}`: false,
		`{"b":[` + strings.Repeat("1.0,", 70) + `1.0]}`: false,
	} {
		var got outer
		err := unmarshal([]byte(text), &got)
		if ok != (err == nil) {
			t.Errorf("%s: %v", text, err)
		}
		if err != nil && (fault.CodeOf(err) != fault.Malformed || fault.Of(err).Field == "") {
			t.Errorf("%s: %v", text, err)
		}
		if len(got.Raw) > 0 && string(got.Raw) != "1.0" {
			t.Errorf("raw bytes became %s", got.Raw)
		}
	}
	var got outer
	if err := unmarshal([]byte(`{"a":2121.0,"b":[1e2],"c":{"n":-3.0}}`), &got); err != nil || got.A != 2121 || got.B[0] != 100 || got.C.N != -3 {
		t.Errorf("%+v %v", got, err)
	}
}
