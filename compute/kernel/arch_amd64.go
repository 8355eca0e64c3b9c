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
		quantize32, quantize256 = quantize32AVX2, quantize256AVX2
	}
}

var avx2 = [len(families)]kernels{
	gguf.Q4_0:   {interleaveQ4_0, [group]mulFunc{mulQ4_0x1, mulQ4_0x2, mulQ4_0x3, mulQ4_0x4}},
	gguf.Q4_1:   {interleaveQ4_1, [group]mulFunc{mulQ4_1x1, mulQ4_1x2, mulQ4_1x3, mulQ4_1x4}},
	gguf.Q5_0:   {interleaveQ5_0, [group]mulFunc{mulQ5_0x1, mulQ5_0x2, mulQ5_0x3, mulQ5_0x4}},
	gguf.Q5_1:   {interleaveQ5_1, [group]mulFunc{mulQ5_1x1, mulQ5_1x2, mulQ5_1x3, mulQ5_1x4}},
	gguf.Q8_0:   {interleaveQ8_0, [group]mulFunc{mulQ8_0x1, mulQ8_0x2, mulQ8_0x3, mulQ8_0x4}},
	gguf.IQ4_NL: {interleaveIQ4_NL, [group]mulFunc{mulIQ4_NLx1, mulIQ4_NLx2, mulIQ4_NLx3, mulIQ4_NLx4}},
	gguf.MXFP4:  {interleaveMXFP4, [group]mulFunc{mulMXFP4x1, mulMXFP4x2, mulMXFP4x3, mulMXFP4x4}},
	gguf.Q2_K:   {interleaveQ2_K, [group]mulFunc{mulQ2_Kx1, mulQ2_Kx2, mulQ2_Kx3, mulQ2_Kx4}},
	gguf.Q3_K:   {interleaveQ3_K, [group]mulFunc{mulQ3_Kx1, mulQ3_Kx2, mulQ3_Kx3, mulQ3_Kx4}},
	gguf.Q4_K:   {interleaveQ4_K, [group]mulFunc{mulQ4_Kx1, mulQ4_Kx2, mulQ4_Kx3, mulQ4_Kx4}},
	gguf.Q5_K:   {interleaveQ5_K, [group]mulFunc{mulQ5_Kx1, mulQ5_Kx2, mulQ5_Kx3, mulQ5_Kx4}},
	gguf.Q6_K:   {interleaveQ6_K, [group]mulFunc{mulQ6_Kx1, mulQ6_Kx2, mulQ6_Kx3, mulQ6_Kx4}},
	gguf.IQ4_XS: {interleaveIQ4_XS, [group]mulFunc{mulIQ4_XSx1, mulIQ4_XSx2, mulIQ4_XSx3, mulIQ4_XSx4}},
}

var avx2Float = [len(families)][floatGroup]floatFunc{
	gguf.F32:  {mulF32x1, mulF32x2, mulF32x3},
	gguf.F16:  {mulF16x1, mulF16x2, mulF16x3},
	gguf.BF16: {mulBF16x1, mulBF16x2, mulBF16x3},
}
