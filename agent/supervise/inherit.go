package supervise

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// inherited names an open file that is left to the next image: by number, and by what the number must
// still mean there.
type inherited struct {
	FD  int    `json:"fd"`
	Dev uint64 `json:"dev"`
	Ino uint64 `json:"ino"`
}

// describe names an open file of ours. It must not use File.Fd, which would make reads of it block.
func describe(f *os.File) (inherited, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return inherited{}, err
	}
	var in inherited
	ctlErr := conn.Control(func(fd uintptr) {
		in.FD = int(fd)
		in.Dev, in.Ino, err = fileIdentity(int(fd))
	})
	if ctlErr != nil {
		return inherited{}, ctlErr
	}
	return in, err
}

// keepOverExec says whether the next image gets the file.
func (in inherited) keepOverExec(keep bool) error {
	flag := unix.FD_CLOEXEC
	if keep {
		flag = 0
	}
	_, err := unix.FcntlInt(uintptr(in.FD), unix.F_SETFD, flag)
	return err
}

// open takes the file over. A number that means another file here is an error and is left alone.
func (in inherited) open(name string) (*os.File, error) {
	dev, ino, err := fileIdentity(in.FD)
	if err != nil {
		return nil, fmt.Errorf("look at inherited file %d (%s): %w", in.FD, name, err)
	}
	if dev != in.Dev || ino != in.Ino {
		return nil, fmt.Errorf("inherited file %d is not the %s that was left", in.FD, name)
	}
	if err := in.keepOverExec(false); err != nil { // before anything else is started: children get none of it
		return nil, fmt.Errorf("keep inherited file %d (%s): %w", in.FD, name, err)
	}
	return os.NewFile(uintptr(in.FD), name), nil
}

func fileIdentity(fd int) (dev, ino uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, 0, err
	}
	return uint64(st.Dev), st.Ino, nil //nolint:unconvert // Dev is 32 bits wide on macOS
}
