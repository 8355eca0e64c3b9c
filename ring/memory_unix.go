//go:build unix

package ring

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Alloc returns n bytes of zeroed memory outside the Go heap. From HugePage
// bytes on it is aligned to huge pages and asks for them: a direct read into
// ordinary pages is cut into many small requests, and kernels miss the TLB. A
// machine without them gives ordinary pages, which is slower and not an error.
func Alloc(n int64) (*Memory, error) {
	if n == 0 {
		return &Memory{}, nil
	}
	if n < 0 || n > maxAlloc {
		return nil, fmt.Errorf("memory: %d bytes", n)
	}
	size := roundUp(n, int64(unix.Getpagesize()))
	room := size
	if n >= HugePage {
		room += HugePage
	}
	m, err := unix.Mmap(-1, 0, int(room), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("memory: map %d bytes: %w", room, err)
	}
	b := m
	if n >= HugePage { // what is skipped is never touched, so it takes no memory
		skip := -uintptr(unsafe.Pointer(&m[0])) & (HugePage - 1)
		b = m[skip : int64(skip)+size]
		adviseHuge(b)
	}
	return &Memory{bytes: b[:n:n], mapped: m}, nil
}

func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

func (m *Memory) unmap() {
	if err := unix.Munmap(m.mapped); err != nil {
		panic("ring: munmap of our own mapping: " + err.Error())
	}
}
