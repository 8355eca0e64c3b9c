package kernel

import "github.com/layerpipe/layerpipe/model/gguf"

// A form is how activations are stored for a family of weight types.
type form uint8

const (
	formFloat form = iota + 1 // float32, for float weights
	form32                    // 8 bits with a scale per 32 values, for blocks of 32
	form256                   // 8 bits with a scale per 256 values, for super-blocks
)

// A family is what the code that handles all types alike knows of one of them.
type family struct {
	form   form
	unpack func(*block, []byte) // nil for float types
	panel  []field              // nil for float types and types of grids
	fifths bool                 // the panel field of four bytes holds fifth bits, see toVectors
}

// A field is a part of a block: size bytes at off, in units of unit bytes. A
// panel holds the fields of eight rows' blocks one after the other in the order
// of the list, and in a field the eight rows' units side by side:
// unit 0 of row 0, unit 0 of row 1, ..., unit 0 of row 7, unit 1 of row 0, ...
// So a field of 4-byte units is a sequence of vectors whose lanes are rows.
type field struct{ off, size, unit int }

// families is indexed by type. The scales come first in each panel, then the
// rest in the order in which the products read it.
var families = [40]family{
	gguf.F32:    {form: formFloat},
	gguf.F16:    {form: formFloat},
	gguf.BF16:   {form: formFloat},
	gguf.Q4_0:   {form32, unpackQ4_0, []field{{0, 2, 2}, {2, 16, 4}}, false},
	gguf.Q4_1:   {form32, unpackQ4_1, []field{{0, 2, 2}, {2, 2, 2}, {4, 16, 4}}, false},
	gguf.Q5_0:   {form32, unpackQ5_0, []field{{0, 2, 2}, {2, 4, 4}, {6, 16, 4}}, true},
	gguf.Q5_1:   {form32, unpackQ5_1, []field{{0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 16, 4}}, true},
	gguf.Q8_0:   {form32, unpackQ8_0, []field{{0, 2, 2}, {2, 32, 4}}, false},
	gguf.IQ4_NL: {form32, unpackIQ4_NL, []field{{0, 2, 2}, {2, 16, 4}}, false},
	gguf.MXFP4:  {form32, unpackMXFP4, []field{{0, 1, 1}, {1, 16, 4}}, false},
	gguf.Q2_K:   {form256, unpackQ2_K, []field{{80, 2, 2}, {82, 2, 2}, {0, 16, 4}, {16, 64, 4}}, false},
	gguf.Q3_K:   {form256, unpackQ3_K, []field{{108, 2, 2}, {96, 12, 4}, {0, 32, 4}, {32, 64, 4}}, false},
	gguf.Q4_K:   {form256, unpackQ4_K, []field{{0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 128, 4}}, false},
	gguf.Q5_K:   {form256, unpackQ5_K, []field{{0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 32, 4}, {48, 128, 4}}, false},
	gguf.Q6_K:   {form256, unpackQ6_K, []field{{208, 2, 2}, {192, 16, 4}, {128, 64, 4}, {0, 128, 4}}, false},
	gguf.IQ4_XS: {form256, unpackIQ4_XS, []field{{0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 128, 4}}, false},

	gguf.IQ2_XXS: {form: form256, unpack: unpackIQ2_XXS},
	gguf.IQ2_XS:  {form: form256, unpack: unpackIQ2_XS},
	gguf.IQ2_S:   {form: form256, unpack: unpackIQ2_S},
	gguf.IQ3_XXS: {form: form256, unpack: unpackIQ3_XXS},
	gguf.IQ3_S:   {form: form256, unpack: unpackIQ3_S},
}

func familyOf(t gguf.Type) *family {
	if int64(t) < int64(len(families)) {
		return &families[t]
	}
	return &family{}
}

// Supported reports whether [Mul] multiplies weights of type t as they are
// stored. Weights of other types are expanded to [gguf.F32] first.
func Supported(t gguf.Type) bool { return familyOf(t).form != 0 }

// blocks holds the values and bytes of a block by type, for the hot path.
var blocks = func() (b [len(families)]struct{ values, bytes int }) {
	for t := range b {
		b[t].values, b[t].bytes = gguf.Type(t).BlockValues(), gguf.Type(t).BlockBytes()
	}
	return b
}()

// blocks returns how many blocks, or for float types values, a row of w has,
// and the size of each in bytes.
func (w *Matrix) blocks() (n, size int) {
	b := &blocks[w.Type]
	return w.Cols / b.values, b.bytes
}

// bytes returns the size of the matrix.
func (w *Matrix) bytes() int {
	n, size := w.blocks()
	return w.Rows * n * size
}
