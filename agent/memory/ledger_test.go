package memory

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
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

func TestADamagedLedgerPromisesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ns", "ledger.json")
	l := Open(path, func(int, string) bool { return true })
	p := Promise{Deployment: "a", Group: "one", Bytes: gig, Pid: 1}
	if err := l.Reserve(t.Context(), p, Free{Total: gig, Available: gig}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`[{"bytes":`), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Deployment = "b"
	if err := l.Reserve(t.Context(), p, Free{Total: gig, Available: gig}); err != nil {
		t.Fatalf("over a damaged ledger: %v", err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

func TestModelsThatStartAtOnceAreNotPromisedTheSameMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.json")
	var all sync.WaitGroup
	var won atomic.Int32
	for i := range 8 {
		all.Go(func() { // each has the file open by itself, as agents of several groups do
			l := Open(path, func(int, string) bool { return true })
			err := l.Reserve(t.Context(), Promise{Deployment: "d", Group: "g", Bytes: 3 * gig, Pid: i + 1}, Free{Total: 10 * gig, Available: 10 * gig})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, fault.Conflict):
				t.Error(err)
			}
		})
	}
	all.Wait()
	if won.Load() != 3 {
		t.Errorf("%d models of 3 GiB were promised 10 GiB", won.Load())
	}
}

func TestFreeAcceleratorMemoryCounts(t *testing.T) {
	l := Open(filepath.Join(t.TempDir(), "ledger.json"), func(int, string) bool { return true })
	p := Promise{Deployment: "a", Bytes: 20 * gig, Pid: 1}
	if err := l.Reserve(t.Context(), p, Free{Total: 16 * gig, Available: 8 * gig, GPU: 12 * gig}); err != nil {
		t.Errorf("8 and 12 GiB: %v", err)
	}
	if err := l.Reserve(t.Context(), p, Free{Total: 16 * gig, Available: 8 * gig, GPU: 11 * gig}); !errors.Is(err, fault.Conflict) {
		t.Errorf("8 and 11 GiB: %v", err)
	}
}
