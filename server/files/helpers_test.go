package files_test

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/files"
)

// hasty is a clock whose short waits are over at once; the guards against silence are real.
type hasty struct{ clock.Clock }

func (h hasty) After(d time.Duration) <-chan time.Time {
	if d >= 50*time.Second {
		return h.Clock.After(d)
	}
	ch := make(chan time.Time, 1)
	ch <- h.Now()
	return ch
}

// routes serves a store as the API layer does, with one owner for everybody.
func routes(s *files.Store) http.Handler {
	h := files.NewHandlers(s, func(r *http.Request) string { return r.URL.Query().Get("project") })
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(http.ResponseWriter, *http.Request) error{
		"POST /api/blobs/uploads":             h.Begin,
		"GET /api/blobs/uploads/{id}":         h.Status,
		"PUT /api/blobs/uploads/{id}":         h.Append,
		"DELETE /api/blobs/uploads/{id}":      h.Drop,
		"POST /api/blobs/uploads/{id}/finish": h.Finish,
		"GET /api/blobs/{sha256}":             h.Get,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := handle(w, r); err != nil {
				f := fault.Of(err)
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(f.Code.Status())
				_ = json.NewEncoder(w).Encode(map[string]any{"error": f})
			}
		})
	}
	return mux
}

func newStore(t testing.TB, o files.Options) *files.Store {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := files.New(o)
	if err != nil {
		t.Fatalf("files.New: %v", err)
	}
	t.Cleanup(s.Close)
	return s
}

func serve(t testing.TB, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

func newClient(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Options{BaseURL: url, Project: "p1", Clock: hasty{clock.System}})
	if err != nil {
		t.Fatalf("client.New: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// noise is n bytes that do not compress and are the same for the same seed.
func noise(seed uint64, n int) []byte {
	src := rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), 1})
	b := make([]byte, n)
	_, _ = src.Read(b)
	return b
}
