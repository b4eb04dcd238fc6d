package files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"
	"pgregory.net/rapid"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/server/files"
)

const big = 20 << 20 // beyond what is hashed before the upload begins

func fileOf(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func upload(t testing.TB, c *client.Client, path string, want []byte, tr client.Transfer) {
	t.Helper()
	ref, err := c.Upload(t.Context(), path, tr)
	if err != nil || files.Ref(ref) != refOf(want) {
		t.Fatalf("Upload = %v, %v", ref, err)
	}
}

func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 1 << 20, 3<<20 + 1, big} {
		data := noise(uint64(n), n)
		dir := t.TempDir()
		s := newStore(t, files.Options{Dir: dir})
		c := newClient(t, serve(t, routes(s)).URL)
		last, path := int64(-1), fileOf(t, data)
		tr := client.Transfer{Progress: func(done, total int64) {
			if done < last || total != int64(n) {
				t.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
		}}
		for range 2 { // the second time it is there already
			last = -1
			upload(t, c, path, data, tr)
			if last != int64(n) {
				t.Errorf("progress ended at %d", last)
			}
		}
		dst := filepath.Join(t.TempDir(), "out")
		if err := c.Download(t.Context(), client.Ref(refOf(data)), dst, client.Transfer{}); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(dst)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes came back as %d, %v", n, len(got), err)
		}
		wantNoRest(t, dir, 0)
	}
}

// TestRoundTripOverTLS is the same over HTTP/2, where a pin replaces the authority.
func TestRoundTripOverTLS(t *testing.T) {
	s := newStore(t, files.Options{})
	srv := httptest.NewUnstartedServer(routes(s))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	pin := client.PinOf(srv.Certificate().RawSubjectPublicKeyInfo)
	c, err := client.New(client.Options{BaseURL: srv.URL, Pin: pin, Project: "p1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	data := noise(12, big)
	upload(t, c, fileOf(t, data), data, client.Transfer{})
	dst := filepath.Join(t.TempDir(), "out")
	if err := c.Download(t.Context(), client.Ref(refOf(data)), dst, client.Transfer{}); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dst); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
}

// TestTransfersOverABreakingNetwork cuts the connections of an upload and a download at random bytes.
func TestTransfersOverABreakingNetwork(t *testing.T) {
	s := newStore(t, files.Options{SpaceFloor: -1})
	p := newCutter(t, serve(t, routes(s)).URL)
	dir := t.TempDir()
	data := noise(5, 1_200_000)
	path := fileOf(t, data)
	rapid.Check(t, func(rt *rapid.T) {
		limits := rapid.SliceOfN(rapid.Int64Range(0, 900_000), 0, 4)
		p.cut(limits.Draw(rt, "up"), limits.Draw(rt, "down"))
		c := newClient(t, p.url)
		ref, err := c.Upload(t.Context(), path, client.Transfer{})
		if err != nil || files.Ref(ref) != refOf(data) {
			rt.Fatalf("Upload = %v, %v", ref, err)
		}
		c.Close()
		p.cut(nil, limits.Draw(rt, "back"))
		dst := filepath.Join(dir, "out")
		if err := newClient(t, p.url).Download(t.Context(), ref, dst, client.Transfer{}); err != nil {
			rt.Fatalf("Download: %v", err)
		}
		got, err := os.ReadFile(dst)
		if err != nil || !bytes.Equal(got, data) {
			rt.Fatalf("got %d bytes, %v", len(got), err)
		}
		if _, err := s.Delete(ref.SHA256, time.Now().Add(time.Hour)); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestServerRestartsDuringUpload: bytes lost, bytes damaged, the upload unknown; each after 8 MiB.
func TestServerRestartsDuringUpload(t *testing.T) {
	data := noise(6, big)
	for name, harm := range map[string]func(path string) error{
		"none":      func(string) error { return nil },
		"tail lost": func(path string) error { return os.Truncate(path, 5<<20) },
		"bytes damaged": func(path string) error {
			return errors.Join(os.Truncate(path, 5<<20), os.Truncate(path, 8<<20))
		},
		"upload expired": func(path string) error { return errors.Join(os.Remove(path), os.Remove(path+".json")) },
	} {
		t.Run(name, func(t *testing.T) {
			o := files.Options{Dir: t.TempDir()}
			server := newRestartable(t, o)
			puts := 0
			srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					if puts++; puts == 2 {
						_, id, _ := strings.Cut(r.URL.Path, "uploads/")
						if err := harm(filepath.Join(o.Dir, "uploads", id)); err != nil {
							t.Error(err)
						}
						server.restart()
						panic(http.ErrAbortHandler)
					}
				}
				server.ServeHTTP(w, r)
			}))
			upload(t, newClient(t, srv.URL), fileOf(t, data), data, client.Transfer{})
			wantBlob(t, server.store, data)
			wantNoRest(t, o.Dir, 0)
		})
	}
}

// TestKilledClientGoesOn: what another process sent is not sent again, unless it is damaged.
func TestKilledClientGoesOn(t *testing.T) {
	for _, damage := range []bool{false, true} {
		o := files.Options{Dir: t.TempDir()}
		server := newRestartable(t, o)
		var second atomic.Bool
		var first atomic.Int64 // where the second client's first chunk went
		first.Store(-1)
		srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if offset, err := strconv.ParseInt(r.URL.Query().Get("offset"), 10, 64); err == nil && second.Load() {
				first.CompareAndSwap(-1, offset)
			}
			server.ServeHTTP(w, r)
		}))
		data := noise(8, big)
		path := fileOf(t, data)
		ctx, cancel := context.WithCancel(t.Context())
		tr := client.Transfer{}
		tr.Progress = func(done, _ int64) {
			if done > 8<<20 {
				cancel()
			}
		}
		if _, err := newClient(t, srv.URL).Upload(ctx, path, tr); !errors.Is(err, context.Canceled) {
			t.Fatalf("the first try: %v", err)
		}
		if damage {
			names, _ := filepath.Glob(filepath.Join(o.Dir, "uploads", "up_*[!n]"))
			for _, name := range names {
				if err := errors.Join(os.Truncate(name, 1<<20), os.Truncate(name, 8<<20)); err != nil {
					t.Fatal(err)
				}
			}
			server.restart()
		}
		tr.Progress = func(done, _ int64) {
			if done > 0 {
				second.Store(true) // from here on: the old connection's last request was before
			}
		}
		upload(t, newClient(t, srv.URL), path, data, tr)
		wantBlob(t, server.store, data)
		if first.Load() < 8<<20 {
			t.Errorf("the second client began at byte %d, the first had sent 8 MiB", first.Load())
		}
		wantNoRest(t, o.Dir, 0)
	}
}

// TestProxyWithASmallLimit answers large chunks as a default nginx does: a page, before the body.
func TestProxyWithASmallLimit(t *testing.T) {
	for _, limit := range []int64{1 << 20, 100_000} {
		s := newStore(t, files.Options{})
		var refused, passed int
		h := routes(s)
		srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.ContentLength > limit {
				refused++
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(http.StatusRequestEntityTooLarge)
				_, _ = io.WriteString(w, "<html><center>nginx</center></html>")
				return
			}
			passed++
			h.ServeHTTP(w, r)
		}))
		data := noise(9, 9<<20)
		upload(t, newClient(t, srv.URL), fileOf(t, data), data, client.Transfer{})
		if limit == 1<<20 && refused != 1 {
			t.Errorf("%d chunks were refused, want the first only", refused)
		}
		if passed == 0 || refused > 8 {
			t.Errorf("%d refused, %d passed", refused, passed)
		}
	}
}

func TestServerWithASmallLimit(t *testing.T) {
	s := newStore(t, files.Options{MaxChunk: 200_000})
	h := routes(s)
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/uploads") {
			mine := begin(t, s, files.BeginRequest{Size: 3 << 20, Scope: "p1", ResumeKey: "k"})
			// A node with other settings granted 8 MiB.
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"uploadId":"`+mine.ID+`","offset":0,"chunkBytes":8388608}`)
			return
		}
		h.ServeHTTP(w, r)
	}))
	data := noise(9, 3<<20)
	upload(t, newClient(t, srv.URL), fileOf(t, data), data, client.Transfer{})
}

func TestAnswerOfFinishIsLost(t *testing.T) {
	s := newStore(t, files.Options{})
	h := routes(s)
	var lost atomic.Int64
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/finish") {
			lost.Add(1)
			panic(http.ErrAbortHandler)
		}
	}))
	data := noise(9, 100_000)
	upload(t, newClient(t, srv.URL), fileOf(t, data), data, client.Transfer{})
	wantBlob(t, s, data)
	if n := lost.Load(); n != 1 {
		t.Errorf("finish was called %d times", n)
	}
}

// slowBody is the body of a request that comes over a slow network.
type slowBody struct {
	io.ReadCloser
	ctx  context.Context
	rate *rate.Limiter
}

func (b slowBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(len(p), b.rate.Burst())])
	if n > 0 {
		if late := b.rate.WaitN(b.ctx, n); late != nil {
			return n, late
		}
	}
	return n, err
}

// TestKnownBytesAreNotSent: the digest of a large file is only known while it is being sent.
func TestKnownBytesAreNotSent(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, files.Options{Dir: dir})
	data := noise(10, big)
	if _, err := s.PutBytes(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	slow := rate.NewLimiter(16<<20, 1<<20) // enough for the hash to overtake
	c := newClient(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = slowBody{r.Body, r.Context(), slow}
		routes(s).ServeHTTP(w, r)
	})).URL)
	tr := client.Transfer{}
	sent := int64(0)
	tr.Progress = func(done, total int64) {
		if done < total {
			sent = done
		}
	}
	upload(t, c, fileOf(t, data), data, tr)
	if sent > big/2 {
		t.Errorf("%d of %d bytes were sent", sent, big)
	}
	wantNoRest(t, dir, 0)
}

func TestFileChangesDuringUpload(t *testing.T) {
	s := newStore(t, files.Options{})
	c := newClient(t, serve(t, routes(s)).URL)
	path := fileOf(t, noise(1, big))
	tr := client.Transfer{}
	changed := false
	tr.Progress = func(int64, int64) {
		if !changed {
			changed = true
			now := time.Now().Add(time.Hour)
			if err := os.Chtimes(path, now, now); err != nil {
				t.Error(err)
			}
		}
	}
	_, err := c.Upload(t.Context(), path, tr)
	wantCode(t, err, fault.Conflict, "changed while it was uploaded")
}

func TestUploadRefusals(t *testing.T) {
	s := newStore(t, files.Options{FreeSpace: func(string) (int64, error) { return 1 << 20, nil }, SpaceFloor: -1})
	c := newClient(t, serve(t, routes(s)).URL)
	_, err := c.Upload(t.Context(), fileOf(t, noise(1, 2<<20)), client.Transfer{})
	wantCode(t, err, fault.DiskFull, "needs 2.1 MB", "has 1.0 MB")
	_, err = c.Upload(t.Context(), t.TempDir(), client.Transfer{})
	wantCode(t, err, fault.Invalid, "no regular file")
	if _, err = c.Upload(t.Context(), filepath.Join(t.TempDir(), "absent"), client.Transfer{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("absent file: %v", err)
	}
	_, err = newClient(t, serve(t, http.NotFoundHandler()).URL).Upload(t.Context(), fileOf(t, []byte("x")), client.Transfer{})
	wantCode(t, err, fault.NotFound)
}
