package files_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"interlock.sh/fault"
	"interlock.sh/server/files"
)

func TestGet(t *testing.T) {
	s := newStore(t, files.Options{})
	data := []byte("0123456789")
	ref, err := s.PutBytes(t.Context(), data)
	if err != nil {
		t.Fatal(err)
	}
	etag := `"` + ref.SHA256 + `"`
	srv := serve(t, routes(s))
	for name, tc := range map[string]struct {
		method string
		header [2]string
		more   [2]string
		status int
		body   string
		rng    string // Content-Range
	}{
		"whole":             {status: 200, body: "0123456789"},
		"head":              {method: "HEAD", status: 200},
		"range":             {header: [2]string{"Range", "bytes=7-"}, status: 206, body: "789", rng: "bytes 7-9/10"},
		"range with an end": {header: [2]string{"Range", "bytes=2-4"}, status: 206, body: "234", rng: "bytes 2-4/10"},
		"suffix":            {header: [2]string{"Range", "bytes=-2"}, status: 206, body: "89", rng: "bytes 8-9/10"},
		"beyond":            {header: [2]string{"Range", "bytes=10-"}, status: 416, rng: "bytes */10"},
		"far beyond":        {header: [2]string{"Range", "bytes=99999999999999999999-"}, status: 416, rng: "bytes */10"},
		"if-range, same":    {header: [2]string{"Range", "bytes=7-"}, more: [2]string{"If-Range", etag}, status: 206, body: "789", rng: "bytes 7-9/10"},
		"if-range, other":   {header: [2]string{"Range", "bytes=7-"}, more: [2]string{"If-Range", `"x"`}, status: 200, body: "0123456789"},
		"beyond, other":     {header: [2]string{"Range", "bytes=70-"}, more: [2]string{"If-Range", `"x"`}, status: 200, body: "0123456789"},
		"not modified":      {header: [2]string{"If-None-Match", etag}, status: 304},
		"modified":          {header: [2]string{"If-None-Match", `"x"`}, status: 200, body: "0123456789"},
	} {
		t.Run(name, func(t *testing.T) {
			method := tc.method
			if method == "" {
				method = "GET"
			}
			req, _ := http.NewRequestWithContext(t.Context(), method, srv.URL+"/api/blobs/"+ref.SHA256, nil)
			for _, h := range [][2]string{tc.header, tc.more} {
				if h[0] != "" {
					req.Header.Set(h[0], h[1])
				}
			}
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			h := resp.Header
			if resp.StatusCode != tc.status || h.Get("Content-Range") != tc.rng {
				t.Fatalf("status %d, range %q; want %d, %q", resp.StatusCode, h.Get("Content-Range"), tc.status, tc.rng)
			}
			if tc.status == 416 {
				if !strings.Contains(string(body), string(fault.RangeUnsatisfiable)) {
					t.Errorf("body = %s", body)
				}
				return
			}
			if string(body) != tc.body || h.Get("ETag") != etag || !strings.Contains(h.Get("Cache-Control"), "immutable") {
				t.Errorf("body %q, headers %v", body, h)
			}
			if tc.status < 300 && (h.Get("Content-Type") != "application/octet-stream" || h.Get("X-Content-Type-Options") != "nosniff") {
				t.Errorf("headers %v", h)
			}
		})
	}
}

// readFromRecorder notes what the file server hands to the connection: the kernel can only send a
// file by itself when it sees an *os.File.
type readFromRecorder struct {
	*httptest.ResponseRecorder
	source string
}

func (r *readFromRecorder) ReadFrom(src io.Reader) (int64, error) {
	if l, ok := src.(*io.LimitedReader); ok {
		src = l.R
	}
	r.source = fmt.Sprintf("%T", src)
	return io.Copy(r.ResponseRecorder, src)
}

func TestGetUsesSendfile(t *testing.T) {
	s := newStore(t, files.Options{})
	ref, err := s.PutBytes(t.Context(), noise(1, 100_000))
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	r.SetPathValue("sha256", ref.SHA256)
	w := &readFromRecorder{ResponseRecorder: httptest.NewRecorder()}
	h := files.NewHandlers(s, func(*http.Request) string { return "" })
	if err := h.Get(w, r); err != nil || w.source != fmt.Sprintf("%T", &os.File{}) {
		t.Errorf("the body came from a %s (%v), want an *os.File", w.source, err)
	}
}

func TestBadRequests(t *testing.T) {
	s := newStore(t, files.Options{MaxChunk: 1000})
	up := begin(t, s, files.BeginRequest{Size: 5, Scope: "p1"})
	srv := serve(t, routes(s))
	for name, tc := range map[string]struct {
		method, path, body string
		status             int
		words              string
	}{
		"no JSON":       {"POST", "uploads", "{", 400, "no JSON"},
		"wrong type":    {"POST", "uploads", `{"size":"x"}`, 400, `"field":"size"`},
		"no size":       {"POST", "uploads", `{}`, 400, `"field":"size"`},
		"long body":     {"POST", "uploads", strings.Repeat(" ", 70_000), 413, "65536"},
		"digest":        {"POST", "uploads", `{"size":1,"sha256":"../x"}`, 400, `"field":"sha256"`},
		"no offset":     {"PUT", "uploads/" + up.ID, "x", 400, `"field":"offset"`},
		"minus":         {"PUT", "uploads/" + up.ID + "?project=p1&offset=-1", "x", 400, `"field":"offset"`},
		"wrong offset":  {"PUT", "uploads/" + up.ID + "?project=p1&offset=3", "x", 416, `"offset":0`},
		"chunk":         {"PUT", "uploads/" + up.ID + "?project=p1&offset=0", strings.Repeat("x", 1001), 413, `"limit":1000`},
		"other owner":   {"PUT", "uploads/" + up.ID + "?offset=0", "x", 404, "begin again"},
		"unfinished":    {"POST", "uploads/" + up.ID + "/finish?project=p1", `{"sha256":"` + refOf(nil).SHA256 + `"}`, 416, "0 of 5"},
		"unknown":       {"GET", "uploads/up_x", "", 404, "NOT_FOUND"},
		"no such blob":  {"GET", refOf(nil).SHA256, "", 404, "BLOB_NOT_FOUND"},
		"no digest":     {"GET", "..%2f..%2fetc%2fpasswd", "", 400, "64 lower-case"},
		"drop of other": {"DELETE", "uploads/" + up.ID, "", 404, "NOT_FOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), tc.method, srv.URL+"/api/blobs/"+tc.path, bytes.NewReader([]byte(tc.body)))
			resp, err := srv.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != tc.status || !strings.Contains(string(body), tc.words) {
				t.Errorf("status %d, %s; want %d, %s", resp.StatusCode, body, tc.status, tc.words)
			}
		})
	}
}
