package gguf

import "strconv"

// A Type is the storage format of a tensor, numbered as in the GGUF
// specification (enum ggml_type).
type Type uint32

// The tensor types that GGUF files hold. Types that were removed from the
// format (Q4_2, Q4_3 and the repacked Q4_0 variants) have no name here and are
// refused.
const (
	F32     Type = 0
	F16     Type = 1
	Q4_0    Type = 2
	Q4_1    Type = 3
	Q5_0    Type = 6
	Q5_1    Type = 7
	Q8_0    Type = 8
	Q8_1    Type = 9
	Q2_K    Type = 10
	Q3_K    Type = 11
	Q4_K    Type = 12
	Q5_K    Type = 13
	Q6_K    Type = 14
	Q8_K    Type = 15
	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ4_NL  Type = 20
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ4_XS  Type = 23
	I8      Type = 24
	I16     Type = 25
	I32     Type = 26
	I64     Type = 27
	F64     Type = 28
	IQ1_M   Type = 29
	BF16    Type = 30
	TQ1_0   Type = 34
	TQ2_0   Type = 35
	MXFP4   Type = 39
)

// typeInfo is the layout of one type: a row is a sequence of blocks, each of
// values elements in bytes bytes.
type typeInfo struct {
	name          string
	values, bytes int
}

// Sizes of the block structs in ggml-common.h; a number that is not a type has
// the zero typeInfo.
var types = [...]typeInfo{
	F32:     {"F32", 1, 4},
	F16:     {"F16", 1, 2},
	Q4_0:    {"Q4_0", 32, 18},
	Q4_1:    {"Q4_1", 32, 20},
	Q5_0:    {"Q5_0", 32, 22},
	Q5_1:    {"Q5_1", 32, 24},
	Q8_0:    {"Q8_0", 32, 34},
	Q8_1:    {"Q8_1", 32, 36},
	Q2_K:    {"Q2_K", 256, 84},
	Q3_K:    {"Q3_K", 256, 110},
	Q4_K:    {"Q4_K", 256, 144},
	Q5_K:    {"Q5_K", 256, 176},
	Q6_K:    {"Q6_K", 256, 210},
	Q8_K:    {"Q8_K", 256, 292},
	IQ2_XXS: {"IQ2_XXS", 256, 66},
	IQ2_XS:  {"IQ2_XS", 256, 74},
	IQ3_XXS: {"IQ3_XXS", 256, 98},
	IQ1_S:   {"IQ1_S", 256, 50},
	IQ4_NL:  {"IQ4_NL", 32, 18},
	IQ3_S:   {"IQ3_S", 256, 110},
	IQ2_S:   {"IQ2_S", 256, 82},
	IQ4_XS:  {"IQ4_XS", 256, 136},
	I8:      {"I8", 1, 1},
	I16:     {"I16", 1, 2},
	I32:     {"I32", 1, 4},
	I64:     {"I64", 1, 8},
	F64:     {"F64", 1, 8},
	IQ1_M:   {"IQ1_M", 256, 56},
	BF16:    {"BF16", 1, 2},
	TQ1_0:   {"TQ1_0", 256, 54},
	TQ2_0:   {"TQ2_0", 256, 66},
	MXFP4:   {"MXFP4", 32, 17},
}

func (t Type) info() typeInfo {
	if uint64(t) >= uint64(len(types)) {
		return typeInfo{}
	}
	return types[t]
}

// String returns the type's name as the specification writes it, or "type N"
// for a number that it does not define.
func (t Type) String() string {
	if i := t.info(); i.name != "" {
		return i.name
	}
	return "type " + strconv.FormatUint(uint64(t), 10)
}

// Known reports whether t is a type of the specification.
func (t Type) Known() bool { return t.info().name != "" }

// BlockValues returns how many elements one block of t holds, 0 for an
// unknown type.
func (t Type) BlockValues() int { return t.info().values }

// BlockBytes returns the size of one block of t in bytes, 0 for an unknown
// type.
func (t Type) BlockBytes() int { return t.info().bytes }

// RowBytes returns the size in bytes of n consecutive elements of t, which
// must be known; n must be a multiple of t.BlockValues().
func (t Type) RowBytes(n int) int {
	i := t.info()
	return n / i.values * i.bytes
}
