package dequant

import "math"

// mxfp4 holds twice the values of the 16 FP4 numbers E2M1 (kvalues_mxfp4 in
// ggml-common.h); the 0 of the negative half counts as plain zero.
var mxfp4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// scaleMXFP4 returns 2^(e-128), half the power of two that the block scale e of
// the type MXFP4 means. The half makes up for the doubled values. (OCP
// Microscaling Formats 1.0 has NaN for e = 255; as in ggml it is a number here.)
func scaleMXFP4(e uint8) float32 {
	if e < 2 {
		return math.Float32frombits(0x00200000 << e) // subnormal: 2^-128, 2^-127
	}
	return math.Float32frombits(uint32(e-1) << 23)
}

// expandMXFP4 computes 2^(e-127)*value(q). block_mxfp4 in ggml-common.h:
//
//	0  e   byte
//	1  qs  16 bytes, 4-bit q, as in Q4_0
func expandMXFP4(dst []float32, src []byte) {
	for len(src) >= 17 && len(dst) >= 32 {
		b, y := (*[17]byte)(src), (*[32]float32)(dst)
		src, dst = src[17:], dst[32:]
		d := scaleMXFP4(b[0])
		for j, q := range b[1:17] {
			y[j] = d * float32(mxfp4[q&15])
			y[16+j] = d * float32(mxfp4[q>>4])
		}
	}
}
