package vec

// Rope rotates the first 2*len(cos) elements of one head, x, by len(cos)
// angles, given by their cosines and sines. Pair i is elements 2i and 2i+1, or,
// if neox, elements i and i+len(cos). (Su and others, RoFormer, 2021.)
func Rope(x []float32, cos, sin []float32, neox bool) {
	n := len(cos)
	x = x[:2*n]
	sin = sin[:n]
	if neox {
		a, b := x[:n], x[n:]
		for n := ropeHalvesFast(a, b, cos, sin); n > 0; n = ropeHalvesFast(a, b, cos, sin) {
			a, b, cos, sin = a[n:], b[n:], cos[n:], sin[n:]
		}
		for i, c := range cos {
			a[i], b[i] = rotate(a[i], b[i], c, sin[i])
		}
		return
	}
	for n := ropePairsFast(x, cos, sin); n > 0; n = ropePairsFast(x, cos, sin) {
		x, cos, sin = x[2*n:], cos[n:], sin[n:]
	}
	for i, c := range cos {
		x[2*i], x[2*i+1] = rotate(x[2*i], x[2*i+1], c, sin[i])
	}
}

func rotate(a, b, c, s float32) (float32, float32) {
	return float32(a*c) - float32(b*s), float32(a*s) + float32(b*c)
}
