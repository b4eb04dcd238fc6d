package mainthread

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// withoutRun marks a re-executed test binary whose TestMain leaves Run out.
const withoutRun = "MAINTHREAD_TEST_WITHOUT_RUN"

func TestMain(m *testing.M) {
	if os.Getenv(withoutRun) != "" {
		os.Exit(m.Run())
	}
	os.Exit(Run(m.Run))
}

func TestDoRunsOnOneThread(t *testing.T) {
	var wg sync.WaitGroup
	ids := make([]int, 8)
	for i := range ids {
		wg.Add(1)
		go func() {
			defer wg.Done()
			runtime.LockOSThread() // ends with its thread, so the callers are on threads of their own
			Do(func() { ids[i] = threadID() })
		}()
	}
	wg.Wait()
	for _, id := range ids {
		if id != ids[0] {
			t.Fatalf("ran on threads %v, want one", ids)
		}
	}
	isMain := threadID() != 0 && ids[0] == os.Getpid()
	if want := os.Getenv(withoutRun) == "" && threadID() != 0; isMain != want {
		t.Fatalf("ran on the main thread: %v, want %v", isMain, want)
	}
}

func TestDoWithoutRunKeepsOneThread(t *testing.T) {
	if os.Getenv(withoutRun) != "" {
		return // the re-executed half runs TestDoRunsOnOneThread only
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDoRunsOnOneThread$", "-test.v")
	cmd.Env = append(os.Environ(), withoutRun+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestDoRunsOnOneThread") {
		t.Fatalf("without Run: %v\n%s", err, out)
	}
}

func TestRunTwiceIsAMistake(t *testing.T) {
	Do(func() {}) // whoever serves, it is decided now
	defer func() {
		if recover() == nil {
			t.Fatal("a second Run did not panic")
		}
	}()
	Run(func() int { return 0 })
}
