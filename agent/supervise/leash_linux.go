package supervise

import "syscall"

// SystemLeash is the leash of choice here.
const SystemLeash = LeashDeathsig

// attributes put a child into a group of its own, and on the kernel's leash when asked. With that, the
// calling thread must be one that lives as long as the agent.
func attributes(l Leash) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if l == LeashDeathsig {
		a.Pdeathsig = syscall.SIGKILL
	}
	return a
}
