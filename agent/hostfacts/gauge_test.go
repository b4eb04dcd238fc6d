package hostfacts

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"interlock.sh/fleet"
	"interlock.sh/internal/clock"
	"interlock.sh/internal/testkit"
)

func TestAcceleratorsAreAskedAtMostEachHalfMinute(t *testing.T) {
	fake := clock.NewFake(time.Unix(0, 0))
	asked := 0 // under the gauge's lock
	g := NewGauge(t.Context(), t.TempDir(), fake)
	g.ask = func(ctx context.Context) []fleet.GPU {
		asked++
		if ctx.Err() != nil {
			t.Error("the question ends with its first caller")
		}
		return []fleet.GPU{{Name: "RTX"}}
	}
	fake.Advance(gpusEvery)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if f := g.Read(gone); len(f.GPUs) != 1 {
				t.Errorf("accelerators: %v", f.GPUs)
			}
		})
	}
	all.Wait()
	if f := g.Read(t.Context()); f.MemoryFree == nil || f.DiskFree == nil || f.Cores == 0 || f.Hostname == "" {
		t.Errorf("facts are missing: %+v", f)
	}
	fake.Advance(gpusEvery - time.Second)
	g.Read(t.Context())
	if asked != 1 {
		t.Errorf("asked %d times in half a minute", asked)
	}
	fake.Advance(time.Second)
	g.Read(t.Context())
	if asked != 2 {
		t.Errorf("asked %d times after it", asked)
	}
	g.Again()
	g.Read(t.Context())
	g.Read(t.Context())
	if asked != 3 {
		t.Errorf("asked %d times after a sleep", asked)
	}
}

func TestAVendorsToolThatHangsIsGivenUpWithWhatItStarted(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "nvidia-smi")
	// The sleep holds the output open after its parent was killed.
	testkit.WriteProgram(t, tool, []byte("#!/bin/sh\nsleep 5 &\nwait\n"))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	if got := output(ctx, tool); got != "" {
		t.Errorf("it gave %q", got)
	}
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("given up after %v", took)
	}
}

func TestWhatCannotBeReadIsAbsent(t *testing.T) {
	var f fleet.HostFacts
	Refresh(t.Context(), &f, filepath.Join(t.TempDir(), "no", "such", "folder", "\x00"))
	if f.DiskFree != nil {
		t.Errorf("a disk that is not there has %d bytes free", *f.DiskFree)
	}
}
