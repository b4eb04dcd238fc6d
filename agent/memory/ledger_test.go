package memory

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"interlock.sh/fault"
)

const gig = int64(1) << 30

func TestReserveCountsAllGroupsAndRefusesWithTheNumbers(t *testing.T) {
	ctx := context.Background()
	dead := map[int]bool{}
	l := Open(filepath.Join(t.TempDir(), "ledger.json"), func(pid int, _ string) bool { return !dead[pid] })
	free := Free{Total: 16 * gig, Available: 12 * gig}
	a := Promise{Deployment: "a", Group: "one", Bytes: 8 * gig, Pid: 1, Started: "x"}
	b := Promise{Deployment: "b", Group: "two", Bytes: 6 * gig, Pid: 2, Started: "y"}
	if err := l.Reserve(ctx, a, free); err != nil {
		t.Fatal(err)
	}
	if err := l.Reserve(ctx, a, free); err != nil {
		t.Fatalf("the same promise again: %v", err)
	}
	err := l.Reserve(ctx, b, free)
	if e := fault.Of(err); !errors.Is(err, fault.Conflict) || e.Details["needs"] != 6*gig || e.Details["has"] != 4*gig {
		t.Fatalf("%v with %v, want a refusal that needs 6 and has 4 GiB", err, e.Details)
	}
	// A loaded model is counted once: the machine's own figure knows it.
	if err := l.Loaded(ctx, a); err != nil {
		t.Fatal(err)
	}
	if err := l.Reserve(ctx, b, Free{Total: 16 * gig, Available: 7 * gig}); err != nil {
		t.Fatalf("beside a loaded model: %v", err)
	}
	// Weights that are mapped from a file still look available: the total bounds all promises.
	c := Promise{Deployment: "c", Group: "one", Bytes: 3 * gig, Pid: 1, Started: "x"}
	if err := l.Reserve(ctx, c, Free{Total: 16 * gig, Available: 16 * gig}); !errors.Is(err, fault.Conflict) {
		t.Fatalf("17 of 16 GiB were promised: %v", err)
	}
	dead[2] = true
	if err := l.Reserve(ctx, c, Free{Total: 16 * gig, Available: 16 * gig}); err != nil {
		t.Fatalf("the promise of an agent that is gone still counts: %v", err)
	}
	if err := l.Release(ctx, a); err != nil {
		t.Fatal(err)
	}
	if err := l.Reserve(ctx, Promise{Deployment: "d", Bytes: 13 * gig, Pid: 3}, Free{Total: 16 * gig, Available: 16 * gig}); err != nil {
		t.Fatalf("after a release: %v", err)
	}
}
