package service

import (
	"fmt"
	"os"
	"syscall"

	"interlock.sh/fault"
)

// ownerOf is the user that a folder belongs to.
func ownerOf(path string) (int, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !ok {
		return 0, fault.New(fault.Invalid, "%s is no folder", path).WithField("home")
	}
	return int(sys.Uid), nil
}
