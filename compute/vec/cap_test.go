package vec_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute/vec"
)

func TestSoftCap(t *testing.T) {
	for _, c := range []float32{0.5, 5, 50} {
		x := append(randoms(3000, 7), 0, 1e-30, 1e30, -1e30, 40, -40, float32(math.Inf(1)), float32(math.Inf(-1)))
		got := append([]float32(nil), x...)
		vec.SoftCap(got, c)
		for i, v := range x {
			require.InDelta(t, float64(c)*math.Tanh(float64(v)/float64(c)), got[i], 3e-7*float64(c), "%v of %v", c, v)
		}
	}
	x := []float32{float32(math.NaN())}
	vec.SoftCap(x, 5)
	require.True(t, x[0] != x[0])
}

func TestSigmoid(t *testing.T) {
	x := append(randoms(500, 8), 0, 100, -100, 1e30, -1e30)
	got := append([]float32(nil), x...)
	vec.Sigmoid(got)
	for i, v := range x {
		want := 1 / (1 + math.Exp(-float64(v)))
		require.InDelta(t, want, got[i], 3e-7*want+1e-37, v)
	}
}

func TestClampedSwiGLU(t *testing.T) {
	gate, up := randoms(400, 9), randoms(400, 10)
	for i := range gate {
		gate[i], up[i] = 6*gate[i], 6*up[i] // on both sides of the limits
	}
	got := append([]float32(nil), gate...)
	vec.ClampedSwiGLU(got, got, up)
	clamped := 0
	for i := range gate {
		g, u := min(float64(gate[i]), 7), max(-7, min(float64(up[i]), 7))
		if g != float64(gate[i]) || u != float64(up[i]) {
			clamped++
		}
		want := g / (1 + math.Exp(-1.702*g)) * (u + 1)
		require.InDelta(t, want, got[i], 3e-6*math.Abs(want)+1e-6, "gate %v, up %v", gate[i], up[i])
	}
	require.Greater(t, clamped, 50)
	vec.ClampedSwiGLU(got[:1], []float32{float32(math.NaN())}, up)
	require.True(t, got[0] != got[0])
}

func TestSoftmaxSink(t *testing.T) {
	for _, sink := range []float32{-5, 0, 3, 90} {
		x := randoms(100, 11)
		got := append([]float32(nil), x...)
		most := max(float64(vec.Max(x)), float64(sink))
		sum := vec.SoftmaxSink(got, sink)
		want := math.Exp(float64(sink) - most)
		for i, v := range x {
			e := math.Exp(float64(v) - most)
			want += e
			require.InDelta(t, e, got[i], 1e-6*e+1e-37)
		}
		require.InDelta(t, want, sum, 1e-5)
	}
	// A sink that is far below all elements leaves the softmax as it is.
	a, b := randoms(37, 12), randoms(37, 12)
	require.Equal(t, vec.Softmax(a), vec.SoftmaxSink(b, -1000))
	require.Equal(t, a, b)
	require.Equal(t, float32(1), vec.SoftmaxSink(nil, 2))
}
