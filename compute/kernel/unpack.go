package kernel

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/layerpipe/layerpipe/dequant"
)

// A block is one block of weights taken apart: for each 16 values
//
//	weight = d*scale*q - dmin*floor
//
// with scale 1 in the types with blocks of 32, and floor 0 in the types
// without a minimum. The types Q4_1 and Q5_1 add their minimum: dmin has its
// sign as in the file and floor is not used.
type block struct {
	q       [256]int8
	scale   [16]int32
	floor   [16]int32
	d, dmin float32
}

// The layouts of the blocks are described in package dequant.

func f16At(b []byte, off int) float32 {
	return dequant.F16ToF32(binary.LittleEndian.Uint16(b[off:]))
}

// nibbles sets out[:16] to the low and out[16:32] to the high halves of qs.
func nibbles(out []int8, qs []byte) {
	_ = out[31]
	for j, q := range qs[:16] {
		out[j], out[16+j] = int8(q&15), int8(q>>4)
	}
}

// fifth adds to each of 32 values its fifth bit.
func fifth(out []int8, bits uint32) {
	for j := range out[:32] {
		out[j] |= int8(bits >> j & 1 << 4)
	}
}

func center(out []int8, by int8) {
	for j := range out {
		out[j] -= by
	}
}

func lookup(out []int8, table *[16]int8) {
	for j, q := range out {
		out[j] = table[q&15]
	}
}

func unpackQ4_0(b *block, src []byte) {
	b.d = f16At(src, 0)
	nibbles(b.q[:], src[2:])
	center(b.q[:32], 8)
}

func unpackQ4_1(b *block, src []byte) {
	b.d, b.dmin = f16At(src, 0), f16At(src, 2)
	nibbles(b.q[:], src[4:])
}

func unpackQ5_0(b *block, src []byte) {
	b.d = f16At(src, 0)
	nibbles(b.q[:], src[6:])
	fifth(b.q[:], binary.LittleEndian.Uint32(src[2:]))
	center(b.q[:32], 16)
}

func unpackQ5_1(b *block, src []byte) {
	b.d, b.dmin = f16At(src, 0), f16At(src, 2)
	nibbles(b.q[:], src[8:])
	fifth(b.q[:], binary.LittleEndian.Uint32(src[4:]))
}

func unpackQ8_0(b *block, src []byte) {
	b.d = f16At(src, 0)
	for j, q := range src[2:34] {
		b.q[j] = int8(q)
	}
}

var iq4 = dequant.ValuesIQ4()

func unpackIQ4_NL(b *block, src []byte) {
	b.d = f16At(src, 0)
	nibbles(b.q[:], src[2:])
	lookup(b.q[:32], &iq4)
}

// fp4 holds twice the values of the 16 numbers of format E2M1.
var fp4 = [16]int8{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}

// unpackMXFP4 takes half the scale 2^(e-127), as fp4 holds doubles.
func unpackMXFP4(b *block, src []byte) {
	if e := uint32(src[0]); e < 2 {
		b.d = math.Float32frombits(0x00200000 << e) // subnormal
	} else {
		b.d = math.Float32frombits((e - 1) << 23)
	}
	nibbles(b.q[:], src[1:])
	lookup(b.q[:32], &fp4)
}

// twos sets out to the 2-bit values of 128 weights.
func twos(out []int8, qs []byte) {
	_ = out[127]
	for j, q := range qs[:32] {
		out[j], out[32+j], out[64+j], out[96+j] = int8(q&3), int8(q>>2&3), int8(q>>4&3), int8(q>>6)
	}
}

func unpackQ2_K(b *block, src []byte) {
	b.d, b.dmin = f16At(src, 80), f16At(src, 82)
	for i, s := range src[:16] {
		b.scale[i], b.floor[i] = int32(s&15), int32(s>>4)
	}
	twos(b.q[:], src[16:])
	twos(b.q[128:], src[48:])
}

func unpackQ3_K(b *block, src []byte) {
	b.d = f16At(src, 108)
	for i := range 16 {
		s := src[96+i%8]>>(i/8*4)&15 | src[104+i%4]>>(i/4*2)&3<<4
		b.scale[i] = int32(s) - 32
	}
	twos(b.q[:], src[32:])
	twos(b.q[128:], src[64:])
	for i := range b.q {
		b.q[i] += int8(src[i%32]>>(i/32)&1<<2) - 4
	}
}

// sixes unpacks the 6-bit scales and minimums of Q4_K and Q5_K.
func sixes(b *block, s []byte) {
	for i := range 4 {
		for h := range 2 {
			b.scale[2*i+h] = int32(s[i] & 63)
			b.floor[2*i+h] = int32(s[4+i] & 63)
			b.scale[8+2*i+h] = int32(s[8+i]&15 | s[i]>>6<<4)
			b.floor[8+2*i+h] = int32(s[8+i]>>4 | s[4+i]>>6<<4)
		}
	}
}

// nibbles64 sets out to the 4-bit values of 64 weights.
func nibbles64(out []int8, qs []byte) {
	_ = out[63]
	for j, q := range qs[:32] {
		out[j], out[32+j] = int8(q&15), int8(q>>4)
	}
}

func unpackQ4_K(b *block, src []byte) {
	b.d, b.dmin = f16At(src, 0), f16At(src, 2)
	sixes(b, src[4:16])
	for i := range 4 {
		nibbles64(b.q[64*i:], src[16+32*i:])
	}
}

func unpackQ5_K(b *block, src []byte) {
	b.d, b.dmin = f16At(src, 0), f16At(src, 2)
	sixes(b, src[4:16])
	for i := range 4 {
		nibbles64(b.q[64*i:], src[48+32*i:])
	}
	for i := range b.q {
		b.q[i] |= int8(src[16+i%32] >> (i / 32) & 1 << 4)
	}
}

func unpackQ6_K(b *block, src []byte) {
	b.d = f16At(src, 208)
	for i := range 16 {
		b.scale[i] = int32(int8(src[192+i]))
	}
	for h := range 2 {
		q, low, high := b.q[128*h:], src[64*h:], src[128+32*h:]
		for j := range 32 {
			q[j] = int8(low[j]&15|high[j]&3<<4) - 32
			q[32+j] = int8(low[32+j]&15|high[j]>>2&3<<4) - 32
			q[64+j] = int8(low[j]>>4|high[j]>>4&3<<4) - 32
			q[96+j] = int8(low[32+j]>>4|high[j]>>6<<4) - 32
		}
	}
}

func unpackIQ4_XS(b *block, src []byte) {
	b.d = f16At(src, 0)
	high, low := binary.LittleEndian.Uint16(src[2:]), binary.LittleEndian.Uint32(src[4:])
	for i := range 8 {
		s := int32(low>>(4*i)&15) | int32(high>>(2*i)&3)<<4
		b.scale[2*i], b.scale[2*i+1] = s-32, s-32
		nibbles(b.q[32*i:], src[8+16*i:])
	}
	lookup(b.q[:], &iq4)
}

// point sets out to the magnitudes of a point, with minus where signs has a bit.
func point(out []int8, magnitudes uint64, signs byte) {
	for j := range out[:8] {
		v := int8(magnitudes >> (8 * j))
		if signs>>j&1 != 0 {
			v = -v
		}
		out[j] = v
	}
}

// evenSigns adds to 7 signs the eighth, which makes the number of minus signs
// even.
func evenSigns(s uint32) byte { return byte(s&127) | byte(bits.OnesCount32(s&127))<<7 }

// The scale of a sub-block is s+1/2 in the file; here it is 2s+1, and d so much
// smaller.

func unpackIQ2_XXS(b *block, src []byte) {
	b.d = f16At(src, 0) * 0.125
	grid := dequant.GridIQ2XXS()
	for i := range 8 {
		qs := src[2+8*i:]
		signs := binary.LittleEndian.Uint32(qs[4:])
		b.scale[2*i] = int32(signs>>28)*2 + 1
		b.scale[2*i+1] = b.scale[2*i]
		for g, q := range qs[:4] {
			point(b.q[32*i+8*g:], grid[q], evenSigns(signs>>(7*g)))
		}
	}
}

// nibbleScales sets the scales of 16 values, two in a byte.
func nibbleScales(b *block, src []byte) {
	for i, s := range src[:8] {
		b.scale[2*i], b.scale[2*i+1] = int32(s&15)*2+1, int32(s>>4)*2+1
	}
}

func unpackIQ2_XS(b *block, src []byte) {
	b.d = f16At(src, 0) * 0.125
	nibbleScales(b, src[66:])
	grid := dequant.GridIQ2XS()
	for g := range 32 {
		q := binary.LittleEndian.Uint16(src[2+2*g:])
		point(b.q[8*g:], grid[q&511], evenSigns(uint32(q>>9)))
	}
}

func unpackIQ2_S(b *block, src []byte) {
	b.d = f16At(src, 0) * 0.125
	nibbleScales(b, src[74:])
	grid := dequant.GridIQ2S()
	for g := range 32 {
		q := uint32(src[2+g]) | uint32(src[66+g/4])>>(g%4*2)&3<<8
		point(b.q[8*g:], grid[q], src[34+g])
	}
}

func unpackIQ3_XXS(b *block, src []byte) {
	b.d = f16At(src, 0) * 0.25
	grid := dequant.GridIQ3XXS()
	for i := range 8 {
		qs, signs := src[2+8*i:], binary.LittleEndian.Uint32(src[66+4*i:])
		b.scale[2*i] = int32(signs>>28)*2 + 1
		b.scale[2*i+1] = b.scale[2*i]
		for g := range 4 {
			point(b.q[32*i+8*g:], uint64(grid[qs[2*g]])|uint64(grid[qs[2*g+1]])<<32, evenSigns(signs>>(7*g)))
		}
	}
}

func unpackIQ3_S(b *block, src []byte) {
	b.d = f16At(src, 0)
	grid := dequant.GridIQ3S()
	for i := range 8 {
		qs, high, signs := src[2+8*i:], uint32(src[66+i]), src[74+4*i:]
		b.scale[2*i] = int32(src[106+i/2]>>(i%2*4)&15)*2 + 1
		b.scale[2*i+1] = b.scale[2*i]
		for g := range 4 {
			q0 := uint32(qs[2*g]) | high>>(2*g)&1<<8
			q1 := uint32(qs[2*g+1]) | high>>(2*g+1)&1<<8
			point(b.q[32*i+8*g:], uint64(grid[q0])|uint64(grid[q1])<<32, signs[g])
		}
	}
}
