package ident

import (
	"testing"
	"time"
)

func TestIdsSortByTimeAndDiffer(t *testing.T) {
	a, b := New("tsk", time.UnixMilli(1000)), New("tsk", time.UnixMilli(1001))
	if a >= b || len(a) != 30 {
		t.Fatalf("%s (%d) must sort before %s", a, len(a), b)
	}
	if a, b := New("x", time.UnixMilli(1)), New("x", time.UnixMilli(1)); a == b {
		t.Fatal("two ids are equal")
	}
}

func TestSlug(t *testing.T) {
	for in, want := range map[string]string{
		"My Model 2": "my-model-2", "  --A--b ": "a-b", "日本": "model", "Qwen3.6 / 35B": "qwen3-6-35b",
	} {
		if got := Slug(in); got != want {
			t.Errorf("Slug(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestSecretIsHashedAndShownByPrefix(t *testing.T) {
	s := Secret("il_")
	if len(s) != 51 || len(HashSecret(s)) != 64 || ShownPrefix(s) != s[:9]+"…" || ShownPrefix("short") != "…" {
		t.Fatalf("secret %d chars, shown %q", len(s), ShownPrefix(s))
	}
}
