package kernel

import "github.com/layerpipe/layerpipe/model/gguf"

// A Layout says how the bytes of a [Matrix] are arranged.
type Layout uint8

const (
	// Rows is the layout of the file: row after row, block after block.
	Rows Layout = iota
	// Panels holds each eight rows interleaved, so that a vector lane is a
	// row. [Interleave] makes it. The size is that of the file; rows beyond
	// the last multiple of eight stay as they were.
	Panels
)

// A Matrix is a weight matrix of Rows rows of Cols values. Data may be
// unaligned or mapped memory; nothing here writes to it or keeps it.
type Matrix struct {
	Type       gguf.Type
	Layout     Layout
	Rows, Cols int
	Data       []byte
}
