package store

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gofrs/flock"

	"interlock.sh/fault"
)

const lockName = "lock"

// lockFolder takes the data folder for this process. The lock is the kernel's, so it ends with the
// process however that dies; the pid in the file is only there to be named.
func lockFolder(dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, lockName)
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, folderFault(dir, err)
	}
	if !got {
		return nil, fault.New(fault.Conflict, "the data folder %s is in use by %s (%s is locked)", dir, holder(path), path).
			WithHint("stop that server first, or give this one another folder with --data")
	}
	if err := os.WriteFile(path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o600); err != nil {
		_ = lock.Unlock()
		return nil, folderFault(dir, err)
	}
	return lock, nil
}

func holder(path string) string {
	text, err := os.ReadFile(path)
	if pid, perr := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && perr == nil {
		return fmt.Sprintf("process %d", pid)
	}
	return "another process"
}
