package kernel

import "github.com/layerpipe/layerpipe/model/gguf"

// A form is how activations are stored for a family of weight types.
type form uint8

const (
	formF32 form = iota + 1 // float32, for float weights
)

func formOf(t gguf.Type) form {
	switch t {
	case gguf.F32:
		return formF32
	}
	return 0
}

// Acts holds the activations of n columns of length k in the form that a
// family of weight types wants. The zero value is empty; buffers are reused,
// so that a steady state allocates nothing.
//
// Reset and the calls of Quantize that follow it must not overlap with a [Mul]
// that reads the same Acts. Quantize may run at once on disjoint columns, and
// any number of Muls may read one Acts.
type Acts struct {
	form form
	n, k int
	f32  []float32
}

// Reset sizes a for n columns of length k that meet weights of type t. It
// panics if t is not [Supported] or k is not a whole number of t's blocks.
func (a *Acts) Reset(t gguf.Type, n, k int) {
	a.form, a.n, a.k = formOf(t), n, k
	if a.form == 0 || k%t.BlockValues() != 0 {
		panic("kernel: no activations of this length for " + t.String())
	}
	if cap(a.f32) < n*k {
		a.f32 = make([]float32, n*k)
	}
	a.f32 = a.f32[:n*k]
}

// Quantize takes over columns [c0, c1) of x, which holds all n columns, column
// c at x[c*k:].
func (a *Acts) Quantize(x []float32, c0, c1 int) {
	copy(a.f32[c0*a.k:c1*a.k], x[c0*a.k:c1*a.k])
}
