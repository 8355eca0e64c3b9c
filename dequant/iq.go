package dequant

import (
	"encoding/binary"
	"math"
	"math/bits"
)

// Groups of 8 values of IQ2 and IQ3 have one sign bit a value, lowest first. The
// XXS and XS types store 7 of them: the number of minus signs is even, which
// gives the eighth (ksigns_iq2xs in ggml-common.h).
func evenSigns(s byte) byte { return s&127 | byte(bits.OnesCount8(s&127))<<7 }

// signed8 sets y to scale times the 8 magnitudes of point, with minus where
// signs has a bit.
func signed8(y *[8]float32, scale float32, point uint64, signs byte) {
	for j := range y {
		v := math.Float32bits(scale * float32(int32(point&0xff)))
		y[j] = math.Float32frombits(v ^ uint32(signs)<<31)
		point >>= 8
		signs >>= 1
	}
}

// expandIQ2_XXS computes +-(d*(scale+0.5)/4)*point by groups of 8 values.
// block_iq2_xxs in ggml-common.h:
//
//	0  d   binary16
//	2  qs  8 bytes for each 32 values: 4 grid indices, then 32 bits: 4 times
//	       7 signs and the 4-bit scale on top
func expandIQ2_XXS(dst []float32, src []byte) {
	grid := GridIQ2XXS()
	for len(src) >= 66 && len(dst) >= 256 {
		b, y := (*[66]byte)(src), (*[256]float32)(dst)
		src, dst = src[66:], dst[256:]
		d := f16(b[0], b[1])
		for i := range 8 {
			qs := (*[8]byte)(b[2+8*i:])
			signs := binary.LittleEndian.Uint32(qs[4:])
			scale := d * (0.5 + float32(signs>>28)) * 0.25
			out := (*[32]float32)(y[32*i:])
			for g, q := range qs[:4] {
				signed8((*[8]float32)(out[8*g:]), scale, grid[q], evenSigns(byte(signs>>(7*g)&127)))
			}
		}
	}
}

// expandIQ2_XS computes +-(d*(scale+0.5)/4)*point by groups of 8 values.
// block_iq2_xs in ggml-common.h:
//
//	 0  d       binary16
//	 2  qs      32 times 16 bits: 9 of grid index, 7 signs above
//	66  scales  8 bytes, a 4-bit scale for each 16 values
func expandIQ2_XS(dst []float32, src []byte) {
	grid := GridIQ2XS()
	for len(src) >= 74 && len(dst) >= 256 {
		b, y := (*[74]byte)(src), (*[256]float32)(dst)
		src, dst = src[74:], dst[256:]
		d := f16(b[0], b[1])
		for i, s := range b[66:74] {
			qs := (*[8]byte)(b[2+8*i:])
			out := (*[32]float32)(y[32*i:])
			for g := range 4 {
				q := binary.LittleEndian.Uint16(qs[2*g:])
				scale := d * (0.5 + float32(s>>(g/2*4)&15)) * 0.25
				signed8((*[8]float32)(out[8*g:]), scale, grid[q&511], evenSigns(byte(q>>9)))
			}
		}
	}
}

// expandIQ2_S computes +-(d*(scale+0.5)/4)*point by groups of 8 values.
// block_iq2_s in ggml-common.h:
//
//	 0  d       binary16
//	 2  qs      32 bytes, the lower 8 bits of grid indices
//	34  signs   32 bytes (in the struct they are the second half of qs)
//	66  qh      8 bytes, the upper 2 bits of grid indices
//	74  scales  8 bytes, as in IQ2_XS
func expandIQ2_S(dst []float32, src []byte) {
	grid := GridIQ2S()
	for len(src) >= 82 && len(dst) >= 256 {
		b, y := (*[82]byte)(src), (*[256]float32)(dst)
		src, dst = src[82:], dst[256:]
		d := f16(b[0], b[1])
		for i, s := range b[74:82] {
			qs := (*[4]byte)(b[2+4*i:])
			signs := (*[4]byte)(b[34+4*i:])
			high := b[66+i]
			out := (*[32]float32)(y[32*i:])
			for g, q := range qs {
				scale := d * (0.5 + float32(s>>(g/2*4)&15)) * 0.25
				point := grid[uint16(q)|uint16(high>>(2*g)&3)<<8]
				signed8((*[8]float32)(out[8*g:]), scale, point, signs[g])
			}
		}
	}
}

// expandIQ3_XXS computes +-(d*(scale+0.5)/2)*point by groups of 4 values.
// block_iq3_xxs in ggml-common.h:
//
//	 0  d   binary16
//	 2  qs  64 bytes, grid indices
//	66      32 bits for each 32 values: 4 times 7 signs and the 4-bit scale on
//	        top, as in IQ2_XXS (in the struct the rest of qs)
func expandIQ3_XXS(dst []float32, src []byte) {
	grid := GridIQ3XXS()
	for len(src) >= 98 && len(dst) >= 256 {
		b, y := (*[98]byte)(src), (*[256]float32)(dst)
		src, dst = src[98:], dst[256:]
		d := f16(b[0], b[1])
		for i := range 8 {
			qs := (*[8]byte)(b[2+8*i:])
			signs := binary.LittleEndian.Uint32(b[66+4*i:])
			scale := d * (0.5 + float32(signs>>28)) * 0.5
			out := (*[32]float32)(y[32*i:])
			for g := range 4 {
				point := uint64(grid[qs[2*g]]) | uint64(grid[qs[2*g+1]])<<32
				signed8((*[8]float32)(out[8*g:]), scale, point, evenSigns(byte(signs>>(7*g)&127)))
			}
		}
	}
}

// expandIQ3_S computes +-(d*(1+2*scale))*point by groups of 4 values.
// block_iq3_s in ggml-common.h:
//
//	  0  d       binary16
//	  2  qs      64 bytes, the lower 8 bits of grid indices
//	 66  qh      64 bits, the ninth bits
//	 74  signs   32 bytes
//	106  scales  4 bytes, a 4-bit scale for each 32 values
func expandIQ3_S(dst []float32, src []byte) {
	grid := GridIQ3S()
	for len(src) >= 110 && len(dst) >= 256 {
		b, y := (*[110]byte)(src), (*[256]float32)(dst)
		src, dst = src[110:], dst[256:]
		d := f16(b[0], b[1])
		for i := range 8 {
			qs := (*[8]byte)(b[2+8*i:])
			signs := (*[4]byte)(b[74+4*i:])
			high := uint16(b[66+i])
			scale := d * float32(1+2*(b[106+i/2]>>(i%2*4)&15))
			out := (*[32]float32)(y[32*i:])
			for g, s := range signs {
				q0 := uint16(qs[2*g]) | high<<8&256
				q1 := uint16(qs[2*g+1]) | high<<7&256
				high >>= 2
				signed8((*[8]float32)(out[8*g:]), scale, uint64(grid[q0])|uint64(grid[q1])<<32, s)
			}
		}
	}
}

// iq1Delta is by how much all values of an IQ1 group are off the grid, up or
// down (IQ1S_DELTA and IQ1M_DELTA in ggml-common.h).
const iq1Delta = 0.125

// shifted8 sets y to scale times the 8 values of point plus delta.
func shifted8(y *[8]float32, scale, delta float32, point uint64) {
	for j := range y {
		y[j] = scale * (float32(int8(point)) + delta)
		point >>= 8
	}
}

// expandIQ1_S computes (d*(2*scale+1))*(point+-delta) by groups of 8 values.
// block_iq1_s in ggml-common.h:
//
//	 0  d   binary16
//	 2  qs  32 bytes, the lower 8 bits of grid indices
//	34  qh  16 bits for each 32 values: 4 times the upper 3 bits of the indices,
//	        the 3-bit scale, and on top whether delta is negative
func expandIQ1_S(dst []float32, src []byte) {
	grid := GridIQ1()
	for len(src) >= 50 && len(dst) >= 256 {
		b, y := (*[50]byte)(src), (*[256]float32)(dst)
		src, dst = src[50:], dst[256:]
		d := f16(b[0], b[1])
		for i := range 8 {
			qs := (*[4]byte)(b[2+4*i:])
			high := binary.LittleEndian.Uint16(b[34+2*i:])
			scale := d * float32(2*(high>>12&7)+1)
			delta := float32(iq1Delta)
			if high&0x8000 != 0 {
				delta = -iq1Delta
			}
			out := (*[32]float32)(y[32*i:])
			for g, q := range qs {
				point := grid[uint16(q)|high>>(3*g)&7<<8]
				shifted8((*[8]float32)(out[8*g:]), scale, delta, point)
			}
		}
	}
}

// expandIQ1_M computes (d*(2*scale+1))*(point+-delta) by groups of 8 values.
// block_iq1_m in ggml-common.h:
//
//	 0  qs      32 bytes, the lower 8 bits of grid indices
//	32  qh      32 times 4 bits: the upper 3 bits of the index, and whether
//	            delta is negative
//	48  scales  4 times 16 bits: 4 times 3 bits, a scale for each 16 values, and
//	            on top 4 bits of the binary16 d, lowest first
func expandIQ1_M(dst []float32, src []byte) {
	grid := GridIQ1()
	for len(src) >= 56 && len(dst) >= 256 {
		b, y := (*[56]byte)(src), (*[256]float32)(dst)
		src, dst = src[56:], dst[256:]
		scales := binary.LittleEndian.Uint64(b[48:])
		d := F16ToF32(uint16(scales>>12&0x000f | scales>>24&0x00f0 | scales>>36&0x0f00 | scales>>48&0xf000))
		for i := range 16 {
			scale := d * float32(2*int32(scales>>(i/4*16+i%4*3)&7)+1)
			high := b[32+i]
			out := (*[16]float32)(y[16*i:])
			for g := range 2 {
				delta := float32(iq1Delta)
				if high&8 != 0 {
					delta = -iq1Delta
				}
				point := grid[uint16(b[2*i+g])|uint16(high&7)<<8]
				shifted8((*[8]float32)(out[8*g:]), scale, delta, point)
				high >>= 4
			}
		}
	}
}
