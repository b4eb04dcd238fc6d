package llama

import (
	"errors"
	"testing"
	"time"

	"interlock.sh/fault"
)

const mib = 1 << 20

func TestFit(t *testing.T) {
	// Llama 3 8B: 32 layers, 8 key-value heads of 128: 128 KiB a token in f16.
	llama8b := Header{BlockCount: 32, HeadCountKV: []int{8}, KeyLength: 128, ValueLength: 128}
	mixed := Header{BlockCount: 3, HeadCountKV: []int{4, 0, 2}, KeyLength: 64, ValueLength: 32}
	q8, err := ParseCacheType("q8_0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		h            Header
		ctx, slots   int
		keys, values CacheType
		kv           int64
	}{
		{"8192 tokens", llama8b, 8192, 1, F16, F16, 1024 * mib},
		{"four slots take four times that", llama8b, 8192, 4, F16, F16, 4096 * mib},
		{"q8_0 keys take 34/64 of theirs", llama8b, 8192, 1, q8, F16, 512*mib + 512*mib*34/64},
		{"a slot's context is rounded up to 256", llama8b, 1, 2, F16, F16, 2 * 256 * 128 << 10},
		{"heads a layer, none in one", mixed, 256, 1, F16, F16, 256 * 6 * (64 + 32) * 2},
		{"a header that does not say", Header{BlockCount: 32}, 8192, 1, F16, F16, 0},
	} {
		n := Fit(c.h, 4000*mib, c.ctx, c.slots, c.keys, c.values)
		if n.KVBytes != c.kv || n.KVKnown != (c.kv > 0) {
			t.Errorf("%s: cache of %d, known %v; want %d", c.name, n.KVBytes, n.KVKnown, c.kv)
		}
		margin := (4000*mib+c.kv)/10 + 512*mib
		if n.MarginBytes != margin || n.Total != 4000*mib+c.kv+margin {
			t.Errorf("%s: margin %d and total %d, want %d and %d", c.name, n.MarginBytes, n.Total, margin, 4000*mib+c.kv+margin)
		}
	}
}

func TestCacheTypes(t *testing.T) {
	keys, values, err := CacheTypes([]string{"--flash-attn", "on", "-ctk", "q8_0", "--cache-type-v", "q4_0"})
	if err != nil || keys.Name != "q8_0" || values.Name != "q4_0" {
		t.Errorf("%s, %s, %v; want q8_0 and q4_0", keys.Name, values.Name, err)
	}
	if keys, values, err = CacheTypes(nil); err != nil || keys != F16 || values != F16 {
		t.Errorf("nothing asked: %s, %s, %v; want f16", keys.Name, values.Name, err)
	}
	if _, _, err = CacheTypes([]string{"-ctk", "q9"}); !errors.Is(err, fault.Invalid) {
		t.Errorf("an unknown type: %v", err)
	}
}

func TestLoadDeadlineGrowsWithTheModel(t *testing.T) {
	for bytes, want := range map[int64]time.Duration{
		-1: 2 * time.Minute, 0: 2 * time.Minute, 98 * mib: 2*time.Minute + 3*time.Second,
		38 << 30: 2*time.Minute + 1216*time.Second,
	} {
		if got := LoadDeadline(bytes); got != want {
			t.Errorf("%d bytes: %s, want %s", bytes, got, want)
		}
	}
	if LoadDeadline(1<<62) <= 0 {
		t.Error("the deadline of an absurd size wrapped round")
	}
}
