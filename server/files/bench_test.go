package files_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"interlock.sh/client"
	"interlock.sh/server/files"
)

// benchBytes is 64 MB, or INTERLOCK_BENCH_MB million bytes.
func benchBytes(b *testing.B) int64 {
	if v := os.Getenv("INTERLOCK_BENCH_MB"); v != "" {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			b.Fatalf("INTERLOCK_BENCH_MB: %v", err)
		}
		return n * 1e6
	}
	return 64e6
}

// baseline does what `dd conv=fsync` and then `openssl dgst -sha256` of the same file do: a copy with
// one sync at its end, and a hash of it. It returns the time of both together.
func baseline(b *testing.B, src, dir string) time.Duration {
	b.Helper()
	start := time.Now()
	in, err := os.Open(src)
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	copied := filepath.Join(dir, "copy")
	out, err := os.Create(copied)
	if err != nil {
		b.Fatal(err)
	}
	buf := make([]byte, 1<<20)
	// Bare reader and writer, so that no copy inside the kernel makes it cheaper than dd.
	if _, err := io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{in}, buf); err != nil {
		b.Fatal(err)
	}
	if err := out.Sync(); err != nil {
		b.Fatal(err)
	}
	if err := out.Close(); err != nil {
		b.Fatal(err)
	}
	h := sha256.New()
	again, err := os.Open(copied)
	if err != nil {
		b.Fatal(err)
	}
	defer again.Close()
	if _, err := io.CopyBuffer(h, struct{ io.Reader }{again}, buf); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	if err := os.Remove(copied); err != nil {
		b.Fatal(err)
	}
	return took
}

func writeNoise(b *testing.B, path string, size int64) client.Ref {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	block := noise(7, 1e6)
	for left := size; left > 0; left -= int64(len(block)) {
		block[0]++
		part := block[:min(left, int64(len(block)))]
		h.Write(part)
		if _, err := f.Write(part); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	return client.Ref{SHA256: hex.EncodeToString(h.Sum(nil)), Size: size}
}

// BenchmarkUpload and BenchmarkDownload measure a whole transfer over loopback, client and server in
// this process, interleaved with the baseline. The metric "ratio" is baseline time over our time: at
// 0.7 or more a transfer costs at most 1/0.7 of copying and hashing the file locally.
//
//	INTERLOCK_BENCH_MB=500 go test -run - -bench 'load$' -benchtime 3x ./server/files/
func BenchmarkUpload(b *testing.B) {
	dir := b.TempDir()
	src := filepath.Join(dir, "src")
	ref := writeNoise(b, src, benchBytes(b))
	store := newStore(b, files.Options{})
	c := newClient(b, serve(b, routes(store)).URL)
	var base, ours time.Duration
	for b.Loop() {
		base += baseline(b, src, dir)
		start := time.Now()
		got, err := c.Upload(b.Context(), src, client.Transfer{})
		ours += time.Since(start)
		if err != nil || got != ref {
			b.Fatalf("Upload: %v, %v", got, err)
		}
		if _, err := store.Delete(ref.SHA256, time.Now().Add(time.Hour)); err != nil {
			b.Fatal(err)
		}
	}
	report(b, base, ours, ref.Size)
}

// BenchmarkDownload: see BenchmarkUpload.
func BenchmarkDownload(b *testing.B) {
	dir := b.TempDir()
	src := filepath.Join(dir, "src")
	ref := writeNoise(b, src, benchBytes(b))
	store := newStore(b, files.Options{})
	f, err := os.Open(src)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := store.Put(b.Context(), f); err != nil {
		b.Fatal(err)
	}
	c := newClient(b, serve(b, routes(store)).URL)
	dst := filepath.Join(dir, "dst")
	var base, ours time.Duration
	for b.Loop() {
		base += baseline(b, src, dir)
		start := time.Now()
		err := c.Download(b.Context(), ref, dst, client.Transfer{})
		ours += time.Since(start)
		if err != nil {
			b.Fatalf("Download: %v", err)
		}
		if err := os.Remove(dst); err != nil {
			b.Fatal(err)
		}
	}
	report(b, base, ours, ref.Size)
}

func report(b *testing.B, base, ours time.Duration, size int64) {
	b.ReportMetric(base.Seconds()/ours.Seconds(), "ratio")
	b.ReportMetric(float64(size)*float64(b.N)/ours.Seconds()/1e6, "MB/s")
	b.ReportMetric(base.Seconds()/float64(b.N), "baseline-s/op")
}
