package dequant

import "encoding/binary"

// iq4 holds the 16 values that a nibble of IQ4_NL and IQ4_XS stands for
// (kvalues_iq4nl in ggml-common.h), steps that widen away from zero.
var iq4 = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// ValuesIQ4 returns the values that the 16 nibbles of the types IQ4_NL and
// IQ4_XS stand for, before scaling.
func ValuesIQ4() [16]int8 { return iq4 }

// expandIQ4_NL computes d*value(q). block_iq4_nl in ggml-common.h:
//
//	0  d   binary16
//	2  qs  16 bytes, 4-bit q, as in Q4_0
func expandIQ4_NL(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 32 {
		b, y := (*[18]byte)(src), (*[32]float32)(dst)
		src, dst = src[18:], dst[32:]
		d := f16(b[0], b[1])
		for j, q := range b[2:18] {
			y[j] = d * float32(iq4[q&15])
			y[16+j] = d * float32(iq4[q>>4])
		}
	}
}

// expandIQ4_XS computes (d*(scale-32))*value(q) by sub-blocks of 32.
// block_iq4_xs in ggml-common.h:
//
//	0  d         binary16
//	2  scales_h  16 bits, the upper 2 bits of 8 scales
//	4  scales_l  4 bytes, the lower 4 bits of 8 scales
//	8  qs        128 bytes, 4-bit q; each 16 bytes are as in Q4_0
func expandIQ4_XS(dst []float32, src []byte) {
	for len(src) >= 136 && len(dst) >= 256 {
		b, y := (*[136]byte)(src), (*[256]float32)(dst)
		src, dst = src[136:], dst[256:]
		d := f16(b[0], b[1])
		high := binary.LittleEndian.Uint16(b[2:4])
		low := binary.LittleEndian.Uint32(b[4:8])
		for i := range 8 {
			s := int32(low>>(4*i)&15) | int32(high>>(2*i)&3)<<4
			scale := d * float32(s-32)
			qs := (*[16]byte)(b[8+16*i:])
			out := (*[32]float32)(y[32*i:])
			for j, q := range qs {
				out[j] = scale * float32(iq4[q&15])
				out[16+j] = scale * float32(iq4[q>>4])
			}
		}
	}
}
