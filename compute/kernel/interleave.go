package kernel

import (
	"encoding/binary"
	"sync"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// maxBlock is the size of the largest block that has panels, Q6_K's.
const maxBlock = 210

// PanelLayout reports whether products with a matrix of type t and this shape
// are faster from layout [Panels] than from [Rows] by more than it costs to
// interleave the matrix once.
func PanelLayout(t gguf.Type, rows, cols int) bool {
	return familyOf(t).panel != nil && fast[t].interleave != nil && rows >= 8
}

// Interleave turns a matrix of layout [Rows] in src into one of layout [Panels]
// in dst, which has the same size. It is src or does not overlap with it.
// Interleave panics if t has no panels (float types and types of grids have
// none) or a slice is too short. Calls may run at once on disjoint ranges of rows that begin at a
// multiple of eight.
func Interleave(t gguf.Type, rows, cols int, dst, src []byte) {
	f := familyOf(t)
	if f.panel == nil {
		panic("kernel: " + t.String() + " has no panels")
	}
	size := blocks[t].bytes
	nb := cols / blocks[t].values
	eight := 8 * nb * size
	dst, src = dst[:rows*nb*size], src[:rows*nb*size]
	if len(src) == 0 {
		return
	}
	var scratch []byte
	if inPlace := &dst[0] == &src[0]; inPlace {
		p := scratches.Get().(*[]byte)
		defer scratches.Put(p)
		*p = resize(*p, eight)
		scratch = *p
	}
	for ; len(src) >= eight; dst, src = dst[eight:], src[eight:] {
		from := src[:eight]
		if scratch != nil {
			copy(scratch, from)
			from = scratch
		}
		interleave(t, nb, dst[:eight], from)
	}
	copy(dst, src)
}

// interleave makes one panel of nb blocks from eight rows. It is not inlined
// for the reason given at mulGroup.
//
//go:noinline
func interleave(t gguf.Type, nb int, dst, src []byte) {
	if k := &fast[t]; k.interleave != nil {
		k.interleave(nb, &dst[0], &src[0], nb*blocks[t].bytes)
		return
	}
	interleaveGeneric(&families[t], blocks[t].bytes, nb, dst, src)
}

// scratches holds *[]byte of a group of rows, so that interleaving block after
// block allocates nothing.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// interleaveGeneric makes one panel of nb blocks from eight rows.
func interleaveGeneric(f *family, size, nb int, dst, src []byte) {
	for i := range nb {
		for r := range 8 {
			putIn(f, dst[8*i*size:][:8*size], src[(r*nb+i)*size:][:size], r)
		}
	}
}

// putIn copies a block into its place as row r of a panel's block.
func putIn(f *family, panel, b []byte, r int) {
	at := 0
	for _, p := range f.panel {
		for u := 0; u < p.size; u += p.unit {
			copy(panel[at+8*u+r*p.unit:], b[p.off+u:p.off+u+p.unit])
		}
		if f.fifths && p.size == 4 {
			v := panel[at+4*r:]
			binary.LittleEndian.PutUint32(v, toVectors(binary.LittleEndian.Uint32(v)))
		}
		at += 8 * p.size
	}
}

// takeOut is the reverse of putIn.
func takeOut(f *family, b, panel []byte, r int) {
	at := 0
	for _, p := range f.panel {
		for u := 0; u < p.size; u += p.unit {
			copy(b[p.off+u:p.off+u+p.unit], panel[at+8*u+r*p.unit:])
		}
		if f.fifths && p.size == 4 {
			v := b[p.off:]
			binary.LittleEndian.PutUint32(v, fromVectors(binary.LittleEndian.Uint32(v)))
		}
		at += 8 * p.size
	}
}

// In the types Q5_0 and Q5_1 bit i of a block's 32 is the fifth bit of value i.
// The four values of a row in vector v of a panel are 4v to 4v+3; for the
// vector to find its bits by one shift, bit v of byte i must belong to value
// 4v+i. toVectors moves them there, fromVectors moves them back.
func toVectors(bits uint32) (moved uint32) {
	for i := range 32 {
		moved |= bits >> i & 1 << (i%4*8 + i/4)
	}
	return moved
}

func fromVectors(moved uint32) (bits uint32) {
	for i := range 32 {
		bits |= moved >> (i%4*8 + i/4) & 1 << i
	}
	return bits
}
