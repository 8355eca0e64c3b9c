//go:build amd64 && !purego

package kernel

import (
	"os"

	"github.com/layerpipe/layerpipe/model/gguf"
	"golang.org/x/sys/cpu"
)

//go:generate go -C _gen run . -out ../kernel_amd64.s -stubs ../stubs_amd64.go -pkg kernel

// The environment variable LAYERPIPE_KERNELS=generic keeps to portable Go.
func init() {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA && cpu.X86.HasF16C && os.Getenv("LAYERPIPE_KERNELS") != "generic" {
		fast, fastFloat = avx2, avx2Float
		if cpu.X86.HasAVX512F && cpu.X86.HasAVX512VL && cpu.X86.HasAVX512VNNI && os.Getenv("LAYERPIPE_KERNELS") != "avx2" {
			fast = vnni
		}
		quantize32, quantize256 = quantize32AVX2, quantize256AVX2
	}
}

var avx2 = [len(families)]kernels{
	gguf.Q4_0:   {interleaveQ4_0, [group]mulFunc{mulQ4_0x1AVX2, mulQ4_0x2AVX2, mulQ4_0x3AVX2, mulQ4_0x4AVX2}},
	gguf.Q4_1:   {interleaveQ4_1, [group]mulFunc{mulQ4_1x1AVX2, mulQ4_1x2AVX2, mulQ4_1x3AVX2, mulQ4_1x4AVX2}},
	gguf.Q5_0:   {interleaveQ5_0, [group]mulFunc{mulQ5_0x1AVX2, mulQ5_0x2AVX2, mulQ5_0x3AVX2, mulQ5_0x4AVX2}},
	gguf.Q5_1:   {interleaveQ5_1, [group]mulFunc{mulQ5_1x1AVX2, mulQ5_1x2AVX2, mulQ5_1x3AVX2, mulQ5_1x4AVX2}},
	gguf.Q8_0:   {interleaveQ8_0, [group]mulFunc{mulQ8_0x1AVX2, mulQ8_0x2AVX2, mulQ8_0x3AVX2, mulQ8_0x4AVX2}},
	gguf.IQ4_NL: {interleaveIQ4_NL, [group]mulFunc{mulIQ4_NLx1AVX2, mulIQ4_NLx2AVX2, mulIQ4_NLx3AVX2, mulIQ4_NLx4AVX2}},
	gguf.MXFP4:  {interleaveMXFP4, [group]mulFunc{mulMXFP4x1AVX2, mulMXFP4x2AVX2, mulMXFP4x3AVX2, mulMXFP4x4AVX2}},
	gguf.Q2_K:   {interleaveQ2_K, [group]mulFunc{mulQ2_Kx1AVX2, mulQ2_Kx2AVX2, mulQ2_Kx3AVX2, mulQ2_Kx4AVX2}},
	gguf.Q3_K:   {interleaveQ3_K, [group]mulFunc{mulQ3_Kx1AVX2, mulQ3_Kx2AVX2, mulQ3_Kx3AVX2, mulQ3_Kx4AVX2}},
	gguf.Q4_K:   {interleaveQ4_K, [group]mulFunc{mulQ4_Kx1AVX2, mulQ4_Kx2AVX2, mulQ4_Kx3AVX2, mulQ4_Kx4AVX2}},
	gguf.Q5_K:   {interleaveQ5_K, [group]mulFunc{mulQ5_Kx1AVX2, mulQ5_Kx2AVX2, mulQ5_Kx3AVX2, mulQ5_Kx4AVX2}},
	gguf.Q6_K:   {interleaveQ6_K, [group]mulFunc{mulQ6_Kx1AVX2, mulQ6_Kx2AVX2, mulQ6_Kx3AVX2, mulQ6_Kx4AVX2}},
	gguf.IQ4_XS: {interleaveIQ4_XS, [group]mulFunc{mulIQ4_XSx1AVX2, mulIQ4_XSx2AVX2, mulIQ4_XSx3AVX2, mulIQ4_XSx4AVX2}},
}

var vnni = [len(families)]kernels{
	gguf.Q4_0:   {interleaveQ4_0, [group]mulFunc{mulQ4_0x1VNNI, mulQ4_0x2VNNI, mulQ4_0x3VNNI, mulQ4_0x4VNNI}},
	gguf.Q4_1:   {interleaveQ4_1, [group]mulFunc{mulQ4_1x1VNNI, mulQ4_1x2VNNI, mulQ4_1x3VNNI, mulQ4_1x4VNNI}},
	gguf.Q5_0:   {interleaveQ5_0, [group]mulFunc{mulQ5_0x1VNNI, mulQ5_0x2VNNI, mulQ5_0x3VNNI, mulQ5_0x4VNNI}},
	gguf.Q5_1:   {interleaveQ5_1, [group]mulFunc{mulQ5_1x1VNNI, mulQ5_1x2VNNI, mulQ5_1x3VNNI, mulQ5_1x4VNNI}},
	gguf.Q8_0:   {interleaveQ8_0, [group]mulFunc{mulQ8_0x1VNNI, mulQ8_0x2VNNI, mulQ8_0x3VNNI, mulQ8_0x4VNNI}},
	gguf.IQ4_NL: {interleaveIQ4_NL, [group]mulFunc{mulIQ4_NLx1VNNI, mulIQ4_NLx2VNNI, mulIQ4_NLx3VNNI, mulIQ4_NLx4VNNI}},
	gguf.MXFP4:  {interleaveMXFP4, [group]mulFunc{mulMXFP4x1VNNI, mulMXFP4x2VNNI, mulMXFP4x3VNNI, mulMXFP4x4VNNI}},
	gguf.Q2_K:   {interleaveQ2_K, [group]mulFunc{mulQ2_Kx1VNNI, mulQ2_Kx2VNNI, mulQ2_Kx3VNNI, mulQ2_Kx4VNNI}},
	gguf.Q3_K:   {interleaveQ3_K, [group]mulFunc{mulQ3_Kx1VNNI, mulQ3_Kx2VNNI, mulQ3_Kx3VNNI, mulQ3_Kx4VNNI}},
	gguf.Q4_K:   {interleaveQ4_K, [group]mulFunc{mulQ4_Kx1VNNI, mulQ4_Kx2VNNI, mulQ4_Kx3VNNI, mulQ4_Kx4VNNI}},
	gguf.Q5_K:   {interleaveQ5_K, [group]mulFunc{mulQ5_Kx1VNNI, mulQ5_Kx2VNNI, mulQ5_Kx3VNNI, mulQ5_Kx4VNNI}},
	gguf.Q6_K:   {interleaveQ6_K, [group]mulFunc{mulQ6_Kx1VNNI, mulQ6_Kx2VNNI, mulQ6_Kx3VNNI, mulQ6_Kx4VNNI}},
	gguf.IQ4_XS: {interleaveIQ4_XS, [group]mulFunc{mulIQ4_XSx1VNNI, mulIQ4_XSx2VNNI, mulIQ4_XSx3VNNI, mulIQ4_XSx4VNNI}},
}

var avx2Float = [len(families)][floatGroup]floatFunc{
	gguf.F32:  {mulF32x1, mulF32x2, mulF32x3},
	gguf.F16:  {mulF16x1, mulF16x2, mulF16x3},
	gguf.BF16: {mulBF16x1, mulBF16x2, mulBF16x3},
}
