package synth

import (
	"fmt"
	"strings"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// A Type is a way to quantize a model, named as llama-quantize names it. Like
// that program it gives some matrices of the mixed ones, such as Q4_K_M, a
// better format than the rest.
type Type string

// A mix is what a [Type] means.
type mix struct {
	name   Type
	file   uint32    // general.file_type (enum llama_ftype in llama.h)
	most   gguf.Type // what a matrix has for which better returns false
	better func(m matrix, s Shape) (gguf.Type, bool)
}

// mixes are the rules that llama-quantize follows for a model without experts
// and without an importance matrix (llama_tensor_get_type in llama-quant.cpp).
// It knows MXFP4 for experts alone; the rule here is ours.
var mixes = []mix{
	{"F32", 0, gguf.F32, nil},
	{"F16", 1, gguf.F16, nil},
	{"BF16", 32, gguf.BF16, nil},
	{"Q8_0", 7, gguf.Q8_0, nil},
	{"Q5_1", 9, gguf.Q5_1, nil},
	{"Q5_0", 8, gguf.Q5_0, nil},
	{"Q4_1", 3, gguf.Q4_1, nil},
	{"Q4_0", 2, gguf.Q4_0, nil},
	{"IQ4_NL", 25, gguf.IQ4_NL, betterIQ4},
	{"IQ4_XS", 30, gguf.IQ4_XS, betterIQ4},
	{"MXFP4", 38, gguf.MXFP4, func(m matrix, _ Shape) (gguf.Type, bool) { return gguf.Q8_0, m.role == embedding }},
	{"Q6_K", 18, gguf.Q6_K, nil},
	{"Q5_K_M", 17, gguf.Q5_K, betterMedium},
	{"Q5_K_S", 16, gguf.Q5_K, nil},
	{"Q4_K_M", 15, gguf.Q4_K, betterMedium},
	{"Q4_K_S", 14, gguf.Q4_K, func(m matrix, s Shape) (gguf.Type, bool) {
		return gguf.Q5_K, m.role == attnV && m.layer < 4 || m.role == ffnDown && m.layer < s.Layers/8
	}},
	{"Q3_K_L", 13, gguf.Q3_K, func(m matrix, _ Shape) (gguf.Type, bool) { return gguf.Q5_K, m.sensitive() }},
	{"Q3_K_M", 12, gguf.Q3_K, func(m matrix, s Shape) (gguf.Type, bool) {
		if m.role == attnV && m.layer < 2 || m.role == ffnDown && m.layer < s.Layers/16 {
			return gguf.Q5_K, true
		}
		return gguf.Q4_K, m.sensitive()
	}},
	{"IQ3_M", 27, gguf.IQ3_S, func(m matrix, s Shape) (gguf.Type, bool) {
		return gguf.Q4_K, m.role == attnV || m.role == attnOut || m.role == ffnDown && m.layer < s.Layers/8
	}},
	{"IQ3_S", 26, gguf.IQ3_S, func(m matrix, s Shape) (gguf.Type, bool) { return gguf.Q4_K, m.role == attnV && s.shares() }},
	{"Q3_K_S", 11, gguf.Q3_K, nil},
	{"IQ3_XS", 22, gguf.IQ3_S, func(m matrix, s Shape) (gguf.Type, bool) {
		switch m.role {
		case attnV:
			return gguf.Q4_K, s.shares()
		case attnQ, attnK:
			return gguf.IQ3_XXS, true
		}
		middle := m.layer >= s.Layers/8 && m.layer < 7*s.Layers/8
		return gguf.IQ3_XXS, middle && (m.role == ffnGate || m.role == ffnUp)
	}},
	{"IQ3_XXS", 23, gguf.IQ3_XXS, func(m matrix, s Shape) (gguf.Type, bool) {
		switch {
		case m.role == attnV && s.shares() || m.role == ffnDown && m.layer < s.Layers/8:
			return gguf.Q4_K, true
		case m.role == ffnDown:
			return gguf.Q3_K, true
		case m.role == attnQ || m.role == attnK:
			return gguf.IQ2_S, true
		}
		return gguf.IQ3_S, m.role == attnV || m.role == attnOut || m.role == embedding
	}},
	{"Q2_K", 10, gguf.Q2_K, func(m matrix, s Shape) (gguf.Type, bool) {
		if m.role == attnV && s.shares() {
			return gguf.Q4_K, true
		}
		return gguf.Q3_K, m.sensitive()
	}},
	{"IQ2_M", 29, gguf.IQ2_S, betterIQ2S},
	{"IQ2_S", 28, gguf.IQ2_XS, betterIQ2S},
	{"IQ2_XS", 20, gguf.IQ2_XS, betterIQ2},
	{"IQ2_XXS", 19, gguf.IQ2_XXS, betterIQ2},
}

func betterIQ2(m matrix, s Shape) (gguf.Type, bool) {
	if m.role == attnV && s.shares() {
		return gguf.Q4_K, true
	}
	return gguf.Q2_K, m.role == attnV || m.role == ffnDown && m.layer < s.Layers/8 || m.role == embedding
}

func betterIQ2S(m matrix, s Shape) (gguf.Type, bool) {
	if m.role == attnV && s.shares() {
		return gguf.Q4_K, true
	}
	return gguf.IQ3_S, m.role == attnV || m.role == attnOut || m.role == ffnDown && m.layer < s.Layers/8 || m.role == embedding
}

// isIQ2 reports whether x is one of the types that go by rules of their own.
func (x *mix) isIQ2() bool {
	return x.most == gguf.IQ2_XXS || x.most == gguf.IQ2_XS || x.most == gguf.IQ2_S
}

// betterMedium is use_more_bits: the first and the last eighth of the layers,
// and every third between.
func betterMedium(m matrix, s Shape) (gguf.Type, bool) {
	n := s.Layers
	more := m.layer < n/8 || m.layer >= 7*n/8 || (m.layer-n/8)%3 == 2
	return gguf.Q6_K, more && (m.role == attnV || m.role == ffnDown)
}

func betterIQ4(m matrix, s Shape) (gguf.Type, bool) {
	return gguf.Q5_K, m.role == attnV && s.shares() || m.role == ffnDown && m.layer < s.Layers/8
}

// sensitive reports whether the small types spend more on m.
func (m matrix) sensitive() bool {
	return m.role == attnV || m.role == attnOut || m.role == ffnDown
}

// shares reports whether so many heads share keys and values that these are
// cheap.
func (s Shape) shares() bool { return s.Heads/s.KVHeads >= 4 }

// of returns the format of m.
func (x *mix) of(m matrix, s Shape) (gguf.Type, error) {
	if n := x.most.BlockValues(); m.cols%n != 0 {
		return 0, fmt.Errorf("synth: shape %v: type %s: %s has rows of %d elements, not a multiple of %d", s, x.name, m.role, m.cols, n)
	}
	t := x.most
	if x.better != nil {
		if b, ok := x.better(m, s); ok {
			t = b
		}
	}
	if s.is70B() && m.role == attnV && !x.isIQ2() && (t == gguf.Q3_K || t == gguf.Q4_K) {
		t = gguf.Q5_K
	}
	if m.role == output {
		switch x.most {
		case gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0:
		case gguf.MXFP4:
			t = gguf.Q8_0
		case gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ3_XXS:
			t = gguf.Q5_K
		default:
			t = gguf.Q6_K
		}
	}
	// Types with blocks of 32 also go with rows that the better ones cannot
	// have.
	if m.cols%t.BlockValues() != 0 {
		t = map[gguf.Type]gguf.Type{gguf.Q6_K: gguf.Q8_0, gguf.Q5_K: gguf.Q5_1}[t]
	}
	return t, nil
}

// Types returns what [ParseType] knows, by falling size.
func Types() []Type {
	types := make([]Type, len(mixes))
	for i, x := range mixes {
		types[i] = x.name
	}
	return types
}

// ParseType returns the type of that name, in upper or lower case. The error
// for any other lists those that there are.
func ParseType(name string) (Type, error) {
	x, err := Type(strings.ToUpper(name)).mix()
	if err != nil {
		return "", err
	}
	return x.name, nil
}

func (t Type) mix() (*mix, error) {
	for i := range mixes {
		if mixes[i].name == t {
			return &mixes[i], nil
		}
	}
	return nil, fmt.Errorf("synth: type %q: must be one of %s", t, strings.Trim(fmt.Sprint(Types()), "[]"))
}
