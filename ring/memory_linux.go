package ring

import "golang.org/x/sys/unix"

// A refusal (a kernel without huge pages) leaves ordinary pages.
func adviseHuge(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
