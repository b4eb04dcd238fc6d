package mainthread

import "syscall"

// threadID is the kernel's id of the calling thread; that of the main thread is the process id.
func threadID() int { return syscall.Gettid() }
