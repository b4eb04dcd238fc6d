package hostfacts

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/process"

	"interlock.sh/internal/clock"
)

func TestMemoryIsThatOfTheChildrenToo(t *testing.T) {
	alone := resident(t.Context(), os.Getpid())
	child := exec.CommandContext(t.Context(), "sleep", "600")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	me, err := process.NewProcess(int32(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	if found := children(t.Context(), me); !slices.Contains(found, child.Process.Pid) {
		t.Errorf("the children %v are without %d", found, child.Process.Pid)
	}
	if both := resident(t.Context(), os.Getpid()); alone == nil || both == nil || *alone <= 0 {
		t.Errorf("memory alone %v, with a child %v", alone, both)
	}
	if got := resident(t.Context(), -1); got != nil {
		t.Errorf("a process that is not there has %d bytes", *got)
	}
}

func TestMemoryIsMeasuredSeldom(t *testing.T) {
	fake := clock.NewFake(time.Unix(0, 0))
	r := NewResident(fake)
	first := r.Of(t.Context(), os.Getpid())
	if first == nil || *first <= 0 {
		t.Fatalf("this process has %v", first)
	}
	if again := r.Of(t.Context(), os.Getpid()); again != first {
		t.Error("measured twice in the same moment")
	}
	if gone := r.Of(t.Context(), -1); gone != nil {
		t.Errorf("another process is given the figure of the one before: %d", *gone)
	}
	first = r.Of(t.Context(), os.Getpid())
	fake.Advance(residentEvery)
	if later := r.Of(t.Context(), os.Getpid()); later == nil || later == first {
		t.Error("not measured again after its time")
	}
	fake.Advance(-time.Hour)
	if back := r.Of(t.Context(), os.Getpid()); back == nil || back == first {
		t.Error("not measured again after the clock went back")
	}
}
