package vec

import "math"

// exp(x) = 2ⁿ exp(r) with n = x/ln 2 rounded and r = x - n ln 2, |r| <= ln 2 / 2.
const (
	expMax = 89   // exp is infinite from 88.73 on
	expMin = -104 // exp rounds to zero below -103.97
	log2e  = float32(math.Log2E)

	// Adding 1.5*2²³ to a number of magnitude under 2²² rounds it to an integer,
	// which then stands in the low bits of the sum.
	roundMagic = float32(0x1.8p23)

	// ln 2 in two parts: n has 8 bits and the first part 15, so that n times it
	// is exact.
	ln2Hi = float32(0x1.62e4p-1)
	ln2Lo = float32(math.Ln2 - 0x1.62e4p-1)

	// exp(r) = 1 + r + r²(c0 + c1 r + ... + c4 r⁴), of least relative error in
	// |r| <= ln 2 / 2: 3.1e-9, a twentieth of half a unit in the last place.
	expC0 = float32(0.4999999337288021)
	expC1 = float32(0.16666519521858164)
	expC2 = float32(0.04166840112067736)
	expC3 = float32(0.008368851272295497)
	expC4 = float32(0.0013814319021390963)
)

// Exp sets dst to exp(x), within 1 unit in the last place. It is +Inf where
// the result is above the largest float32, subnormal and then 0 where it is below
// the least, and NaN for NaN. dst may be x.
func Exp(dst, x []float32) {
	x = x[:len(dst)]
	for n := expFast(dst, x); n > 0; n = expFast(dst, x) {
		dst, x = dst[n:], x[n:]
	}
	for i := range dst {
		dst[i] = exp(x[i])
	}
}

func exp(x float32) float32 {
	// Written so that NaN passes.
	if x > expMax {
		x = expMax
	}
	if x < expMin {
		x = expMin
	}
	shifted := float32(x*log2e) + roundMagic
	n := shifted - roundMagic
	r := x - float32(n*ln2Hi)
	r -= float32(n * ln2Lo)
	q := expC4
	q = float32(q*r) + expC3
	q = float32(q*r) + expC2
	q = float32(q*r) + expC1
	q = float32(q*r) + expC0
	y := float32(float32(r*r)*q) + r + 1
	// n runs from -150 to 128: 2ⁿ itself may be no float32, but its two halves are.
	e := int32(math.Float32bits(shifted) - math.Float32bits(roundMagic))
	half := e >> 1
	return float32(float32(y*pow2(half)) * pow2(e-half))
}

// pow2 returns 2ⁿ for -126 <= n <= 127.
func pow2(n int32) float32 { return math.Float32frombits(uint32(n+127) << 23) }
