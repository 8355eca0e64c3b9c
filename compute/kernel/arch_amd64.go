//go:build amd64 && !purego

package kernel

import (
	"os"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
	"golang.org/x/sys/cpu"
)

//go:generate go -C _gen run . -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel

// The environment variable LAYERPIPE_KERNELS holds the package to less than the
// machine has, for tests: "generic" to portable Go, "avx2" to vectors of 256 bits.
func init() {
	limit := os.Getenv("LAYERPIPE_KERNELS")
	if limit == "generic" || !cpu.X86.HasAVX2 || !cpu.X86.HasF16C {
		return
	}
	fast, fastFloat = avx2, avx2Float
	packed, fold = [...]packedFunc{packedx1, packedx2, packedx3}, foldLanes
	quantize32, quantize256 = quantize32AVX2, quantize256AVX2
	if limit == "avx2" || !cpu.X86.HasAVX512BW || !cpu.X86.HasAVX512VL || !cpu.X86.HasAVX512VNNI {
		return
	}
	packedWide = packedAVX512
	for t, f := range vnni {
		fast[t].wide = f
	}
}

var avx2 = [len(families)]kernels{
	gguf.Q4_0:   {interleave: interleaveQ4_0, mul: [group]mulFunc{mulQ4_0x1, mulQ4_0x2, mulQ4_0x3, mulQ4_0x4}},
	gguf.Q4_1:   {interleave: interleaveQ4_1, mul: [group]mulFunc{mulQ4_1x1, mulQ4_1x2, mulQ4_1x3, mulQ4_1x4}},
	gguf.Q5_0:   {interleave: interleaveQ5_0, mul: [group]mulFunc{mulQ5_0x1, mulQ5_0x2, mulQ5_0x3, mulQ5_0x4}},
	gguf.Q5_1:   {interleave: interleaveQ5_1, mul: [group]mulFunc{mulQ5_1x1, mulQ5_1x2, mulQ5_1x3, mulQ5_1x4}},
	gguf.Q8_0:   {interleave: interleaveQ8_0, mul: [group]mulFunc{mulQ8_0x1, mulQ8_0x2, mulQ8_0x3, mulQ8_0x4}},
	gguf.IQ4_NL: {interleave: interleaveIQ4_NL, mul: [group]mulFunc{mulIQ4_NLx1, mulIQ4_NLx2, mulIQ4_NLx3, mulIQ4_NLx4}},
	gguf.MXFP4:  {interleave: interleaveMXFP4, mul: [group]mulFunc{mulMXFP4x1, mulMXFP4x2, mulMXFP4x3, mulMXFP4x4}},
	gguf.Q2_K:   {interleave: interleaveQ2_K, mul: [group]mulFunc{mulQ2_Kx1, mulQ2_Kx2, mulQ2_Kx3, mulQ2_Kx4}},
	gguf.Q3_K:   {interleave: interleaveQ3_K, mul: [group]mulFunc{mulQ3_Kx1, mulQ3_Kx2, mulQ3_Kx3, mulQ3_Kx4}},
	gguf.Q4_K:   {interleave: interleaveQ4_K, mul: [group]mulFunc{mulQ4_Kx1, mulQ4_Kx2, mulQ4_Kx3, mulQ4_Kx4}},
	gguf.Q5_K:   {interleave: interleaveQ5_K, mul: [group]mulFunc{mulQ5_Kx1, mulQ5_Kx2, mulQ5_Kx3, mulQ5_Kx4}},
	gguf.Q6_K:   {interleave: interleaveQ6_K, mul: [group]mulFunc{mulQ6_Kx1, mulQ6_Kx2, mulQ6_Kx3, mulQ6_Kx4}},
	gguf.IQ4_XS: {interleave: interleaveIQ4_XS, mul: [group]mulFunc{mulIQ4_XSx1, mulIQ4_XSx2, mulIQ4_XSx3, mulIQ4_XSx4}},

	gguf.IQ2_XXS: {decode: gridIQ2_XXS, mul: [group]mulFunc{mulIQ2_XXSx1, mulIQ2_XXSx2, mulIQ2_XXSx3, mulIQ2_XXSx4}},
	gguf.IQ2_XS:  {decode: gridIQ2_XS, mul: [group]mulFunc{mulIQ2_XSx1, mulIQ2_XSx2, mulIQ2_XSx3, mulIQ2_XSx4}},
	gguf.IQ2_S:   {decode: gridIQ2_S, mul: [group]mulFunc{mulIQ2_Sx1, mulIQ2_Sx2, mulIQ2_Sx3, mulIQ2_Sx4}},
	gguf.IQ3_XXS: {decode: gridIQ3_XXS, mul: [group]mulFunc{mulIQ3_XXSx1, mulIQ3_XXSx2, mulIQ3_XXSx3, mulIQ3_XXSx4}},
	gguf.IQ3_S:   {decode: gridIQ3_S, mul: [group]mulFunc{mulIQ3_Sx1, mulIQ3_Sx2, mulIQ3_Sx3, mulIQ3_Sx4}},
}

func gridIQ2_XXS(nb int, dst, src *byte, stride int) {
	decodeIQ2_XXS(nb, dst, src, stride, &dequant.GridIQ2XXS()[0])
}

func gridIQ2_XS(nb int, dst, src *byte, stride int) {
	decodeIQ2_XS(nb, dst, src, stride, &dequant.GridIQ2XS()[0])
}

func gridIQ2_S(nb int, dst, src *byte, stride int) {
	decodeIQ2_S(nb, dst, src, stride, &dequant.GridIQ2S()[0])
}

func gridIQ3_XXS(nb int, dst, src *byte, stride int) {
	decodeIQ3_XXS(nb, dst, src, stride, &dequant.GridIQ3XXS()[0])
}

func gridIQ3_S(nb int, dst, src *byte, stride int) {
	decodeIQ3_S(nb, dst, src, stride, &dequant.GridIQ3S()[0])
}

// vnni holds the kernels for machines that have VNNI with 512 bits. The types of
// grids have none: there too they run those of AVX2.
var vnni = [len(families)]wideKernels{
	gguf.Q4_0:   {mulQ4_0x4VNNI, mulQ4_0x8VNNI},
	gguf.Q4_1:   {mulQ4_1x4VNNI, mulQ4_1x8VNNI},
	gguf.Q5_0:   {mulQ5_0x4VNNI, mulQ5_0x8VNNI},
	gguf.Q5_1:   {mulQ5_1x4VNNI, mulQ5_1x8VNNI},
	gguf.Q8_0:   {mulQ8_0x4VNNI, mulQ8_0x8VNNI},
	gguf.IQ4_NL: {mulIQ4_NLx4VNNI, mulIQ4_NLx8VNNI},
	gguf.MXFP4:  {mulMXFP4x4VNNI, mulMXFP4x8VNNI},
	gguf.Q2_K:   {mulQ2_Kx4VNNI, mulQ2_Kx8VNNI},
	gguf.Q3_K:   {mulQ3_Kx4VNNI, mulQ3_Kx8VNNI},
	gguf.Q4_K:   {mulQ4_Kx4VNNI, mulQ4_Kx8VNNI},
	gguf.Q5_K:   {mulQ5_Kx4VNNI, mulQ5_Kx8VNNI},
	gguf.Q6_K:   {mulQ6_Kx4VNNI, mulQ6_Kx8VNNI},
	gguf.IQ4_XS: {mulIQ4_XSx4VNNI, mulIQ4_XSx8VNNI},
}

var avx2Float = [len(families)]floatKernels{
	gguf.F32:  {[...]floatFunc{mulF32x1, mulF32x2, mulF32x3}, packF32},
	gguf.F16:  {[...]floatFunc{mulF16x1, mulF16x2, mulF16x3}, packF16},
	gguf.BF16: {[...]floatFunc{mulBF16x1, mulBF16x2, mulBF16x3}, packBF16},
}
