package dequant

import (
	"encoding/binary"
	"math"
)

// F16ToF32 returns the value of the IEEE 754 binary16 number h, exactly. A NaN
// stays a NaN with its payload and becomes quiet, as the conversion
// instructions of processors have it.
func F16ToF32(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	mag := uint32(h & 0x7fff)
	switch {
	case mag < 0x0400: // zero or subnormal: a multiple of 2^-24
		return math.Float32frombits(sign | math.Float32bits(float32(mag)*0x1p-24))
	case mag < 0x7c00: // rebias the exponent from 15 to 127
		return math.Float32frombits(sign | mag<<13 + 112<<23)
	case mag == 0x7c00:
		return math.Float32frombits(sign | 0x7f800000)
	}
	return math.Float32frombits(sign | 0x7fc00000 | mag<<13)
}

// F32ToF16 returns the binary16 number nearest to f, and of two equally near
// the one with an even last bit. What rounds above the largest finite number,
// 65504, is infinite; any NaN becomes the quiet NaN with f's sign and the upper
// bits of its payload.
func F32ToF16(f float32) uint16 {
	b := math.Float32bits(f)
	sign := uint16(b>>16) & 0x8000
	mag := b & 0x7fffffff
	switch {
	case mag > 0x7f800000:
		return sign | 0x7e00 | uint16(mag>>13)&0x3ff
	case mag >= 0x477ff000: // 65520, half-way between 65504 and what would be next
		return sign | 0x7c00
	case mag < 0x38800000: // below 2^-14 the result is subnormal
		// In [0.5, 1) float32 numbers are 2^-24 apart, as far as subnormal
		// binary16 numbers, so the addition does the rounding.
		const half = 0x3f000000
		return sign | uint16(math.Float32bits(math.Float32frombits(mag)+0.5)-half)
	}
	// Round the 13 bits that go away; a carry moves into the exponent rightly.
	mag += 0xfff + mag>>13&1
	return sign | uint16((mag-112<<23)>>13)
}

// BF16ToF32 returns the value of the bfloat16 number h, the upper half of a
// float32, exactly. NaNs keep all their bits.
func BF16ToF32(h uint16) float32 { return math.Float32frombits(uint32(h) << 16) }

// f16 reads a little-endian binary16 number, the form of all scales.
func f16(lo, hi byte) float32 { return F16ToF32(uint16(lo) | uint16(hi)<<8) }

// expandF32 copies: the file's numbers are little-endian float32.
func expandF32(dst []float32, src []byte) {
	for i := 0; i < len(dst) && len(src) >= 4; i++ {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src))
		src = src[4:]
	}
}

// expandF16 expands little-endian binary16 numbers.
func expandF16(dst []float32, src []byte) {
	for i := 0; i < len(dst) && len(src) >= 2; i++ {
		h := binary.LittleEndian.Uint16(src)
		src = src[2:]
		// F16ToF32 is too large to be inlined; its common case is not.
		if mag := uint32(h & 0x7fff); mag-0x0400 < 0x7800 {
			dst[i] = math.Float32frombits(uint32(h&0x8000)<<16 | mag<<13 + 112<<23)
		} else {
			dst[i] = F16ToF32(h)
		}
	}
}

// expandBF16 expands little-endian bfloat16 numbers.
func expandBF16(dst []float32, src []byte) {
	for i := 0; i < len(dst) && len(src) >= 2; i++ {
		dst[i] = BF16ToF32(binary.LittleEndian.Uint16(src))
		src = src[2:]
	}
}
