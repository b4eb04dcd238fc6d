package supervise

import "syscall"

// SystemLeash is the leash of choice here: the kernel has none.
const SystemLeash = LeashPipe

// attributes put a child into a group of its own.
func attributes(Leash) *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
