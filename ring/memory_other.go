//go:build !unix

package ring

import (
	"fmt"
	"unsafe"
)

const pageSize = 4096

// Alloc returns n bytes of zeroed, page-aligned memory. On this system it is
// part of the Go heap, which never moves an allocation.
func Alloc(n int64) (*Memory, error) {
	if n == 0 {
		return &Memory{}, nil
	}
	if n < 0 || n > maxAlloc {
		return nil, fmt.Errorf("memory: %d bytes", n)
	}
	m := make([]byte, n+pageSize)
	skip := int64(-uintptr(unsafe.Pointer(&m[0])) & (pageSize - 1))
	return &Memory{bytes: m[skip : skip+n : skip+n], mapped: m}, nil
}

func (m *Memory) unmap() {}
