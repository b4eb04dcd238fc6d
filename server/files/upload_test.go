package files_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"pgregory.net/rapid"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/files"
)

func begin(t testing.TB, s *files.Store, q files.BeginRequest) files.Upload {
	t.Helper()
	up, err := s.Begin(t.Context(), q)
	if err != nil {
		t.Fatalf("Begin: %v", err)
	}
	return up
}

func appendTo(t testing.TB, s *files.Store, id string, offset int64, b []byte) int64 {
	t.Helper()
	next, err := s.Append(t.Context(), "", id, offset, bytes.NewReader(b))
	if err != nil {
		t.Fatalf("Append at %d: %v", offset, err)
	}
	return next
}

// TestUploadModel uploads in random chunks with restarts of the store, lost and torn tails in
// between, as after a power cut, and compares with the plain bytes.
func TestUploadModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		data := noise(uint64(rapid.IntRange(0, 3).Draw(rt, "seed")), rapid.IntRange(0, 900_000).Draw(rt, "size"))
		ref := refOf(data)
		open := func() *files.Store {
			s, err := files.New(files.Options{Dir: dir})
			if err != nil {
				rt.Fatalf("New: %v", err)
			}
			return s
		}
		q := files.BeginRequest{Size: ref.Size, ResumeKey: "k"}
		if rapid.Bool().Draw(rt, "digest first") {
			q = files.BeginRequest{Size: ref.Size, SHA256: ref.SHA256}
		}
		s := open()
		up, err := s.Begin(t.Context(), q)
		if err != nil || up.Offset != 0 {
			rt.Fatalf("Begin = %+v, %v", up, err)
		}
		id := up.ID
		for up.Offset < ref.Size {
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0: // restart
				s.Close()
				s = open()
			case 1: // power cut: the tail is lost or was never written
				s.Close()
				keep := rapid.Int64Range(0, up.Offset).Draw(rt, "keep")
				if err := os.Truncate(filepath.Join(dir, "uploads", id), keep); err != nil {
					rt.Fatal(err)
				}
				if keep < up.Offset && rapid.IntRange(0, 9).Draw(rt, "zeroes") == 0 {
					if err := os.Truncate(filepath.Join(dir, "uploads", id), up.Offset); err != nil {
						rt.Fatal(err)
					}
				}
				s = open()
			case 2: // wrong offset
				at := up.Offset + rapid.SampledFrom([]int64{-1, 1, 1000}).Draw(rt, "off by")
				_, err := s.Append(t.Context(), "", id, at, strings.NewReader("x"))
				var f *fault.Error
				if !errors.As(err, &f) || f.Code != fault.RangeUnsatisfiable || f.Details["offset"] != up.Offset {
					rt.Fatalf("Append at %d instead of %d: %v", at, up.Offset, err)
				}
			default:
				n := rapid.Int64Range(1, min(700_000, ref.Size-up.Offset)).Draw(rt, "chunk")
				var r io.Reader = bytes.NewReader(data[up.Offset : up.Offset+n])
				torn := rapid.IntRange(0, 3).Draw(rt, "torn") == 0
				if torn {
					r = io.MultiReader(r, iotest.ErrReader(io.ErrUnexpectedEOF))
				}
				next, err := s.Append(t.Context(), "", id, up.Offset, r)
				if (err != nil) != torn || next != up.Offset+n {
					rt.Fatalf("Append = %d, %v; want %d", next, err, up.Offset+n)
				}
			}
			again, err := s.Begin(t.Context(), q)
			if err != nil || again.ID != id {
				rt.Fatalf("Begin again = %+v, %v; want the upload %s", again, err, id)
			}
			up = again
		}
		onDisk, err := os.ReadFile(filepath.Join(dir, "uploads", id))
		if err != nil {
			rt.Fatal(err)
		}
		got, err := s.Finish(t.Context(), "", id, ref.SHA256)
		if !bytes.Equal(onDisk, data) {
			if !errors.Is(err, fault.HashMismatch) {
				rt.Fatalf("Finish of damaged bytes = %v, %v", got, err)
			}
		} else if err != nil || got != ref {
			rt.Fatalf("Finish = %v, %v", got, err)
		}
		if _, err := s.Status("", id); !errors.Is(err, fault.NotFound) {
			rt.Fatalf("Status after the end: %v", err)
		}
		s.Close()
		wantNoRest(t, dir, 0)
	})
}

// TestCheckpoints sends enough for background syncs, restarts, and spoils the bytes before the last
// checkpoint: were they hashed again, or the state lost, the result would show it.
func TestCheckpoints(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, files.Options{Dir: dir})
	data := noise(3, 70<<20)
	up := begin(t, s, files.BeginRequest{Size: int64(len(data)), ResumeKey: "k", ChunkBytes: 100 << 20})
	if up.ChunkBytes != files.DefaultMaxChunk {
		t.Fatalf("granted %d", up.ChunkBytes)
	}
	at := int64(0)
	send := func(s *files.Store, until int64) {
		for at < until {
			at = appendTo(t, s, up.ID, at, data[at:min(until, at+up.ChunkBytes)])
		}
	}
	send(s, 40<<20)
	s.Close() // waits for the checkpoint at 32 MiB
	f, err := os.OpenFile(filepath.Join(dir, "uploads", up.ID), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{data[0] ^ 1}, 0); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	s = newStore(t, files.Options{Dir: dir})
	send(s, int64(len(data)))
	if _, err := s.Finish(t.Context(), "", up.ID, refOf(data).SHA256); err != nil {
		t.Fatalf("Finish with the state of the checkpoint: %v", err)
	}
	s.Close()
	wantNoRest(t, dir, 0)
}

func TestBegin(t *testing.T) {
	s := newStore(t, files.Options{})
	data := []byte("hello")
	ref := refOf(data)
	if _, err := s.PutBytes(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	if up := begin(t, s, files.BeginRequest{SHA256: ref.SHA256, Size: 5}); !up.Done || up.ID != "" {
		t.Errorf("Begin of stored bytes = %+v", up)
	}
	q := files.BeginRequest{Size: 9, ResumeKey: "k", Scope: "p1"}
	mine := begin(t, s, q)
	other := q
	other.Scope = "p2"
	if up := begin(t, s, other); up.ID == mine.ID {
		t.Error("two owners share an upload")
	}
	longer := q
	longer.Size = 10
	if up := begin(t, s, longer); up.ID == mine.ID {
		t.Error("two sizes share an upload")
	}
	if a, b := begin(t, s, files.BeginRequest{Size: 9}), begin(t, s, files.BeginRequest{Size: 9}); a.ID == b.ID {
		t.Error("two uploads without digest and key are one")
	}
	for _, do := range []func(scope string) error{
		func(scope string) error { _, err := s.Status(scope, mine.ID); return err },
		func(scope string) error {
			_, err := s.Append(t.Context(), scope, mine.ID, 0, strings.NewReader("x"))
			return err
		},
		func(scope string) error { _, err := s.Finish(t.Context(), scope, mine.ID, ref.SHA256); return err },
		func(scope string) error { return s.Drop(scope, mine.ID) },
	} {
		wantCode(t, do("p2"), fault.NotFound)
	}
	for wish, want := range map[int64]int64{0: 1 << 20, 1000: 1000, 4 << 20: 4 << 20, math.MaxInt64: 8 << 20} {
		if up := begin(t, s, files.BeginRequest{Size: 9, ChunkBytes: wish}); up.ChunkBytes != want {
			t.Errorf("wish %d: granted %d, want %d", wish, up.ChunkBytes, want)
		}
	}
	for field, q := range map[string]files.BeginRequest{
		"size":       {Size: -1},
		"chunkBytes": {ChunkBytes: -1},
		"resumeKey":  {ResumeKey: strings.Repeat("x", 201)},
		"sha256":     {SHA256: "x"},
	} {
		_, err := s.Begin(t.Context(), q)
		if f := wantCode(t, err, fault.Invalid); f.Field != field {
			t.Errorf("field = %q, want %q", f.Field, field)
		}
	}
}

func TestAppendLimits(t *testing.T) {
	s := newStore(t, files.Options{MaxChunk: 100})
	up := begin(t, s, files.BeginRequest{Size: 150})
	_, err := s.Append(t.Context(), "", up.ID, 0, strings.NewReader(strings.Repeat("x", 101)))
	wantCode(t, err, fault.TooLarge, "100 bytes")
	if st, err := s.Status("", up.ID); err != nil || st.Offset != 0 {
		t.Errorf("after a refused chunk: %+v, %v", st, err)
	}
	at := appendTo(t, s, up.ID, 0, bytes.Repeat([]byte("x"), 100))
	_, err = s.Append(t.Context(), "", up.ID, at, strings.NewReader(strings.Repeat("x", 51)))
	wantCode(t, err, fault.Invalid, "150 bytes")
	_, err = s.Finish(t.Context(), "", up.ID, refOf(nil).SHA256)
	if f := wantCode(t, err, fault.RangeUnsatisfiable, "100 of 150"); f.Details["offset"] != int64(100) {
		t.Errorf("details = %v", f.Details)
	}
	_, err = s.Finish(t.Context(), "", up.ID, "")
	wantCode(t, err, fault.Invalid, "digest is missing")
	if err := s.Drop("", up.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.Status("", up.ID)
	wantCode(t, err, fault.NotFound)
}

// TestSecondConnectionWins: a broken connection still hangs in Append while its client is back.
func TestSecondConnectionWins(t *testing.T) {
	s := newStore(t, files.Options{})
	data := noise(1, 600_000)
	up := begin(t, s, files.BeginRequest{Size: int64(len(data))})
	r, w := io.Pipe()
	old := make(chan error, 1)
	go func() { _, err := s.Append(context.Background(), "", up.ID, 0, r); old <- err }()
	if _, err := w.Write(data[:10]); err != nil { // taken by the old one, but no whole piece yet
		t.Fatal(err)
	}
	at := appendTo(t, s, up.ID, 0, data)
	if _, err := w.Write(data[10 : 256<<10]); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	wantCode(t, <-old, fault.RangeUnsatisfiable)
	if at != int64(len(data)) {
		t.Fatalf("offset %d", at)
	}
	if _, err := s.Finish(t.Context(), "", up.ID, refOf(data).SHA256); err != nil {
		t.Fatal(err)
	}
	wantBlob(t, s, data)
}

func TestFinishSaysBothDigests(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, files.Options{Dir: dir})
	want, got := refOf([]byte("hello")), refOf([]byte("hellO"))
	up := begin(t, s, files.BeginRequest{SHA256: want.SHA256, Size: 5})
	appendTo(t, s, up.ID, 0, []byte("hellO"))
	_, err := s.Finish(t.Context(), "", up.ID, got.SHA256)
	wantCode(t, err, fault.Invalid, "begin named")
	_, err = s.Finish(t.Context(), "", up.ID, "")
	f := wantCode(t, err, fault.HashMismatch, want.SHA256, got.SHA256)
	if f.Details["expected"] != want.SHA256 || f.Details["got"] != got.SHA256 {
		t.Errorf("details = %v", f.Details)
	}
	if again := begin(t, s, files.BeginRequest{SHA256: want.SHA256, Size: 5}); again.ID == up.ID || again.Offset != 0 {
		t.Errorf("after the mismatch: %+v", again)
	}
	wantNoRest(t, dir, 2)
}

func TestAbandonedUploadsExpire(t *testing.T) {
	dir := t.TempDir()
	fake := clock.NewFake(time.Now())
	s := newStore(t, files.Options{Dir: dir, Clock: fake})
	q := files.BeginRequest{Size: 5, ResumeKey: "k"}
	up, live := begin(t, s, q), begin(t, s, files.BeginRequest{Size: 5})
	fake.Advance(23 * time.Hour)
	appendTo(t, s, live.ID, 0, []byte("x"))
	fake.Advance(time.Hour + 1)
	_, err := s.Append(t.Context(), "", up.ID, 0, strings.NewReader("x"))
	wantCode(t, err, fault.NotFound, "24h")
	if again := begin(t, s, q); again.ID == up.ID {
		t.Error("an expired upload goes on")
	}
	if n, err := s.Expire(t.Context()); n != 1 || err != nil {
		t.Errorf("Expire = %d, %v; want 1", n, err)
	}
	wantNoRest(t, dir, 4)
	if st, err := s.Status("", live.ID); err != nil || st.Offset != 1 {
		t.Errorf("the live upload: %+v, %v", st, err)
	}
}

func TestSpaceIsAskedBeforeTheFirstByte(t *testing.T) {
	free := int64(1_499_999)
	s := newStore(t, files.Options{SpaceFloor: 500_000, FreeSpace: func(string) (int64, error) { return free, nil }})
	_, err := s.Begin(t.Context(), files.BeginRequest{Size: 1_000_000})
	f := wantCode(t, err, fault.DiskFull, "needs 1.0 MB", "500 kB kept free", "has 1.5 MB")
	if f.Details["needs"] != int64(1_000_000) || f.Details["has"] != free {
		t.Errorf("details = %v", f.Details)
	}
	free++
	begin(t, s, files.BeginRequest{Size: 1_000_000})
	free = 499_999
	_, err = s.Put(t.Context(), strings.NewReader("x"))
	wantCode(t, err, fault.DiskFull)
}

func TestRestOfEarlierProcessesIsCleared(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, files.Options{Dir: dir})
	up := begin(t, s, files.BeginRequest{Size: 5})
	for name, text := range map[string]string{"put-1": "x", "up_a": "no meta", "up_b.json": "{", "up_c.json": `{"id":"up_d"}`} {
		if err := os.WriteFile(filepath.Join(dir, "uploads", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = newStore(t, files.Options{Dir: dir})
	wantNoRest(t, dir, 2)
	if _, err := s.Status("", up.ID); err != nil {
		t.Errorf("the upload under way: %v", err)
	}
}
