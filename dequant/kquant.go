package dequant

// The K formats: 256 values in sub-blocks of 16 or 32, whose own small scales
// (and minimums) are multiples of the block's. Where a byte holds several
// values they are 32 apart in the block, so that a vector of bytes gives
// vectors of neighbours.
//
// Conversions to float32 of what is one already keep the compiler from fusing a
// product with the subtraction that uses it, which it may do even where the
// product has a name.

// expandQ2_K computes (d*scale)*q - dmin*min by sub-blocks of 16. block_q2_K in
// ggml-common.h:
//
//	 0  scales  16 bytes, 4-bit scale below 4-bit min
//	16  qs      64 bytes, 2-bit q; 32 bytes for each 128 values
//	80  d       binary16
//	82  dmin    binary16
func expandQ2_K(dst []float32, src []byte) {
	for len(src) >= 84 && len(dst) >= 256 {
		b, y := (*[84]byte)(src), (*[256]float32)(dst)
		src, dst = src[84:], dst[256:]
		d, dmin := f16(b[80], b[81]), f16(b[82], b[83])
		for i, s := range b[:16] {
			scale, floor := d*float32(s&15), float32(dmin*float32(s>>4))
			qs := (*[16]byte)(b[16+i/8*32+i%2*16:])
			out := (*[16]float32)(y[16*i:])
			shift := i / 2 % 4 * 2
			for j, q := range qs {
				out[j] = float32(scale*float32(q>>shift&3)) - floor
			}
		}
	}
}

// expandQ3_K computes (d*(scale-32))*(q-4) by sub-blocks of 16. block_q3_K in
// ggml-common.h:
//
//	  0  hmask   32 bytes, bit i of byte j is the third bit of value 32i+j's q
//	 32  qs      64 bytes, the lower 2 bits of q, as in Q2_K
//	 96  scales  12 bytes, 6-bit scales: the low 4 bits of scale i are half i/8
//	             of byte i%8, its high 2 bits are pair i/4 of byte 8+i%4
//	108  d       binary16
func expandQ3_K(dst []float32, src []byte) {
	for len(src) >= 110 && len(dst) >= 256 {
		b, y := (*[110]byte)(src), (*[256]float32)(dst)
		src, dst = src[110:], dst[256:]
		d := f16(b[108], b[109])
		scales := (*[12]byte)(b[96:])
		for i := range 16 {
			s := scales[i%8]>>(i/8*4)&15 | scales[8+i%4]>>(i/4*2)&3<<4
			scale := d * float32(int32(s)-32)
			qs := (*[16]byte)(b[32+i/8*32+i%2*16:])
			high := (*[16]byte)(b[i%2*16:])
			out := (*[16]float32)(y[16*i:])
			shift, highShift := i/2%4*2, i/2
			for j, q := range qs {
				out[j] = scale * float32(int32(q>>shift&3|high[j]>>highShift&1<<2)-4)
			}
		}
	}
}

// scaleMin returns the 6-bit scale and minimum of sub-block i of 8 in the types
// Q4_K and Q5_K (get_scale_min_k4 in ggml-quants.c). Those of the first four
// have the lower 6 bits of bytes i and 4+i; of the others the lower 4 bits are
// in byte 4+i and the upper 2 on top of bytes i-4 and i.
func scaleMin(s *[12]byte, i int) (scale, floor float32) {
	if i < 4 {
		return float32(s[i] & 63), float32(s[4+i] & 63)
	}
	return float32(s[4+i]&15 | s[i-4]>>6<<4), float32(s[4+i]>>4 | s[i]>>6<<4)
}

// expandQ4_K computes (d*scale)*q - dmin*min by sub-blocks of 32. block_q4_K in
// ggml-common.h:
//
//	 0  d       binary16
//	 2  dmin    binary16
//	 4  scales  12 bytes, see scaleMin
//	16  qs      128 bytes, 4-bit q: 32 bytes for two sub-blocks, lower halves first
func expandQ4_K(dst []float32, src []byte) {
	for len(src) >= 144 && len(dst) >= 256 {
		b, y := (*[144]byte)(src), (*[256]float32)(dst)
		src, dst = src[144:], dst[256:]
		d, dmin := f16(b[0], b[1]), f16(b[2], b[3])
		scales := (*[12]byte)(b[4:])
		for i := range 4 {
			s0, m0 := scaleMin(scales, 2*i)
			s1, m1 := scaleMin(scales, 2*i+1)
			s0, m0, s1, m1 = d*s0, float32(dmin*m0), d*s1, float32(dmin*m1)
			qs := (*[32]byte)(b[16+32*i:])
			out := (*[64]float32)(y[64*i:])
			for j, q := range qs {
				out[j] = float32(s0*float32(q&15)) - m0
				out[32+j] = float32(s1*float32(q>>4)) - m1
			}
		}
	}
}

// expandQ5_K computes (d*scale)*q - dmin*min by sub-blocks of 32. block_q5_K in
// ggml-common.h:
//
//	 0  d       binary16
//	 2  dmin    binary16
//	 4  scales  12 bytes, see scaleMin
//	16  qh      32 bytes, bit i of byte j is the fifth bit of value 32i+j's q
//	48  qs      128 bytes, the lower 4 bits of q, as in Q4_K
func expandQ5_K(dst []float32, src []byte) {
	for len(src) >= 176 && len(dst) >= 256 {
		b, y := (*[176]byte)(src), (*[256]float32)(dst)
		src, dst = src[176:], dst[256:]
		d, dmin := f16(b[0], b[1]), f16(b[2], b[3])
		scales := (*[12]byte)(b[4:])
		high := (*[32]byte)(b[16:])
		for i := range 4 {
			s0, m0 := scaleMin(scales, 2*i)
			s1, m1 := scaleMin(scales, 2*i+1)
			s0, m0, s1, m1 = d*s0, float32(dmin*m0), d*s1, float32(dmin*m1)
			qs := (*[32]byte)(b[48+32*i:])
			out := (*[64]float32)(y[64*i:])
			for j, q := range qs {
				h := high[j] >> (2 * i)
				out[j] = float32(s0*float32(q&15|h&1<<4)) - m0
				out[32+j] = float32(s1*float32(q>>4|h&2<<3)) - m1
			}
		}
	}
}

// expandQ6_K computes (d*scale)*(q-32) by sub-blocks of 16. block_q6_K in
// ggml-common.h:
//
//	  0  ql      128 bytes, the lower 4 bits of q; 64 bytes for each 128 values:
//	             lower halves first
//	128  qh      64 bytes, the upper 2 bits of q, as in Q2_K
//	192  scales  16 signed bytes
//	208  d       binary16
func expandQ6_K(dst []float32, src []byte) {
	for len(src) >= 210 && len(dst) >= 256 {
		b, y := (*[210]byte)(src), (*[256]float32)(dst)
		src, dst = src[210:], dst[256:]
		d := f16(b[208], b[209])
		scales := (*[16]byte)(b[192:])
		// Each i takes the four sub-blocks whose upper bits share 16 bytes.
		for i := range 4 {
			half, odd := i/2, i%2
			low := (*[48]byte)(b[64*half+16*odd:])
			high := (*[16]byte)(b[128+32*half+16*odd:])
			sc := (*[7]byte)(scales[8*half+odd:])
			out := (*[112]float32)(y[128*half+16*odd:])
			s0, s1 := d*float32(int8(sc[0])), d*float32(int8(sc[2]))
			s2, s3 := d*float32(int8(sc[4])), d*float32(int8(sc[6]))
			for j, h := range high {
				q0, q1 := low[j], low[32+j]
				out[j] = s0 * float32(int32(q0&15|h&3<<4)-32)
				out[32+j] = s1 * float32(int32(q1&15|h>>2&3<<4)-32)
				out[64+j] = s2 * float32(int32(q0>>4|h>>4&3<<4)-32)
				out[96+j] = s3 * float32(int32(q1>>4|h>>6<<4)-32)
			}
		}
	}
}
