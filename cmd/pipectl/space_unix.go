//go:build linux || darwin

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// freeBytes returns how much may be written to the file system of dir.
func freeBytes(dir string) (n int64, known bool, err error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), true, nil
}
