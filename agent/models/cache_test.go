package models

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/fault"
	"interlock.sh/fleet"
)

// shelf is a source that has some bytes and counts how often it was asked.
type shelf struct {
	mu    sync.Mutex
	bytes map[string][]byte
	asked int
}

func (s *shelf) Download(_ context.Context, want client.Ref, dst string, _ client.Transfer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	b, ok := s.bytes[want.SHA256]
	if !ok {
		return fault.New(fault.ChecksumUnknown, "no such bytes")
	}
	return os.WriteFile(dst, b, 0o600)
}

func (s *shelf) put(name string, b []byte) fleet.File {
	sum := sha256.Sum256(b)
	if s.bytes == nil {
		s.bytes = map[string][]byte{}
	}
	f := fleet.File{Name: name, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(b))}
	s.bytes[f.SHA256] = b
	return f
}

func ensure(t *testing.T, c *Cache, s *shelf, files ...fleet.File) {
	t.Helper()
	if err := c.Ensure(context.Background(), s, files, func(int64, int64) {}); err != nil {
		t.Fatal(err)
	}
}

func TestAFileIsFetchedOnceForAllGroups(t *testing.T) {
	s, c := &shelf{}, NewCache(t.TempDir(), nil)
	f := s.put("m.gguf", bytes.Repeat([]byte("x"), 1000))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { ensure(t, c, s, f) })
	}
	all.Wait()
	if s.asked != 1 {
		t.Fatalf("fetched %d times, want once", s.asked)
	}
}

func TestBytesFlippedOnDiskAreFoundBeforeAStart(t *testing.T) {
	for name, size := range map[string]int{"small": 1000, "larger than the sample": 12 << 20} {
		t.Run(name, func(t *testing.T) {
			s, c := &shelf{}, NewCache(t.TempDir(), nil)
			f := s.put("m.gguf", bytes.Repeat([]byte("0123456789abcdef"), size/16))
			ensure(t, c, s, f)
			flip(t, c.Path(f.SHA256), int64(size/3))
			if err := c.Check(t.Context(), f, false); !errors.Is(err, fault.HashMismatch) {
				t.Fatalf("cheap check: %v, want HASH_MISMATCH", err)
			}
			ensure(t, c, s, f)
			if err := c.Check(t.Context(), f, true); err != nil || s.asked != 2 {
				t.Fatalf("after a new fetch: %v, fetched %d times", err, s.asked)
			}
		})
	}
}

func flip(t *testing.T, path string, off int64) {
	t.Helper()
	fd, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	if _, err := fd.WriteAt([]byte{0xff}, off); err != nil {
		t.Fatal(err)
	}
	// A disk that goes bad does not touch the times either.
	past := time.Unix(1, 0)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
}

func TestDeepCheckReadsEverythingWhateverTheSealSays(t *testing.T) {
	s, c := &shelf{}, NewCache(t.TempDir(), nil)
	f := s.put("m.gguf", bytes.Repeat([]byte("0123456789abcdef"), 1<<20))
	ensure(t, c, s, f)
	flip(t, c.Path(f.SHA256), 5<<20+70000)   // between two sampled blocks
	if err := c.seal(f.SHA256); err != nil { // as if the seal had been made of the damaged file
		t.Fatal(err)
	}
	if err := c.Check(t.Context(), f, false); err != nil {
		t.Fatalf("the cheap check cannot see this: %v", err)
	}
	if err := c.Check(t.Context(), f, true); !errors.Is(err, fault.HashMismatch) {
		t.Fatalf("deep check: %v, want HASH_MISMATCH", err)
	}
}

func TestDiskFullIsSaidBeforeTheFirstByte(t *testing.T) {
	s, c := &shelf{}, NewCache(t.TempDir(), nil)
	f := s.put("m.gguf", make([]byte, 1000))
	c.freeSpace = func(string) (int64, error) { return spaceFloor + 999, nil }
	err := c.Ensure(context.Background(), s, []fleet.File{f}, func(int64, int64) {})
	if e := fault.Of(err); !errors.Is(err, fault.DiskFull) || e.Details["needs"] != int64(spaceFloor+1000) || e.Details["has"] != int64(spaceFloor+999) || s.asked != 0 {
		t.Fatalf("%v with %v, asked %d times", err, fault.Of(err).Details, s.asked)
	}
	// What a broken download left counts.
	if err := os.WriteFile(c.Path(f.SHA256)+".part", make([]byte, 500), 0o600); err != nil {
		t.Fatal(err)
	}
	ensure(t, c, s, f)
}

func TestLinkHasExactlyTheDeploymentsFiles(t *testing.T) {
	s, c := &shelf{}, NewCache(t.TempDir(), nil)
	a, b := s.put("a-00001-of-00002.gguf", []byte("a")), s.put("a-00002-of-00002.gguf", []byte("b"))
	ensure(t, c, s, a, b)
	dir := filepath.Join(t.TempDir(), "versions", "dep")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "left.gguf"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first, err := c.Link(dir, []fleet.File{a, b})
	if err != nil || filepath.Base(first) != a.Name {
		t.Fatalf("first %q, err %v", first, err)
	}
	es, _ := os.ReadDir(dir)
	if got, err := os.ReadFile(filepath.Join(dir, b.Name)); len(es) != 2 || err != nil || string(got) != "b" {
		t.Fatalf("%d entries, read %q, %v", len(es), got, err)
	}
	if _, err := c.Link(dir, []fleet.File{{Name: "../../x", SHA256: a.SHA256, Size: 1}}); err == nil {
		t.Fatal("a name with a folder was linked")
	}
	if err := c.Check(t.Context(), fleet.File{Name: "none", SHA256: "00", Size: 1}, false); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a missing file: %v", err)
	}
}

// fullDisk is a source whose bytes do not all find room.
type fullDisk struct{ *shelf }

func (s fullDisk) Download(_ context.Context, want client.Ref, dst string, _ client.Transfer) error {
	if err := os.WriteFile(dst+".part", s.bytes[want.SHA256][:600], 0o600); err != nil {
		return err
	}
	return fault.Wrap(syscall.ENOSPC, fault.DiskFull, "the disk is full")
}

func TestADiskThatFillsUpIsSaidInNumbersAndThePartStays(t *testing.T) {
	s, c := &shelf{}, NewCache(t.TempDir(), nil)
	f := s.put("m.gguf", make([]byte, 1000))
	err := c.Ensure(t.Context(), fullDisk{s}, []fleet.File{f}, func(int64, int64) {})
	if e := fault.Of(err); !errors.Is(err, fault.DiskFull) || !errors.Is(err, syscall.ENOSPC) || !strings.HasPrefix(e.Message, "disk: needs 400 B") {
		t.Fatalf("%v", err)
	}
	if st, err := os.Stat(c.Path(f.SHA256) + ".part"); err != nil || st.Size() != 600 {
		t.Fatalf("the part: %v", err)
	}
}

func TestADamagedFileMakesRoomForItself(t *testing.T) {
	s := &shelf{}
	f := s.put("m.gguf", bytes.Repeat([]byte("x"), 1000))
	c := NewCache(t.TempDir(), func(string) (int64, error) { return spaceFloor, nil })
	if err := os.WriteFile(c.Path(f.SHA256), make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	ensure(t, c, s, f)
	if err := c.Check(t.Context(), f, true); err != nil {
		t.Fatal(err)
	}
}

func TestACheckEndsWithItsContext(t *testing.T) {
	s, c := &shelf{}, NewCache(t.TempDir(), nil)
	f := s.put("m.gguf", make([]byte, digestStep+1))
	ensure(t, c, s, f)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Check(ctx, f, true); !errors.Is(err, context.Canceled) {
		t.Fatalf("a check that nobody waits for: %v", err)
	}
	if err := c.Check(ctx, f, false); err != nil {
		t.Fatalf("the cheap check: %v", err)
	}
}

func TestADeploymentWithoutFilesIsRefused(t *testing.T) {
	if _, err := NewCache(t.TempDir(), nil).Link(t.TempDir(), nil); !errors.Is(err, fault.Invalid) {
		t.Fatalf("no files: %v", err)
	}
}
