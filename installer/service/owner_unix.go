package service

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"interlock.sh/fault"
)

// entry is what stands at a path, itself and not what it may lead to.
type entry struct {
	uid  int
	mode fs.FileMode
}

func lstat(path string) (entry, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return entry{}, err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return entry{}, errors.New("nobody can tell whose it is")
	}
	return entry{int(sys.Uid), st.Mode()}, nil
}

// folderOf finds what a path of a folder leads to, and whose it is. Every part of both, links included, must
// be that user's own or root's: whoever may exchange a part of the path of somebody else's folder could
// otherwise have a program of theirs run as somebody else. The path that it gives has no links, and nobody but
// that user and root can put any into it later.
func folderOf(path string, resolve func(string) (string, error), look func(string) (entry, error)) (real string, uid int, err error) {
	if real, err = resolve(path); err != nil {
		return "", 0, fmt.Errorf("look at %s: %w", path, err)
	}
	last, err := look(real)
	if err != nil {
		return "", 0, fmt.Errorf("look at %s: %w", real, err)
	}
	for _, at := range []string{real, path} {
		for part := at; ; part = filepath.Dir(part) {
			e, err := look(part)
			if err != nil {
				return "", 0, fmt.Errorf("look at %s: %w", part, err)
			}
			if at == real && !e.mode.IsDir() {
				return "", 0, fault.New(fault.Invalid, "%s is no folder", part).WithField("home")
			}
			if e.uid != last.uid && e.uid != 0 {
				return "", 0, fault.New(fault.ScopeDenied, "%s belongs to user %d, and leads to a folder of user %d: %s", part, e.uid, last.uid, real).WithField("home").
					WithHint("use a folder whose path is your own")
			}
			if part == filepath.Dir(part) {
				break
			}
		}
	}
	return real, last.uid, nil
}
