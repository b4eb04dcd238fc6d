package supervise

import (
	"testing"

	"golang.org/x/sys/unix"
)

// processes are the ids of all processes.
func processes(t *testing.T) []int {
	t.Helper()
	all, err := unix.SysctlKinfoProcSlice("kern.proc.all")
	if err != nil {
		t.Fatal(err)
	}
	pids := make([]int, 0, len(all))
	for _, p := range all {
		pids = append(pids, int(p.Proc.P_pid))
	}
	return pids
}
