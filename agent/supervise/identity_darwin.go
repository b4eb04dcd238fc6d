package supervise

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// zombie is SZOMB of sys/proc.h.
const zombie = 5

// startOf is the process's start time to the microsecond, as the kernel keeps it.
func startOf(pid int) (string, error) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return "", err
	}
	if int(p.Proc.P_pid) != pid || p.Proc.P_stat == zombie {
		return "", os.ErrProcessDone
	}
	return fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec), nil
}
