package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/internal/clock"
)

func noise(n int) ([]byte, client.Ref) {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b, refOf(b)
}

func refOf(b []byte) client.Ref {
	sum := sha256.Sum256(b)
	return client.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b))}
}

// source is a server of one blob that can be told to misbehave, request by request.
type source struct {
	data   []byte
	asked  []string                                                         // the Range header of each request
	faulty func(n int, w http.ResponseWriter, r *http.Request, at int) bool // true when it answered
}

func (s *source) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.Header.Get("Range"))
	w.Header().Set("ETag", `"`+refOf(s.data).SHA256+`"`)
	w.Header().Set("Content-Type", "application/octet-stream")
	at := 0
	if v, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
		at, _ = strconv.Atoi(strings.TrimSuffix(v, "-"))
	}
	if s.faulty != nil && s.faulty(len(s.asked), w, r, at) {
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.data))
}

// cutAfter sends the right head and n bytes, then breaks the connection.
func (s *source) cutAfter(w http.ResponseWriter, at, n int) {
	w.Header().Set("Content-Length", strconv.Itoa(len(s.data)-at))
	if at > 0 {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(s.data)-1, len(s.data)))
		w.WriteHeader(http.StatusPartialContent)
	}
	_, _ = w.Write(s.data[at:min(len(s.data), at+n)])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func (s *source) start(t *testing.T) *client.Client {
	t.Helper()
	c, _ := serve(t, s.ServeHTTP)
	return c
}

func wantFile(t interface {
	Helper()
	Errorf(string, ...any)
}, path string, want []byte,
) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes, %v; want the %d bytes of the source", filepath.Base(path), len(got), err, len(want))
	}
	if _, err := os.Stat(path + ".part"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the partial is still there: %v", err)
	}
}

// TestDownloadCutAnywhere breaks the connection again and again at random offsets.
func TestDownloadCutAnywhere(t *testing.T) {
	data, want := noise(600_000)
	s := &source{data: data}
	c := s.start(t)
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		cuts := rapid.SliceOfN(rapid.IntRange(0, 400_000), 0, 6).Draw(rt, "cuts")
		s.asked = nil
		s.faulty = func(n int, w http.ResponseWriter, _ *http.Request, at int) bool {
			if n <= len(cuts) && at+cuts[n-1] < len(data) {
				s.cutAfter(w, at, cuts[n-1])
			}
			return false
		}
		dst := filepath.Join(dir, "file")
		last := int64(-1)
		err := c.Download(t.Context(), want, dst, client.Transfer{Progress: func(done, total int64) {
			if done < last || total != want.Size {
				rt.Errorf("progress %d of %d after %d", done, total, last)
			}
			last = done
		}})
		if err != nil || last != want.Size {
			rt.Fatalf("Download: %v at %d", err, last)
		}
		wantFile(rt, dst, data)
		_ = os.Remove(dst)
	})
}

// TestDownloadFromBadSources: what a source does wrong, whether the file arrives all the same, and
// how often it is asked.
func TestDownloadFromBadSources(t *testing.T) {
	data, want := noise(300_000)
	const cut = 100_000
	flip := func(w http.ResponseWriter, at int) {
		bad := bytes.Clone(data)
		bad[200_000] ^= 1
		if at > 0 {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at, len(data)-1, len(data)))
			w.WriteHeader(http.StatusPartialContent)
		}
		_, _ = w.Write(bad[at:])
	}
	first := func(s *source, then func(n int, w http.ResponseWriter, r *http.Request, at int) bool) {
		s.faulty = func(n int, w http.ResponseWriter, r *http.Request, at int) bool {
			if n == 1 {
				s.cutAfter(w, 0, cut)
			}
			return then(n, w, r, at)
		}
	}
	for name, tc := range map[string]struct {
		set   func(*source)
		code  fault.Code // "" when the file must arrive
		asked int
		part  int64 // size of the partial afterwards; -1 for none
	}{
		"range ignored": {asked: 2, set: func(s *source) {
			first(s, func(_ int, _ http.ResponseWriter, r *http.Request, _ int) bool { r.Header.Del("Range"); return false })
		}},
		"range from another offset": {asked: 3, set: func(s *source) {
			first(s, func(n int, w http.ResponseWriter, _ *http.Request, at int) bool {
				if n == 2 {
					w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", at-10, len(data)-1, len(data)))
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(data[at-10:])
				}
				return n == 2
			})
		}},
		"206 without Content-Range": {asked: 3, set: func(s *source) {
			first(s, func(n int, w http.ResponseWriter, _ *http.Request, at int) bool {
				if n == 2 {
					w.WriteHeader(http.StatusPartialContent)
					_, _ = w.Write(data[at:])
				}
				return n == 2
			})
		}},
		"always another offset": {asked: 3, code: fault.Unavailable, part: 0, set: func(s *source) {
			first(s, func(_ int, w http.ResponseWriter, _ *http.Request, _ int) bool {
				w.Header().Set("Content-Range", fmt.Sprintf("bytes 7-%d/%d", len(data)-1, len(data)))
				w.WriteHeader(http.StatusPartialContent)
				return true
			})
		}},
		"416 to a resume": {asked: 3, set: func(s *source) {
			first(s, func(n int, w http.ResponseWriter, _ *http.Request, _ int) bool {
				if n == 2 {
					w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
				}
				return n == 2
			})
		}},
		"flipped once": {asked: 2, set: func(s *source) {
			s.faulty = func(n int, w http.ResponseWriter, _ *http.Request, at int) bool {
				if n == 1 {
					flip(w, at)
				}
				return n == 1
			}
		}},
		"flipped always": {asked: 2, code: fault.HashMismatch, part: -1, set: func(s *source) {
			s.faulty = func(_ int, w http.ResponseWriter, _ *http.Request, at int) bool { flip(w, at); return true }
		}},
		"other length": {asked: 1, code: fault.HashMismatch, set: func(s *source) { s.data = data[:len(data)-1] }},
		"endless, with the right beginning": {asked: 1, set: func(s *source) {
			s.faulty = func(_ int, w http.ResponseWriter, r *http.Request, _ int) bool {
				for r.Context().Err() == nil {
					if _, err := w.Write(data); err != nil {
						break
					}
				}
				return true
			}
		}},
		"portal, then itself": {asked: 2, set: func(s *source) {
			s.faulty = func(n int, w http.ResponseWriter, _ *http.Request, _ int) bool {
				if n == 1 {
					w.Header().Set("Content-Type", "text/html")
					_, _ = w.Write([]byte("<html>"))
				}
				return n == 1
			}
		}},
		"gone": {asked: 1, code: fault.NotFound, set: func(s *source) {
			s.faulty = func(_ int, w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(404); return true }
		}},
		"away for good": {asked: 9, code: fault.Unavailable, set: func(s *source) {
			s.faulty = func(_ int, w http.ResponseWriter, _ *http.Request, _ int) bool { w.WriteHeader(503); return true }
		}},
		"never past the middle": {asked: 9, code: fault.Unavailable, part: cut, set: func(s *source) {
			s.faulty = func(n int, w http.ResponseWriter, r *http.Request, _ int) bool { s.cutAfter(w, 0, cut); return true }
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{data: data}
			tc.set(s)
			c := s.start(t)
			dst := filepath.Join(t.TempDir(), "file")
			err := c.Download(t.Context(), want, dst, client.Transfer{})
			if len(s.asked) != tc.asked {
				t.Errorf("asked %d times, want %d: %q", len(s.asked), tc.asked, s.asked)
			}
			if tc.code == "" {
				if err != nil {
					t.Fatalf("Download: %v", err)
				}
				wantFile(t, dst, data)
				return
			}
			wantCode(t, err, tc.code)
			if _, err := os.Stat(dst); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a failed download left %s: %v", dst, err)
			}
			st, err := os.Stat(dst + ".part")
			switch {
			case tc.part == -1:
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("damaged partial is still there: %v", err)
				}
			case tc.part >= 0 && (err != nil || st.Size() != tc.part):
				t.Errorf("partial: %v, %v; want %d bytes", st, err, tc.part)
			}
		})
	}
}

// TestDownloadGoesOnAfterAKill: the partial of another process, whole, damaged or too long.
func TestDownloadGoesOnAfterAKill(t *testing.T) {
	data, want := noise(300_000)
	damaged := bytes.Clone(data[:200_000])
	damaged[5] ^= 1
	for name, tc := range map[string]struct {
		part  []byte
		asked []string // the Range of each request
	}{
		"partial":  {data[:200_000], []string{"bytes=200000-"}},
		"complete": {data, nil},
		"damaged":  {damaged, []string{"bytes=200000-", ""}},
		"too long": {append(bytes.Clone(data), 1), []string{""}},
		"empty":    {nil, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source{data: data}
			c := s.start(t)
			dst := filepath.Join(t.TempDir(), "file")
			if err := os.WriteFile(dst+".part", tc.part, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := c.Download(t.Context(), want, dst, client.Transfer{}); err != nil {
				t.Fatal(err)
			}
			wantFile(t, dst, data)
			if diff := cmp.Diff(tc.asked, s.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDownloadNeedsSpace(t *testing.T) {
	data, want := noise(300_000)
	s := &source{data: data}
	c := s.start(t)
	dst := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dst+".part", data[:100_000], 0o600); err != nil {
		t.Fatal(err)
	}
	free := int64(200_999)
	tr := client.Transfer{SpaceFloor: 1000, FreeSpace: func(string) (int64, error) { return free, nil }}
	f := wantCode(t, c.Download(t.Context(), want, dst, tr), fault.DiskFull, "needs 200 kB", "has 201 kB")
	if f.Details["needs"] != int64(200_000) || f.Details["has"] != free || len(s.asked) != 0 {
		t.Errorf("details %v after %d requests", f.Details, len(s.asked))
	}
	free++
	if err := c.Download(t.Context(), want, dst, tr); err != nil {
		t.Fatalf("with just enough: %v", err)
	}
	wantFile(t, dst, data)
}

func TestTwoProcessesOneDownload(t *testing.T) {
	data, want := noise(300_000)
	reached, release := make(chan struct{}), make(chan struct{})
	s := &source{data: data, faulty: func(int, http.ResponseWriter, *http.Request, int) bool {
		close(reached)
		<-release
		return false
	}}
	c := s.start(t)
	dst := filepath.Join(t.TempDir(), "file")
	done := make(chan error, 1)
	go func() { done <- c.Download(t.Context(), want, dst, client.Transfer{}) }()
	<-reached
	wantCode(t, c.Download(t.Context(), want, dst, client.Transfer{}), fault.Conflict, "another process")
	close(release)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantFile(t, dst, data)
}

func TestDownloadThatStaysSilentIsResumed(t *testing.T) {
	data, want := noise(300_000)
	fake := clock.NewFake(time.Now())
	s := &source{data: data}
	s.faulty = func(n int, w http.ResponseWriter, r *http.Request, at int) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(data)))
		_, _ = w.Write(data[:100_000])
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done() // half-open: nothing comes, nothing ends
		return true
	}
	c := s.start(t)
	dst := filepath.Join(t.TempDir(), "file")
	done, arrived := make(chan error, 1), make(chan struct{})
	go func() {
		done <- c.Download(t.Context(), want, dst, client.Transfer{Clock: fake, Progress: func(n, _ int64) {
			if n == 100_000 {
				close(arrived)
			}
		}})
	}()
	<-arrived
	fake.AwaitWaiters(1)
	fake.Advance(60 * time.Second) // the watch
	fake.AwaitWaiters(1)
	fake.Advance(15 * time.Second) // the backoff
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantFile(t, dst, data)
	if len(s.asked) != 2 || s.asked[1] != "bytes=100000-" {
		t.Errorf("asked %q", s.asked)
	}
}

func TestDownloadCancelledKeepsThePartial(t *testing.T) {
	data, want := noise(600_000)
	s := &source{data: data}
	c := s.start(t)
	dst := filepath.Join(t.TempDir(), "file")
	ctx, cancel := context.WithCancel(t.Context())
	err := c.Download(ctx, want, dst, client.Transfer{Progress: func(n, _ int64) {
		if n > 0 {
			cancel()
		}
	}})
	st, statErr := os.Stat(dst + ".part")
	if !errors.Is(err, context.Canceled) || statErr != nil || st.Size() == 0 {
		t.Fatalf("after cancel: %v; partial %v, %v", err, st, statErr)
	}
	if err := c.Download(t.Context(), want, dst, client.Transfer{}); err != nil {
		t.Fatal(err)
	}
	wantFile(t, dst, data)
}

func TestDownloadRefusesBadReferences(t *testing.T) {
	c := newClient(t, client.Options{BaseURL: "http://127.0.0.1:1"})
	for _, ref := range []client.Ref{{}, {SHA256: "../../etc/passwd"}, {SHA256: strings.Repeat("A", 64)}, {SHA256: strings.Repeat("a", 64), Size: -1}} {
		wantCode(t, c.Download(t.Context(), ref, filepath.Join(t.TempDir(), "x"), client.Transfer{}), fault.Invalid)
	}
}

// TestFetchFromURL: another origin's file, resumed under the ETag that it showed.
