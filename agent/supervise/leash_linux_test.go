package supervise

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"
)

func TestDeathsigDoesNotFollowTheThreadThatAsked(t *testing.T) {
	s := newSupervisor(t, LeashDeathsig, quick)
	c := add(t, s, &fakeDriver{})
	type launched struct {
		p      *process
		err    error
		thread int
	}
	result := make(chan launched, 1)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with this goroutine
		p, err := s.launch(c, &fakeDriver{})
		result <- launched{p, err, syscall.Gettid()}
	}()
	got := <-result
	if got.err != nil {
		t.Fatal(got.err)
	}
	for end := time.Now().Add(patience); ; <-time.After(time.Millisecond) {
		if _, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", got.thread)); os.IsNotExist(err) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the thread does not end")
		}
	}
	awaitHealth(t, got.p.at.Port) // were it on that thread's leash, it would be dead by now or never get here
	if !got.p.running() {
		t.Error("the child ended with the thread")
	}
	got.p.signal(syscall.SIGKILL)
	got.p.reap()
	if err := s.table.remove(got.p.Identity); err != nil {
		t.Fatal(err)
	}
}
