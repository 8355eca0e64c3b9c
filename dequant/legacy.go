package dequant

import "encoding/binary"

// The first generation of formats: 32 values with one scale d, and a minimum m
// in the _1 types. Nibbles come in the order j, 16+j: the low halves of the 16
// bytes are the first 16 values, the high halves the rest.

// expandQ4_0 computes d*(q-8). block_q4_0 in ggml-common.h:
//
//	0  d   binary16
//	2  qs  16 bytes, 4-bit q
func expandQ4_0(dst []float32, src []byte) {
	for len(src) >= 18 && len(dst) >= 32 {
		b, y := (*[18]byte)(src), (*[32]float32)(dst)
		src, dst = src[18:], dst[32:]
		d := f16(b[0], b[1])
		for j, q := range b[2:18] {
			y[j] = d * float32(int32(q&15)-8)
			y[16+j] = d * float32(int32(q>>4)-8)
		}
	}
}

// expandQ4_1 computes d*q + m. block_q4_1 in ggml-common.h:
//
//	0  d   binary16
//	2  m   binary16
//	4  qs  16 bytes, 4-bit q
func expandQ4_1(dst []float32, src []byte) {
	for len(src) >= 20 && len(dst) >= 32 {
		b, y := (*[20]byte)(src), (*[32]float32)(dst)
		src, dst = src[20:], dst[32:]
		d, m := f16(b[0], b[1]), f16(b[2], b[3])
		for j, q := range b[4:20] {
			y[j] = float32(d*float32(q&15)) + m
			y[16+j] = float32(d*float32(q>>4)) + m
		}
	}
}

// expandQ5_0 computes d*(q-16). block_q5_0 in ggml-common.h:
//
//	0  d   binary16
//	2  qh  32 bits, bit j is the fifth bit of value j's q
//	6  qs  16 bytes, the lower 4 bits of q
func expandQ5_0(dst []float32, src []byte) {
	for len(src) >= 22 && len(dst) >= 32 {
		b, y := (*[22]byte)(src), (*[32]float32)(dst)
		src, dst = src[22:], dst[32:]
		d := f16(b[0], b[1])
		high := binary.LittleEndian.Uint32(b[2:6])
		for j, q := range b[6:22] {
			y[j] = d * float32(int32(uint32(q&15)|high<<4&16)-16)
			y[16+j] = d * float32(int32(uint32(q>>4)|high>>12&16)-16)
			high >>= 1
		}
	}
}

// expandQ5_1 computes d*q + m. block_q5_1 in ggml-common.h:
//
//	0  d   binary16
//	2  m   binary16
//	4  qh  32 bits, bit j is the fifth bit of value j's q
//	8  qs  16 bytes, the lower 4 bits of q
func expandQ5_1(dst []float32, src []byte) {
	for len(src) >= 24 && len(dst) >= 32 {
		b, y := (*[24]byte)(src), (*[32]float32)(dst)
		src, dst = src[24:], dst[32:]
		d, m := f16(b[0], b[1]), f16(b[2], b[3])
		high := binary.LittleEndian.Uint32(b[4:8])
		for j, q := range b[8:24] {
			y[j] = float32(d*float32(int32(uint32(q&15)|high<<4&16))) + m
			y[16+j] = float32(d*float32(int32(uint32(q>>4)|high>>12&16))) + m
			high >>= 1
		}
	}
}

// expandQ8_0 computes d*q. block_q8_0 in ggml-common.h:
//
//	0  d   binary16
//	2  qs  32 signed bytes, q
func expandQ8_0(dst []float32, src []byte) {
	for len(src) >= 34 && len(dst) >= 32 {
		b, y := (*[34]byte)(src), (*[32]float32)(dst)
		src, dst = src[34:], dst[32:]
		d := f16(b[0], b[1])
		for j, q := range b[2:34] {
			y[j] = d * float32(int8(q))
		}
	}
}
