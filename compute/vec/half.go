package vec

import "math"

// FromF16 writes the halves of src to dst as float32. It is exact.
func FromF16(dst []float32, src []uint16) {
	src = src[:len(dst)]
	for n := fromF16Fast(dst, src); n > 0; n = fromF16Fast(dst, src) {
		dst, src = dst[n:], src[n:]
	}
	for i := range dst {
		dst[i] = fromHalf(src[i])
	}
}

// ToF16 rounds src to halves, to nearest with ties to even. What is 65520 or
// more becomes an infinity, what is 2⁻²⁵ or less becomes zero.
func ToF16(dst []uint16, src []float32) {
	src = src[:len(dst)]
	for n := toF16Fast(dst, src); n > 0; n = toF16Fast(dst, src) {
		dst, src = dst[n:], src[n:]
	}
	for i := range dst {
		dst[i] = toHalf(src[i])
	}
}

// fromHalf reads the half's exponent, of bias 15, as a float32's, of bias 127,
// and multiplies by the difference, which is exact for subnormals too.
func fromHalf(h uint16) float32 {
	em := uint32(h&0x7fff) << 13
	bits := math.Float32bits(float32(math.Float32frombits(em) * 0x1p112))
	if em >= 0x7c00<<13 { // infinity, or NaN made quiet
		bits = em | 0x7f800000
		if em > 0x7c00<<13 {
			bits |= 0x00400000
		}
	}
	return math.Float32frombits(bits | uint32(h>>15)<<31)
}

func toHalf(x float32) uint16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	em := bits & 0x7fffffff
	switch {
	case em > 0x7f800000: // NaN, made quiet
		return sign | 0x7e00 | uint16(em>>13&0x03ff)
	case em >= 0x477ff000: // 65520, half-way between the largest half and 2¹⁶
		return sign | 0x7c00
	case em >= 0x38800000: // 2⁻¹⁴, the least normal half
		em -= (127 - 15) << 23
		// Just under half a unit, and one more where the kept part is odd:
		// ties go to even. A carry runs into the exponent, as it should.
		return sign | uint16((em+0x0fff+em>>13&1)>>13)
	default:
		// The sum's unit is 2⁻²⁴, that of a subnormal half: the addition rounds.
		sum := math.Float32frombits(em) + 0x1p-1
		return sign | uint16(math.Float32bits(sum)-math.Float32bits(0x1p-1))
	}
}
