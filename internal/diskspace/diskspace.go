// Package diskspace answers how much room a folder has left and whether an error means "no room".
//
// It owns the system calls only. What to refuse, and with which words, is the caller's decision.
package diskspace

import (
	"errors"
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// Free is how many bytes an unprivileged process may still write below dir.
func Free(dir string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(dir, &st)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("ask the free space of %s: %w", dir, err)
		}
	}
	// The field types differ between Linux and macOS; both fit 64 bits.
	free := float64(st.Bavail) * float64(st.Bsize)
	if free >= math.MaxInt64 {
		return math.MaxInt64, nil
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// IsFull tells whether a write failed because the disk, or the owner's quota on it, is used up.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}
