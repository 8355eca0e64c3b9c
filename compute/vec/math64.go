package vec

import "math"

// The float64 functions serve tables, such as the angles of RoPE: they are few
// and rounded to float32 afterwards, so that clarity goes before speed.
// Products are rounded before additions here too.

// π/2 and ln 2 in parts with trailing zeros, so that a product of the first
// parts with the integers that occur is exact. The last part takes the rest.
const (
	halfPi1 = 0x1.921fb544p0 // 31 bits
	halfPi2 = 0x1.0b4611a6p-34
	halfPi3 = math.Pi/2 - halfPi1 - halfPi2
	ln2Hi64 = 0x1.62e42feep-1 // 32 bits
	ln2Lo64 = math.Ln2 - ln2Hi64
)

// SinCos64 returns the sine and the cosine of x, within 1e-15 of the true
// values for |x| up to 1e6; beyond, the error grows with |x|. They are NaN if x
// is NaN or its magnitude is above 2⁵³, where neighbouring numbers are further
// apart than the angles they stand for.
func SinCos64(x float64) (s, c float64) {
	if !(math.Abs(x) <= 1<<53) {
		return math.NaN(), math.NaN()
	}
	n := math.Floor(float64(x*(2/math.Pi)) + 0.5)
	r := x - float64(n*halfPi1)
	r -= float64(n * halfPi2)
	r -= float64(n * halfPi3)
	s, c = taylorSinCos(r)
	switch int64(n) & 3 {
	case 1:
		return c, -s
	case 2:
		return -s, -c
	case 3:
		return -c, s
	}
	return s, c
}

// taylorSinCos sums the series for |r| <= π/4. The first term left out is
// r²⁰/20! < 4e-21.
func taylorSinCos(r float64) (s, c float64) {
	s, c = 1, 1
	r2 := float64(r * r)
	for k := 18.0; k > 0; k -= 2 {
		s = 1 - float64(s*r2)/(k*(k+1))
		c = 1 - float64(c*r2)/(k*(k-1))
	}
	return float64(s * r), c
}

// Exp64 returns eˣ with a relative error under 1e-15: +Inf above the largest
// float64, 0 below the least, NaN for NaN.
func Exp64(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 710:
		return math.Inf(1)
	case x < -746:
		return 0
	}
	n := math.Floor(float64(x*math.Log2E) + 0.5)
	r := x - float64(n*ln2Hi64)
	r -= float64(n * ln2Lo64)
	// The first term left out is r¹⁶/16! < 3e-21.
	y := 1.0
	for k := 15.0; k > 0; k-- {
		y = 1 + float64(y*r)/k
	}
	// As in exp: 2ⁿ itself may be no float64.
	half := int64(n) >> 1
	return float64(float64(y*pow2f64(half)) * pow2f64(int64(n)-half))
}

func pow2f64(n int64) float64 { return math.Float64frombits(uint64(n+1023) << 52) }

// Log64 returns the natural logarithm of x within 1e-15 of it, absolutely or
// relatively: -Inf for 0, NaN for negative numbers and NaN.
func Log64(x float64) float64 {
	switch {
	case x < 0 || x != x:
		return math.NaN()
	case x == 0:
		return math.Inf(-1)
	case x > math.MaxFloat64:
		return x
	}
	// x = m 2ᵉ with m from sqrt(1/2) to sqrt(2), and with s = (m-1)/(m+1)
	// log m = 2 (s + s³/3 + s⁵/5 + ...). The first term left out is s²⁵/25 < 4e-21.
	m, e := math.Frexp(x)
	if m < 0.5*math.Sqrt2 {
		m *= 2
		e--
	}
	s := (m - 1) / (m + 1)
	s2 := float64(s * s)
	sum := 1.0 / 23
	for k := 21.0; k > 0; k -= 2 {
		sum = float64(sum*s2) + 1/k
	}
	logM := float64(float64(2*s) * sum)
	return float64(float64(e)*ln2Hi64) + (float64(float64(e)*ln2Lo64) + logM)
}
