package ioactor

import (
	"errors"

	"golang.org/x/sys/unix"
)

// makePresent reads the pages of p, part of a mapping that begins with a page,
// unless they are there already. The kernel does it in a system call, from Linux
// 5.14 on: a page fault would hold up the other goroutines of this processor.
func makePresent(p []byte) error {
	for range maxIdle {
		err := unix.Madvise(p, unix.MADV_POPULATE_READ)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINVAL):
			return touch(p)
		case errors.Is(err, unix.EFAULT):
			return unix.EIO // how a page that cannot be read is told elsewhere
		case !transient(err):
			return err
		}
	}
	return touch(p)
}
