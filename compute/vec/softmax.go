package vec

import "math"

// Softmax sets x to exp(x - Max(x)) and returns the sum of that, in eight
// lanes. Dividing by the sum is left to the caller, who can often do it later
// and to fewer numbers. The sum is at least 1, but 0 for an empty x, and NaN
// where x holds a NaN, +Inf, or nothing but -Inf.
func Softmax(x []float32) (sum float32) { return expSum(x, Max(x)) }

// expSum sets x to exp(x - m) and returns the sum.
func expSum(x []float32, m float32) float32 {
	var l lanes
	for n := expSumFast(&l, x, m); n > 0; n = expSumFast(&l, x, m) {
		x = x[n:]
	}
	for i := range x {
		x[i] = exp(x[i] - m)
		l[i%8] += x[i]
	}
	return l.sum()
}

// Max returns the greatest element: NaN if there is a NaN, -Inf for an empty x,
// and +0 rather than -0.
func Max(x []float32) float32 {
	inf := float32(math.Inf(1))
	l := lanes{-inf, -inf, -inf, -inf, -inf, -inf, -inf, -inf}
	for {
		n, nan := maxFast(&l, x)
		if nan {
			return float32(math.NaN())
		}
		if n == 0 {
			break
		}
		x = x[n:]
	}
	for i, v := range x {
		if v != v {
			return v
		}
		l[i%8] = max(l[i%8], v)
	}
	m := l[0]
	for _, v := range l {
		m = max(m, v)
	}
	if m == 0 {
		return 0 // of either sign
	}
	return m
}

// ArgMax returns the index of the greatest element, the first if several are
// equal. It returns -1 if x is empty or holds a NaN: then nothing is greatest.
func ArgMax(x []float32) int {
	m := Max(x)
	for i, v := range x {
		if v == m {
			return i
		}
	}
	return -1
}
