package agent

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// roleLock keeps a second agent of a role away. It is bound to the open file and not to the program: left
// open over an exec, it is held without a moment between.
type roleLock struct{ file *os.File }

// errLocked is a role whose agent runs.
var errLocked = errors.New("locked")

// lockRole takes the lock at path; errLocked when another agent has it. held is the lock as the former
// image of this process left it, or nil.
func lockRole(path string, held *os.File) (*roleLock, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if held != nil {
		if same, err := sameOpenFile(held, f); err == nil && same {
			_ = f.Close()
			f = held
		}
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errLocked
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &roleLock{f}, nil
}

func sameOpenFile(a, b *os.File) (bool, error) {
	x, err := a.Stat()
	if err != nil {
		return false, fmt.Errorf("look at the lock: %w", err)
	}
	y, err := b.Stat()
	if err != nil {
		return false, fmt.Errorf("look at the lock: %w", err)
	}
	return os.SameFile(x, y), nil
}

// Unlock gives the role to the next agent. Closing the file alone would leave it with a child that this
// process is just starting, until that child is another program.
func (l *roleLock) Unlock() error {
	return errors.Join(unix.Flock(int(l.file.Fd()), unix.LOCK_UN), l.file.Close())
}
