package files_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"interlock.sh/fault"
	"interlock.sh/internal/clock"
	"interlock.sh/server/files"
)

func refOf(b []byte) files.Ref {
	sum := sha256.Sum256(b)
	return files.Ref{SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b))}
}

func wantCode(t testing.TB, err error, code fault.Code, words ...string) *fault.Error {
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

func wantBlob(t testing.TB, s *files.Store, want []byte) {
	t.Helper()
	f, size, err := s.Open(refOf(want).SHA256)
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	defer f.Close()
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, want) || size != int64(len(want)) {
		t.Fatalf("blob has %d bytes (%d), %v; want %d", len(got), size, err, len(want))
	}
}

// wantNoRest checks that nothing but the given number of files is left of uploads.
func wantNoRest(t testing.TB, dir string, n int) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "uploads"))
	if err != nil || len(entries) != n {
		t.Errorf("uploads holds %v, %v; want %d files", entries, err, n)
	}
}

func TestPutAndOpen(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, files.Options{Dir: dir})
	for _, data := range [][]byte{nil, []byte("x"), noise(1, 1<<20)} {
		for range 2 { // the second time it is there already
			ref, err := s.Put(t.Context(), bytes.NewReader(data))
			if err != nil || ref != refOf(data) {
				t.Fatalf("Put = %v, %v", ref, err)
			}
			if ref, err = s.PutBytes(t.Context(), data); err != nil || ref != refOf(data) {
				t.Fatalf("PutBytes = %v, %v", ref, err)
			}
		}
		wantBlob(t, s, data)
		digest := refOf(data).SHA256
		st, err := os.Stat(filepath.Join(dir, "blobs", "sha256", digest[:2], digest[2:]))
		if err != nil || st.Mode() != 0o600 {
			t.Errorf("file of the blob: %v, %v; want mode 0600", st, err)
		}
	}
	wantNoRest(t, dir, 0)
}

func TestPutThatBreaksLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	s := newStore(t, files.Options{Dir: dir})
	if _, err := s.Put(t.Context(), iotest.TimeoutReader(bytes.NewReader(noise(1, 1<<20)))); err == nil {
		t.Fatal("Put of a broken reader succeeded")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Put(ctx, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
		t.Fatalf("Put after cancel: %v", err)
	}
	wantNoRest(t, dir, 0)
}

func TestDigestsAreNoPaths(t *testing.T) {
	s := newStore(t, files.Options{})
	good := refOf(nil).SHA256
	for _, bad := range []string{"", "..", "../" + good[3:], strings.ToUpper(good), good[1:], good + "0", good[:62] + "\x00a", "sha256:" + good[7:]} {
		_, _, err := s.Open(bad)
		wantCode(t, err, fault.Invalid, "64 lower-case hex")
		_, err = s.Stat(bad)
		wantCode(t, err, fault.Invalid)
		_, err = s.Has(bad)
		wantCode(t, err, fault.Invalid)
		_, err = s.Delete(bad, time.Now())
		wantCode(t, err, fault.Invalid)
		if bad != "" {
			_, err = s.Begin(t.Context(), files.BeginRequest{SHA256: bad, Size: 1})
			wantCode(t, err, fault.Invalid)
		}
		for _, id := range []string{bad, "../blobs", "up_x/../../x"} {
			_, err = s.Append(t.Context(), "", id, 0, strings.NewReader("x"))
			wantCode(t, err, fault.NotFound)
		}
	}
	_, _, err := s.Open(good)
	wantCode(t, err, fault.ChecksumUnknown, good)
	if has, err := s.Has(good); has || err != nil {
		t.Errorf("Has of nothing = %v, %v", has, err)
	}
}

func TestListAndDelete(t *testing.T) {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	fake := clock.NewFake(start)
	s := newStore(t, files.Options{Clock: fake})
	data := [][]byte{[]byte("a"), []byte("b"), []byte("c")}
	for _, d := range data {
		for range 2 { // stored again: its time is the clock's
			if _, err := s.PutBytes(t.Context(), d); err != nil {
				t.Fatal(err)
			}
		}
	}
	fake.Advance(time.Hour)
	if _, err := s.PutBytes(t.Context(), data[1]); err != nil { // wanted again
		t.Fatal(err)
	}
	var list []files.Info
	for info, err := range s.List(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, info)
	}
	if len(list) != 3 || list[0].SHA256 > list[1].SHA256 || list[1].SHA256 > list[2].SHA256 {
		t.Fatalf("List = %v", list)
	}
	deleted := 0
	for _, info := range list {
		gone, err := s.Delete(info.SHA256, start.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if gone {
			deleted++
		}
	}
	if deleted != 2 {
		t.Errorf("%d blobs deleted, want the 2 that nobody stored again", deleted)
	}
	wantBlob(t, s, data[1])
	if gone, err := s.Delete(refOf(data[0]).SHA256, start.Add(time.Minute)); gone || err != nil {
		t.Errorf("second Delete = %v, %v", gone, err)
	}
	for _, err := range s.List(t.Context()) {
		if err != nil {
			t.Error(err)
		}
		break // ends without a second call
	}
}
