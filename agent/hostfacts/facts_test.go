package hostfacts

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"interlock.sh/fleet"
)

func ptr[T any](v T) *T { return &v }

func TestParseNvidiaLeavesUnknownFiguresOut(t *testing.T) {
	got := parseNvidia("NVIDIA GeForce RTX 4090, 24564, 20000, 7\nNVIDIA Thor, [N/A], [N/A], [N/A]\n")
	want := []fleet.GPU{
		{Name: "NVIDIA GeForce RTX 4090", MemoryTotal: ptr(int64(24564) << 20), MemoryFree: ptr(int64(20000) << 20), Utilization: ptr(7.0)},
		{Name: "NVIDIA Thor"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if got := parseNvidia("NVIDIA-SMI has failed because it couldn't communicate with the driver"); got != nil {
		t.Fatalf("a message was read as a GPU: %v", got)
	}
}

func TestParseROCm(t *testing.T) {
	got := parseROCm(`{"card0":{"Card Series":"Radeon RX 7900 XTX","GPU use (%)":"3","VRAM Total Memory (B)":"1000","VRAM Total Used Memory (B)":"400"},"system":{}}`)
	want := []fleet.GPU{{Name: "Radeon RX 7900 XTX", MemoryTotal: ptr(int64(1000)), MemoryFree: ptr(int64(600)), Utilization: ptr(3.0)}}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
	if got := parseROCm(""); got != nil {
		t.Fatalf("nothing was read as %v", got)
	}
}

func TestParseIOReg(t *testing.T) {
	got := parseIOReg(`"model" = "Apple M2 Max"  "PerformanceStatistics" = {"Device Utilization %"=12,"x"=1}`)
	if d := cmp.Diff([]fleet.GPU{{Name: "Apple M2 Max", Utilization: ptr(12.0)}}, got); d != "" {
		t.Fatal(d)
	}
}

func TestThisMachineHasFacts(t *testing.T) {
	f := Collect(context.Background(), t.TempDir())
	if f.OS == "" || f.Arch == "" || f.Cores < 1 || f.MemoryTotal == nil || f.MemoryFree == nil || f.DiskFree == nil || f.Hostname == "" {
		t.Fatalf("facts are missing: %+v", f)
	}
	if *f.MemoryFree > *f.MemoryTotal {
		t.Fatalf("free %d of %d", *f.MemoryFree, *f.MemoryTotal)
	}
	if id := ID(context.Background()); len(id) != 32 || id != ID(context.Background()) {
		t.Fatalf("id %q is not stable", id)
	}
}
