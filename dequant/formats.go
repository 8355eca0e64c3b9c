package dequant

import (
	"errors"
	"fmt"
	"strings"

	"github.com/layerpipe/layerpipe/model/gguf"
)

var (
	// ErrSize means that the number of elements is not a whole number of
	// blocks, or that the bytes are not as many as the elements need.
	ErrSize = errors.New("dequant: wrong size")

	// ErrUnsupported means that the type has no expansion to float32.
	ErrUnsupported = errors.New("dequant: unsupported type")
)

// expanders holds, by type number, the functions that expand whole blocks. One
// is called with a src and a dst of the same number of blocks.
var expanders = [...]func(dst []float32, src []byte){
	gguf.F32:     expandF32,
	gguf.F16:     expandF16,
	gguf.BF16:    expandBF16,
	gguf.Q4_0:    expandQ4_0,
	gguf.Q4_1:    expandQ4_1,
	gguf.Q5_0:    expandQ5_0,
	gguf.Q5_1:    expandQ5_1,
	gguf.Q8_0:    expandQ8_0,
	gguf.Q2_K:    expandQ2_K,
	gguf.Q3_K:    expandQ3_K,
	gguf.Q4_K:    expandQ4_K,
	gguf.Q5_K:    expandQ5_K,
	gguf.Q6_K:    expandQ6_K,
	gguf.IQ4_NL:  expandIQ4_NL,
	gguf.IQ4_XS:  expandIQ4_XS,
	gguf.IQ1_S:   expandIQ1_S,
	gguf.IQ1_M:   expandIQ1_M,
	gguf.IQ2_XXS: expandIQ2_XXS,
	gguf.IQ2_XS:  expandIQ2_XS,
	gguf.IQ2_S:   expandIQ2_S,
	gguf.IQ3_XXS: expandIQ3_XXS,
	gguf.IQ3_S:   expandIQ3_S,
	gguf.TQ1_0:   expandTQ1_0,
	gguf.TQ2_0:   expandTQ2_0,
	gguf.MXFP4:   expandMXFP4,
}

// Float32 expands len(dst) elements of type t from src into dst. len(dst) must
// be a multiple of t.BlockValues() and len(src) the bytes of exactly that many
// elements, else the error is an [ErrSize]; for a type that is not [Supported]
// it is an [ErrUnsupported]. On error dst is untouched. Float32 allocates
// nothing and keeps neither slice, which must not overlap.
func Float32(t gguf.Type, dst []float32, src []byte) error {
	if !Supported(t) {
		return fmt.Errorf("%w: %v (supported: %s)", ErrUnsupported, t, supportedNames())
	}
	if n := t.BlockValues(); len(dst)%n != 0 {
		return fmt.Errorf("%w: %d elements of %v, whose blocks hold %d", ErrSize, len(dst), t, n)
	}
	if n := t.RowBytes(len(dst)); len(src) != n {
		return fmt.Errorf("%w: %d bytes for %d elements of %v, which take %d", ErrSize, len(src), len(dst), t, n)
	}
	expanders[t](dst, src)
	return nil
}

// Supported reports whether [Float32] expands type t.
func Supported(t gguf.Type) bool {
	return uint64(t) < uint64(len(expanders)) && expanders[t] != nil
}

// Types returns the types that [Float32] expands, in the order of their
// numbers. The slice is the caller's.
func Types() []gguf.Type {
	var ts []gguf.Type
	for t := range gguf.Type(len(expanders)) {
		if Supported(t) {
			ts = append(ts, t)
		}
	}
	return ts
}

func supportedNames() string {
	var names []string
	for _, t := range Types() {
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}
