package vec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/compute/vec"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func randoms(n int, seed uint64) []float32 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	return x
}

// ulps returns how many units in the last place of a float32 near want lie
// between got and want.
func ulps(got float32, want float64) float64 {
	if float64(got) == want || math.IsInf(float64(got), 1) && want > math.MaxFloat32 {
		return 0
	}
	_, e := math.Frexp(want)
	return math.Abs(float64(got)-want) / math.Ldexp(1, max(e-24, -149))
}

func TestDotAddsInEightLanes(t *testing.T) {
	// In lane order the large numbers cancel before the small ones come; in any
	// other order the small ones are lost or survive differently.
	a := []float32{1e8, 1, 2, 3, 1e8, 5, 6, 7, -1e8, 9, 10, 11, -1e8, 13, 14, 15, 0.25}
	ones := make([]float32, len(a))
	for i := range ones {
		ones[i] = 1
	}
	require.Equal(t, float32(96.25), vec.Dot(a, ones))
	require.Zero(t, vec.Dot(nil, nil))
}

func TestDotMatchesExactSum(t *testing.T) {
	for n := range 200 {
		a, b := randoms(n, 1), randoms(n, 2)
		want, size := 0.0, 0.0
		for i := range a {
			want += float64(a[i]) * float64(b[i])
			size += math.Abs(float64(a[i]) * float64(b[i]))
		}
		require.InDelta(t, want, float64(vec.Dot(a, b)), 1e-6*size+1e-30, n)
		h, back := make([]uint16, n), make([]float32, n)
		vec.ToF16(h, b)
		vec.FromF16(back, h)
		require.Equal(t, vec.Dot(a, back), vec.DotF16(a, h), n)
	}
}

func TestEveryHalf(t *testing.T) {
	x := make([]float32, 1)
	h := make([]uint16, 1)
	for i := range 1 << 16 {
		bits := uint16(i)
		vec.FromF16(x, []uint16{bits})
		frac, exponent := float64(bits&0x3ff), int(bits>>10&0x1f)
		want := math.Ldexp(1024+frac, exponent-25)
		switch {
		case exponent == 0:
			want = math.Ldexp(frac, -24)
		case exponent == 31 && frac == 0:
			want = math.Inf(1)
		case exponent == 31:
			want = math.NaN()
		}
		if bits>>15 == 1 {
			want = -want
		}
		vec.ToF16(h, x)
		if math.IsNaN(want) {
			require.True(t, x[0] != x[0], "%#x", bits)
			require.Greater(t, h[0]&0x7fff, uint16(0x7c00), "%#x", bits)
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(float64(x[0])), "%#x", bits)
		require.Equal(t, bits, h[0])
	}
}

func TestToF16RoundsToNearestEven(t *testing.T) {
	// Around every boundary between two neighbouring halves.
	pair := make([]float32, 2)
	got := make([]uint16, 3)
	for i := range uint16(0x7bff) {
		vec.FromF16(pair, []uint16{i, i + 1})
		middle := pair[0] + (pair[1]-pair[0])/2 // exact: a half has 11 bits
		down, up := math.Nextafter32(middle, 0), math.Nextafter32(middle, 1e6)
		vec.ToF16(got, []float32{down, middle, up})
		even := i + i&1
		require.Equal(t, []uint16{i, even, i + 1}, got, "%#x", i)
	}
	vec.ToF16(got, []float32{65519.996, 65520, -math.MaxFloat32})
	require.Equal(t, []uint16{0x7bff, 0x7c00, 0xfc00}, got)
}

func TestExpIsAccurate(t *testing.T) {
	step := uint32(97)
	if testing.Short() {
		step = 9973
	}
	worst := 0.0
	const block = 1000
	x, y := make([]float32, block), make([]float32, block)
	for _, sign := range []uint32{0, 1 << 31} {
		for b := uint32(0); b < math.Float32bits(120); b += step * block {
			for i := range x {
				x[i] = math.Float32frombits(sign | (b + uint32(i)*step))
			}
			vec.Exp(y, x)
			for i := range x {
				u := ulps(y[i], math.Exp(float64(x[i])))
				if u > 1 {
					t.Fatalf("Exp(%g) = %g, %.2f units from %g", x[i], y[i], u, math.Exp(float64(x[i])))
				}
				worst = max(worst, u)
			}
		}
	}
	t.Logf("worst error: %.3f units in the last place", worst)
	require.Greater(t, worst, 0.5, "the sweep should meet results that are hard to round")
}

func TestExpAtTheEdges(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	x := []float32{0, float32(math.Copysign(0, -1)), inf, -inf, 88.72283, 88.7229, 1e30, -103.97, -103.98, -1e30, math.SmallestNonzeroFloat32}
	vec.Exp(x, x)
	require.Equal(t, []float32{1, 1, inf, 0, float32(math.Exp(float64(float32(88.72283)))), inf, inf, math.SmallestNonzeroFloat32, 0, 0, 1}, x)
	x[0] = nan
	vec.Exp(x, x)
	require.True(t, x[0] != x[0])
}

func TestSoftmax(t *testing.T) {
	x := []float32{1, 3, 2, float32(math.Inf(-1)), 3, -200, 1, 1, 2}
	sum := vec.Softmax(x)
	e := func(v float64) float32 { return float32(math.Exp(v)) }
	require.InDeltaSlice(t, []float32{e(-2), 1, e(-1), 0, 1, 0, e(-2), e(-2), e(-1)}, x, 1e-7)
	require.InDelta(t, 2+2*e(-1)+3*e(-2), sum, 1e-6)
	require.Zero(t, vec.Softmax(nil))
	for _, bad := range [][]float32{{float32(math.NaN()), 1}, {1, float32(math.Inf(1))}, {float32(math.Inf(-1))}} {
		sum := vec.Softmax(bad)
		require.True(t, sum != sum)
	}
}

func TestMaxAndArgMax(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		name string
		x    []float32
		max  float32
		arg  int
	}{
		{"empty", nil, -inf, -1},
		{"one", []float32{-3}, -3, 0},
		{"first of equals", []float32{1, 7, 2, 7, 7}, 7, 1},
		{"equals in other lanes", []float32{0, 1, 2, 3, 4, 5, 6, 7, 7, 7}, 7, 7},
		{"zeros", []float32{float32(math.Copysign(0, -1)), 0}, 0, 0},
		{"nothing finite", []float32{-inf, -inf}, -inf, 0},
		{"infinite", []float32{1, inf}, inf, 1},
		{"NaN first", []float32{nan, 1, 2}, nan, -1},
		{"NaN last", []float32{1, 2, nan}, nan, -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := vec.Max(c.x)
			if c.max != c.max {
				require.True(t, m != m)
			} else {
				require.Equal(t, math.Float32bits(c.max), math.Float32bits(m))
			}
			require.Equal(t, c.arg, vec.ArgMax(c.x))
		})
	}
}

func TestElementwise(t *testing.T) {
	const n = 37
	x, y := randoms(n, 1), randoms(n, 2)
	h, back := make([]uint16, n), make([]float32, n)
	vec.ToF16(h, y)
	vec.FromF16(back, h)
	for _, c := range []struct {
		name string
		f    func(dst []float32)
		want func(i int) float64
	}{
		{"Add", func(dst []float32) { vec.Add(dst, y) }, func(i int) float64 { return float64(x[i]) + float64(y[i]) }},
		{"AddScaled", func(dst []float32) { vec.AddScaled(dst, y, 3) }, func(i int) float64 { return float64(x[i]) + 3*float64(y[i]) }},
		{"AddScaledF16", func(dst []float32) { vec.AddScaledF16(dst, h, 3) }, func(i int) float64 { return float64(x[i]) + 3*float64(back[i]) }},
		{"Scale", func(dst []float32) { vec.Scale(dst, 0.3) }, func(i int) float64 { return float64(x[i]) * 0.3 }},
		{"RMSNorm", func(dst []float32) { vec.RMSNorm(dst, dst, y, 1e-5) }, func(i int) float64 {
			sum := 0.0
			for _, v := range x {
				sum += float64(v) * float64(v)
			}
			return float64(x[i]) / math.Sqrt(sum/n+1e-5) * float64(y[i])
		}},
		{"SiLUMul", func(dst []float32) { vec.SiLUMul(dst, dst, y) }, func(i int) float64 {
			return float64(x[i]) / (1 + math.Exp(-float64(x[i]))) * float64(y[i])
		}},
		{"GELUMul", func(dst []float32) { vec.GELUMul(dst, dst, y) }, func(i int) float64 {
			g := float64(x[i])
			return g / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * float64(y[i])
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.Clone(x)
			c.f(got)
			for i := range got {
				require.InDelta(t, c.want(i), got[i], 1e-6*math.Abs(c.want(i))+1e-7, i)
			}
		})
	}
}

func TestGatesSaturate(t *testing.T) {
	gate := []float32{100, -100, 1e30, -1e30, 0}
	up := []float32{2, 2, 2, 2, 2}
	want := []float32{200, 0, 2e30, 0, 0}
	got := make([]float32, len(gate))
	vec.SiLUMul(got, gate, up)
	require.InDeltaSlice(t, want, got, 1e-30)
	vec.GELUMul(got, gate, up)
	require.InDeltaSlice(t, want, got, 1e-30)
}

func TestRopeRotates(t *testing.T) {
	// Quarter turns take (a, b) to (-b, a); half turns to (-a, -b).
	cos, sin := []float32{0, -1}, []float32{1, 0}
	x := []float32{1, 2, 3, 4, 5}
	vec.Rope(x, cos, sin, false)
	require.Equal(t, []float32{-2, 1, -3, -4, 5}, x)
	x = []float32{1, 2, 3, 4, 5}
	vec.Rope(x, cos, sin, true)
	require.Equal(t, []float32{-3, -2, 1, -4, 5}, x)
}

func TestFloat64Functions(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		x := math.Exp(r.Float64()*30-16) * float64(1-2*r.IntN(2)) // to 1e6
		s, c := vec.SinCos64(x)
		require.InDelta(t, math.Sin(x), s, 1e-15, x)
		require.InDelta(t, math.Cos(x), c, 1e-15, x)
		y := r.Float64()*1400 - 700
		require.InEpsilon(t, math.Exp(y), vec.Exp64(y), 1e-15, y)
		z := math.Exp(y)
		require.InDelta(t, 0, (vec.Log64(z)-math.Log(z))/max(1, math.Abs(math.Log(z))), 1e-15, z)
	}
	inf := math.Inf(1)
	for _, c := range []struct{ got, want float64 }{
		{vec.Exp64(inf), inf}, {vec.Exp64(709.79), inf}, {vec.Exp64(-inf), 0}, {vec.Exp64(-746.5), 0}, {vec.Exp64(-745), 5e-324}, {vec.Exp64(0), 1},
		{vec.Log64(0), -inf}, {vec.Log64(inf), inf}, {vec.Log64(1), 0}, {vec.Log64(5e-324), -744.44007192138126231},
	} {
		require.Equal(t, c.want, c.got)
	}
	s, c := vec.SinCos64(inf)
	for _, v := range []float64{s, c, vec.Exp64(math.NaN()), vec.Log64(-1), vec.Log64(math.NaN())} {
		require.True(t, math.IsNaN(v))
	}
}

// Values to 20 digits, from mpmath, so that package math is not the only judge.
func TestFloat64FunctionsAgainstDigits(t *testing.T) {
	for _, c := range []struct{ x, sin, cos float64 }{
		{1000000.0, -0.34999350217129295212, 0.93675212753314478694},
		{123456.789, -0.99866408234322452531, 0.051672532718701382663},
		{999999.5, -0.75625108756167799303, 0.65428150865035093481},
		{0.1, 0.09983341664682815783, 0.99500416527802576554},
		{3.0, 0.1411200080598672221, -0.98999249660044545727},
	} {
		s, cos := vec.SinCos64(c.x)
		require.InDelta(t, c.sin, s, 2e-16)
		require.InDelta(t, c.cos, cos, 2e-16)
		s, cos = vec.SinCos64(-c.x)
		require.InDelta(t, -c.sin, s, 2e-16)
		require.InDelta(t, c.cos, cos, 2e-16)
	}
	require.InEpsilon(t, 13.122363377404328795, vec.Log64(500000), 2e-16)
	require.InEpsilon(t, 0.0052475183991813842765, vec.Exp64(-5.25), 2e-16)
}

// Group's methods are defined by Dot and AddScaled.
func TestGroup(t *testing.T) {
	for _, g := range []vec.Group{
		{Heads: 1, Dim: 64, Len: 9, Stride: 64, Row: 9},
		{Heads: 4, Dim: 128, Len: 70, Stride: 256, Row: 100},
		{Heads: 7, Dim: 80, Len: 5, Stride: 83, Row: 5},
		{Heads: 6, Dim: 21, Len: 3, Stride: 40, Row: 3},
		{Heads: 2, Dim: 96, Len: 0, Stride: 96, Row: 4},
		{Heads: 0, Dim: 96, Len: 8, Stride: 96, Row: 8},
	} {
		t.Run(fmt.Sprintf("%+v", g), func(t *testing.T) {
			queries := randoms(g.Heads*g.Dim, 1)
			keys := randoms(g.Len*g.Stride, 2)
			halves, exact := make([]uint16, len(keys)), make([]float32, len(keys))
			vec.ToF16(halves, keys)
			vec.FromF16(exact, halves)

			scores := randoms(g.Heads*g.Row, 3)
			want := slices.Clone(scores)
			for h := range g.Heads {
				for j := range g.Len {
					want[h*g.Row+j] = vec.Dot(queries[h*g.Dim:][:g.Dim], exact[j*g.Stride:]) * 0.125
				}
			}
			g.ScoresF16(scores, queries, halves, 0.125)
			require.Equal(t, want, scores)
			g.Scores(scores, queries, exact, 0.125)
			require.Equal(t, want, scores)

			out := randoms(g.Heads*g.Dim, 4)
			outF16, wantOut := slices.Clone(out), slices.Clone(out)
			for h := range g.Heads {
				for j := range g.Len {
					vec.AddScaled(wantOut[h*g.Dim:][:g.Dim], exact[j*g.Stride:], scores[h*g.Row+j])
				}
			}
			g.Mix(out, scores, exact)
			require.Equal(t, wantOut, out)
			g.MixF16(outF16, scores, halves)
			require.Equal(t, wantOut, outF16)
		})
	}
}

func TestNothingIsAllocated(t *testing.T) {
	g := vec.Group{Heads: 7, Dim: 83, Len: 300, Stride: 83, Row: 300}
	q, scores, kv, halves := randoms(7*83, 1), randoms(7*300, 2), randoms(300*83, 3), make([]uint16, 300*83)
	require.Zero(t, testing.AllocsPerRun(10, func() {
		g.Scores(scores, q, kv, 0.1)
		g.ScoresF16(scores, q, halves, 0.1)
		g.Mix(q, scores, kv)
		g.MixF16(q, scores, halves)
		vec.Softmax(scores)
		var local [64]float32
		vec.AddScaled(local[:], kv, vec.Dot(local[:], kv))
		vec.Exp(local[:], local[:])
		vec.RMSNorm(local[:], local[:], kv, 1e-6)
	}))
}

func TestGroupBeyondASlice(t *testing.T) {
	x, h := make([]float32, 1000), make([]uint16, 1000)
	fits := vec.Group{Heads: 2, Dim: 16, Len: 10, Stride: 20, Row: 12} // to 32, 22 and 196
	fits.Scores(x[:22], x[:32], x[:196], 1)
	fits.MixF16(x[:32], x[:22], h[:196])
	require.Panics(t, func() { fits.Scores(x[:21], x[:32], x[:196], 1) })
	require.Panics(t, func() { fits.ScoresF16(x[:22], x[:31], h[:196], 1) })
	require.Panics(t, func() { fits.Mix(x[:32], x[:22], x[:195]) })
	for _, negative := range []vec.Group{
		{Heads: -1, Dim: 8, Len: 8, Stride: 8, Row: 8},
		{Heads: 2, Dim: 8, Len: 8, Stride: -8, Row: 8},
		{Heads: 2, Dim: 8, Len: 8, Stride: 8, Row: -8},
	} {
		require.Panics(t, func() { negative.MixF16(x, x, h) })
	}
}
