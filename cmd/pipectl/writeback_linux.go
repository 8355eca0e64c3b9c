package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// writeback has the part of f from off to off+n written to the disk, and waits
// for that if wait is set; then the page cache lets it go. It may do nothing
// where the file system cannot.
func writeback(f *os.File, off, n int64, wait bool) {
	fd := int(f.Fd())
	if !wait {
		_ = unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WRITE)
		return
	}
	_ = unix.SyncFileRange(fd, off, n, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
	_ = unix.Fadvise(fd, off, n, unix.FADV_DONTNEED)
}
