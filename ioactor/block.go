// Package ioactor has the actors that bring blocks from storage.
//
// A [Block] is a list of byte extents of files; what the bytes mean is not
// known here. A [Reader] is the actor: it takes a free slot, asks its
// [Schedule] which block is next, lets its [Backend] load it, and sends the slot
// on, for ever. Each way to reach storage is a backend of its own file.
package ioactor

import "fmt"

// An Extent is a run of bytes of one file.
type Extent struct {
	File      int   // index into the files that the backend was opened with
	Off, Size int64 // bytes
}

// A Block is what is loaded at once into one slot.
type Block struct {
	Name    string // for messages: "layer 3"
	Extents []Extent
}

// Bytes is the sum of the sizes of the block's extents.
func (b *Block) Bytes() int64 {
	var n int64
	for _, e := range b.Extents {
		n += e.Size
	}
	return n
}

// Align is the alignment that extents keep in a slot: an extent lies at the
// same offset within a page there as in its file, so that a backend may read
// whole aligned pages around it.
const Align = 4096

// Place returns where the extents lie in a slot, appended to offs[:0], and how
// large a load area must be to hold them with the rest of the first and the
// last page of each. The extents must have passed [Check].
func (b *Block) Place(offs []int64) (placed []int64, size int64) {
	offs = offs[:0]
	for _, e := range b.Extents {
		at := size + e.Off%Align
		offs = append(offs, at)
		size = (at + e.Size + Align - 1) / Align * Align
	}
	return offs, size
}

// LoadBytes is the size of the load area that every one of blocks fits in.
func LoadBytes(blocks []Block) int64 {
	var most int64
	for i := range blocks {
		_, n := blocks[i].Place(nil)
		most = max(most, n)
	}
	return most
}

// maxBytes bounds a block, so that no sum over its extents overflows.
const maxBytes = 1 << 62

// Check returns an error for an extent that is empty or does not lie within its
// file, and for a block whose extents are together more than any memory. sizes
// are the sizes of the files.
func Check(blocks []Block, sizes []int64) error {
	for i := range blocks {
		b, room := &blocks[i], int64(maxBytes)
		for _, e := range b.Extents {
			if e.File < 0 || e.File >= len(sizes) {
				return fmt.Errorf("%s: file %d of %d", b.Name, e.File, len(sizes))
			}
			// Compared by subtraction: the sum of what is not yet checked can wrap.
			if e.Off < 0 || e.Size < 1 || e.Size > sizes[e.File]-e.Off {
				return fmt.Errorf("%s: %d bytes from byte %d of file %d, which has %d", b.Name, e.Size, e.Off, e.File, sizes[e.File])
			}
			if e.Size > room-2*Align {
				return fmt.Errorf("%s: extents of more than %d bytes", b.Name, int64(maxBytes))
			}
			room -= e.Size + 2*Align // the rest of its first and last page
		}
	}
	return nil
}
