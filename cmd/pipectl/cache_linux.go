package main

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropCached asks the page cache to let the files go, and reports whether it did:
// it keeps what somebody has mapped or has yet to write, and files in memory.
func dropCached(paths []string) (dropped bool, err error) {
	for _, path := range paths {
		err := withFile(path, func(f *os.File, _ int64) error {
			return os.NewSyscallError("fadvise", unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		})
		if err != nil {
			return false, err
		}
	}
	share, _, err := cachedShare(paths)
	return share <= 0.01, err
}

// cachedShare returns how much of the files the page cache holds, 0 to 1. known is
// false where the system does not tell.
func cachedShare(paths []string) (share float64, known bool, err error) {
	var cached, pages int64
	for _, path := range paths {
		err := withFile(path, func(f *os.File, size int64) error {
			c, p, err := cachedPages(f, size)
			cached, pages = cached+c, pages+p
			return err
		})
		if err != nil {
			return 0, false, err
		}
	}
	return float64(cached) / float64(max(1, pages)), true, nil
}

func withFile(path string, do func(f *os.File, size int64) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return do(f, info.Size())
}

// cachedPages counts the pages of f, and those in the page cache.
func cachedPages(f *os.File, size int64) (cached, pages int64, err error) {
	const window = 1 << 30
	page := int64(os.Getpagesize())
	states := make([]byte, window/page)
	for off := int64(0); off < size; off += window {
		n := min(window, size-off)
		m, err := unix.Mmap(int(f.Fd()), off, int(n), unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			return 0, 0, os.NewSyscallError("mmap", err)
		}
		_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(n), uintptr(unsafe.Pointer(&states[0])))
		unmapped := unix.Munmap(m)
		if errno != 0 {
			return 0, 0, os.NewSyscallError("mincore", errno)
		}
		if unmapped != nil {
			return 0, 0, os.NewSyscallError("munmap", unmapped)
		}
		for _, s := range states[:(n+page-1)/page] {
			cached += int64(s & 1)
			pages++
		}
	}
	return cached, pages, nil
}
