package vec

import "math"

// RMSNorm sets dst to x / sqrt(mean(x²) + eps) * weight. The steps, each
// rounded: r = 1/sqrt(Dot(x, x)/n + eps), then (x[i]*r)*weight[i]. dst may be x.
// (Zhang and Sennrich, Root Mean Square Layer Normalization, 2019.)
func RMSNorm(dst, x, weight []float32, eps float32) {
	x = x[:len(dst)]
	weight = weight[:len(dst)]
	mean := Dot(x, x) / float32(len(x))
	// The square root of a float32 in float64, rounded, is correctly rounded.
	r := 1 / float32(math.Sqrt(float64(mean+eps)))
	for n := scaleMulFast(dst, x, weight, r); n > 0; n = scaleMulFast(dst, x, weight, r) {
		dst, x, weight = dst[n:], x[n:], weight[n:]
	}
	for i := range dst {
		dst[i] = float32(float32(x[i]*r) * weight[i])
	}
}
