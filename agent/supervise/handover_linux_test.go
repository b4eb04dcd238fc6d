package supervise

import (
	"os"
	"testing"
)

// TestFromAnotherThreadTheModelDies is the control of TestThreeReplacementsKeepTheModelServer: the same
// program without mainthread.Run loses its model server at the second replacement, since the thread that
// forked it is gone.
func TestFromAnotherThreadTheModelDies(t *testing.T) {
	t.Setenv(envAnywhere, "1")
	r, first := startReplacer(t, t.TempDir(), LeashDeathsig)
	last := first
	for range 2 {
		r.replace(os.Args[0])
		last = r.hear()
	}
	if last.PID == first.PID {
		t.Errorf("process %d lives: the test of three replacements proves nothing about threads", first.PID)
	}
}
