package models

import (
	"io/fs"
	"syscall"
)

func inode(st fs.FileInfo) (ino uint64, ctime int64) {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return sys.Ino, sys.Ctimespec.Nano()
	}
	return 0, 0
}
