package gguftiny

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
)

func bytesOf(t *testing.T, seed uint64, opts Options) []byte {
	t.Helper()
	files, err := Write(filepath.Join(t.TempDir(), "m.gguf"), seed, opts)
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	return all
}

// Recordings and caches name the model by its hash: a change of the bytes is to be made knowingly.
func TestBytesAreFixed(t *testing.T) {
	sum := sha256.Sum256(bytesOf(t, 1, Options{}))
	const want = "7325a257a06698961454fe2f12c55d7a6ae0af9a90df11fe2df342e008042fcf"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("the model of seed 1 has SHA-256 %s, want %s", got, want)
	}
}

func TestSeedAndOptionsChangeTheBytes(t *testing.T) {
	one := bytesOf(t, 1, Options{})
	if n := len(one); n < 400<<10 || n > 700<<10 {
		t.Errorf("%d bytes, want about half a megabyte", n)
	}
	for name, other := range map[string][]byte{
		"seed": bytesOf(t, 2, Options{}), "name": bytesOf(t, 1, Options{Name: "x"}),
		"context": bytesOf(t, 1, Options{ContextLength: 99}), "shards": bytesOf(t, 1, Options{Shards: 2}),
	} {
		if bytes.Equal(one, other) {
			t.Errorf("another %s gives the same bytes", name)
		}
	}
}

func TestTooManyShards(t *testing.T) {
	if _, err := Write(filepath.Join(t.TempDir(), "m.gguf"), 1, Options{Shards: 22}); err == nil {
		t.Error("22 shards of 21 tensors were written")
	}
}
