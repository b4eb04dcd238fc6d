package service

import (
	"fmt"
	"os"
	"syscall"

	"interlock.sh/fault"
)

// ownerOf is the user that a folder belongs to. A link to it must be that user's own: whoever makes links
// could otherwise have a service run as somebody else.
func ownerOf(path string) (int, error) {
	link, err := os.Lstat(path)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	st, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("look at %s: %w", path, err)
	}
	outer, known := link.Sys().(*syscall.Stat_t)
	inner, also := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !known || !also {
		return 0, fault.New(fault.Invalid, "%s is no folder", path).WithField("home")
	}
	if outer.Uid != inner.Uid {
		return 0, fault.New(fault.ScopeDenied, "%s is a link of user %d to a folder of user %d", path, outer.Uid, inner.Uid).WithField("home").
			WithHint("use a folder of your own")
	}
	return int(inner.Uid), nil
}
