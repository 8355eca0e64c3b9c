package team

import "syscall"

// yield lets other threads have this core, at least those of this program: the
// kernel may have put the two that wait for each other on the same one.
func yield() { _, _, _ = syscall.RawSyscall(syscall.SYS_SCHED_YIELD, 0, 0, 0) }
