package ioactor

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// storageReads is how many bytes this thread has had read from storage, as
// opposed to a cache. Not every kernel counts them.
func storageReads() (int64, bool) {
	b, err := os.ReadFile("/proc/thread-self/io")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(b)) {
		var n int64
		if _, err := fmt.Sscanf(line, "read_bytes: %d", &n); err == nil {
			return n, true
		}
	}
	return 0, false
}

// MemoryFS returns the name of the file system of path if its files are in
// memory, and "" if not or if the system does not tell. Direct reads of them work
// from Linux 6.6 on.
func MemoryFS(path string) string {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) != nil {
		return ""
	}
	switch uint32(st.Type) { // signed or not, by machine
	case unix.TMPFS_MAGIC:
		return "tmpfs"
	case unix.RAMFS_MAGIC:
		return "ramfs"
	}
	return ""
}
