package ioactor

import (
	"os"

	"golang.org/x/sys/unix"
)

func adviseSequential(f File)             { advise(f, 0, 0, unix.FADV_SEQUENTIAL) }
func adviseWillNeed(f File, off, n int64) { advise(f, off, n, unix.FADV_WILLNEED) }
func adviseDone(f File, off, n int64)     { advise(f, off, n, unix.FADV_DONTNEED) }

// A refusal (a file system without a page cache) changes nothing that is read.
func advise(f File, off, n int64, advice int) {
	if f, ok := f.(*os.File); ok {
		_ = unix.Fadvise(int(f.Fd()), off, n, advice)
	}
}
