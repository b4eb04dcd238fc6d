package supervise

import (
	"errors"

	"golang.org/x/sys/unix"
)

// awaitEnd returns when our child pid has ended, and leaves it unreaped: until it is reaped its number,
// and its group's, can be nobody else's. False when the system cannot tell.
func awaitEnd(pid int) bool {
	kq, err := unix.Kqueue()
	if err != nil {
		return false
	}
	defer unix.Close(kq)
	var ev unix.Kevent_t
	unix.SetKevent(&ev, pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	ev.Fflags = unix.NOTE_EXIT
	got := make([]unix.Kevent_t, 1)
	for changes := []unix.Kevent_t{ev}; ; changes = nil {
		_, err := unix.Kevent(kq, changes, got, nil)
		switch {
		case errors.Is(err, unix.ESRCH): // the queue takes no process that has ended
			return true
		case !errors.Is(err, unix.EINTR):
			return err == nil && (got[0].Flags&unix.EV_ERROR == 0 || got[0].Data == int64(unix.ESRCH))
		}
	}
}
