package vec

// SiLUMul sets dst to gate / (1 + exp(-gate)) * up: the gate of SwiGLU
// (Shazeer, GLU Variants Improve Transformer, 2020). dst may be gate or up.
func SiLUMul(dst, gate, up []float32) {
	gate = gate[:len(dst)]
	up = up[:len(dst)]
	for n := siluMulFast(dst, gate, up); n > 0; n = siluMulFast(dst, gate, up) {
		dst, gate, up = dst[n:], gate[n:], up[n:]
	}
	for i := range dst {
		g := gate[i]
		dst[i] = float32(g / (1 + exp(-g)) * up[i])
	}
}

// GELU's tanh form is x/2 (1 + tanh(u)), u = sqrt(2/π)(x + 0.044715 x³). As
// (1 + tanh u)/2 = 1/(1 + exp(-2u)), it is x / (1 + exp(-2u)), which loses no
// digits to cancellation.
const (
	geluC1 = float32(1.595769121605730711759785) // 2 sqrt(2/π)
	geluC3 = float32(0.044715 * 1.595769121605730711759785)
)

// GELUMul sets dst to gelu(gate) * up, with GELU in its tanh form (Hendrycks
// and Gimpel, Gaussian Error Linear Units, 2016). dst may be gate or up.
func GELUMul(dst, gate, up []float32) {
	gate = gate[:len(dst)]
	up = up[:len(dst)]
	for n := geluMulFast(dst, gate, up); n > 0; n = geluMulFast(dst, gate, up) {
		dst, gate, up = dst[n:], gate[n:], up[n:]
	}
	for i := range dst {
		g := gate[i]
		u2 := float32(g * (float32(geluC3*float32(g*g)) + geluC1))
		dst[i] = float32(g / (1 + exp(-u2)) * up[i])
	}
}
