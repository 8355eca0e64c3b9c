package vec

// Add adds x to dst.
func Add(dst, x []float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += x[i]
	}
}

// AddScaled adds s*x to dst.
func AddScaled(dst, x []float32, s float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += float32(s * x[i])
	}
}

// AddScaledF16 adds s*x to dst, where x holds halves.
func AddScaledF16(dst []float32, x []uint16, s float32) {
	x = x[:len(dst)]
	for i := range dst {
		dst[i] += float32(s * fromHalf(x[i]))
	}
}

// Scale multiplies dst by s.
func Scale(dst []float32, s float32) {
	for i := range dst {
		dst[i] = float32(dst[i] * s)
	}
}
