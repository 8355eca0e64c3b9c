package vec

// Add adds x to dst.
func Add(dst, x []float32) {
	x = x[:len(dst)]
	for n := addFast(dst, x); n > 0; n = addFast(dst, x) {
		dst, x = dst[n:], x[n:]
	}
	for i := range dst {
		dst[i] += x[i]
	}
}

// AddScaled adds s*x to dst.
func AddScaled(dst, x []float32, s float32) {
	x = x[:len(dst)]
	for n := addScaledFast(dst, x, s); n > 0; n = addScaledFast(dst, x, s) {
		dst, x = dst[n:], x[n:]
	}
	for i := range dst {
		dst[i] += float32(s * x[i])
	}
}

// AddScaledF16 adds s*x to dst, where x holds halves.
func AddScaledF16(dst []float32, x []uint16, s float32) {
	x = x[:len(dst)]
	for n := addScaledF16Fast(dst, x, s); n > 0; n = addScaledF16Fast(dst, x, s) {
		dst, x = dst[n:], x[n:]
	}
	for i := range dst {
		dst[i] += float32(s * fromHalf(x[i]))
	}
}

// Scale multiplies dst by s.
func Scale(dst []float32, s float32) {
	for n := scaleFast(dst, s); n > 0; n = scaleFast(dst, s) {
		dst = dst[n:]
	}
	for i := range dst {
		dst[i] = float32(dst[i] * s)
	}
}
