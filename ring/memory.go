package ring

import "math"

// HugePage is the size and alignment of a transparent huge page on the machines
// that have them; elsewhere it only costs address space. [Alloc] aligns what is
// as large.
const HugePage = 2 << 20

// maxAlloc leaves room for alignment in an int.
const maxAlloc = math.MaxInt - 4<<20

// Memory is a page-aligned buffer outside the Go heap: the garbage collector
// neither scans nor counts it, and it goes back to the system when it is freed.
type Memory struct {
	bytes  []byte
	mapped []byte
}

// Bytes is the whole buffer. It must not be used after [Memory.Free].
func (m *Memory) Bytes() []byte {
	if m == nil {
		return nil
	}
	return m.bytes
}

// Free gives the memory back. A nil or empty Memory, and one that is free
// already, are left alone.
func (m *Memory) Free() {
	if m == nil || m.mapped == nil {
		return
	}
	m.unmap()
	m.bytes, m.mapped = nil, nil
}
