package supervise

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitEnd returns when our child pid has ended, and leaves it unreaped: until it is reaped its number,
// and its group's, can be nobody else's. False when the system cannot tell.
func awaitEnd(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
