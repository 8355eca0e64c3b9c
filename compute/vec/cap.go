package vec

// chunk is how many elements are taken at a time where a function needs values
// between its steps: they stay on the stack.
const chunk = 64

// SoftCap sets x to c*tanh(x/c), which keeps it between -c and c. With
// u = |x|*(1/c), tanh(u) = (1 - exp(-2u)) / (1 + exp(-2u)), and the sign is that
// of x. The error is within some units in the last place of c. NaN stays NaN.
func SoftCap(x []float32, c float32) {
	var e [chunk]float32
	inverse := 1 / c
	for len(x) > 0 {
		n := min(chunk, len(x))
		for i, v := range x[:n] {
			e[i] = -2 * abs(float32(v*inverse))
		}
		Exp(e[:n], e[:n])
		for i, v := range x[:n] {
			t := float32(c * ((1 - e[i]) / (1 + e[i])))
			if v < 0 {
				t = -t
			}
			x[i] = t
		}
		x = x[n:]
	}
}

func abs(x float32) float32 {
	if x < 0 {
		return -x
	}
	return x
}

// Sigmoid sets x to 1 / (1 + exp(-x)).
func Sigmoid(x []float32) {
	for i, v := range x {
		x[i] = 1 / (1 + exp(-v))
	}
}

// ClampedSwiGLU sets dst to g / (1 + exp(-1.702*g)) * (u + 1), where g is gate
// but at most 7, and u is up within -7 and 7: the gate of gpt-oss
// (https://arxiv.org/abs/2508.10925). dst may be gate or up.
func ClampedSwiGLU(dst, gate, up []float32) {
	const alpha, limit = float32(1.702), float32(7)
	gate = gate[:len(dst)]
	up = up[:len(dst)]
	var e [chunk]float32
	for len(dst) > 0 {
		n := min(chunk, len(dst))
		for i, g := range gate[:n] {
			e[i] = float32(-alpha * min(g, limit))
		}
		Exp(e[:n], e[:n])
		for i, g := range gate[:n] {
			u := max(-limit, min(up[i], limit))
			dst[i] = float32(min(g, limit) / (1 + e[i]) * (u + 1))
		}
		dst, gate, up = dst[n:], gate[n:], up[n:]
	}
}

// SoftmaxSink is [Softmax] of x with one more element behind it, the sink,
// that takes part in the maximum and in the sum, to which it is added last, but
// is not among the results (https://arxiv.org/abs/2309.17453).
func SoftmaxSink(x []float32, sink float32) (sum float32) {
	m := max(Max(x), sink)
	if m == 0 {
		m = 0 // of either sign
	}
	return expSum(x, m) + exp(sink-m)
}
