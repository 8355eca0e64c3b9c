package vec_test

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute/vec"
)

// An operation calls one function of the package on slices that end where
// memory ends, and returns what it wrote.
type operation struct {
	name    string
	run     func(in *inputs) []float32
	grouped bool // it uses group and what follows in inputs
}

// inputs are vectors of n elements. The functions may write to a.
type inputs struct {
	a, b, c []float32
	h       []uint16
	s       float32
	group   vec.Group
	wide    []float32 // keys or values of group
	wideF16 []uint16
}

func one(x float32) []float32 { return []float32{x} }

var operations = []operation{
	{"Dot", func(in *inputs) []float32 { return one(vec.Dot(in.a, in.b)) }, false},
	{"DotF16", func(in *inputs) []float32 { return one(vec.DotF16(in.a, in.h)) }, false},
	{"Add", func(in *inputs) []float32 { vec.Add(in.a, in.b); return in.a }, false},
	{"AddScaled", func(in *inputs) []float32 { vec.AddScaled(in.a, in.b, in.s); return in.a }, false},
	{"AddScaledF16", func(in *inputs) []float32 { vec.AddScaledF16(in.a, in.h, in.s); return in.a }, false},
	{"Scale", func(in *inputs) []float32 { vec.Scale(in.a, in.s); return in.a }, false},
	{"RMSNorm", func(in *inputs) []float32 { vec.RMSNorm(in.a, in.b, in.c, 1e-5); return in.a }, false},
	{"Exp", func(in *inputs) []float32 { vec.Exp(in.a, in.b); return in.a }, false},
	{"Softmax", func(in *inputs) []float32 { s := vec.Softmax(in.a); return append(slices.Clone(in.a), s) }, false},
	{"SiLUMul", func(in *inputs) []float32 { vec.SiLUMul(in.a, in.b, in.c); return in.a }, false},
	{"GELUMul", func(in *inputs) []float32 { vec.GELUMul(in.a, in.b, in.c); return in.a }, false},
	{"ClampedSwiGLU", func(in *inputs) []float32 { vec.ClampedSwiGLU(in.a, in.b, in.c); return in.a }, false},
	{"SoftCap", func(in *inputs) []float32 { vec.SoftCap(in.a, 3); return in.a }, false},
	{"Sigmoid", func(in *inputs) []float32 { vec.Sigmoid(in.a); return in.a }, false},
	{"SoftmaxSink", func(in *inputs) []float32 { s := vec.SoftmaxSink(in.a, in.s); return append(slices.Clone(in.a), s) }, false},
	{"Rope pairs", func(in *inputs) []float32 {
		n := len(in.a) / 2
		vec.Rope(in.a, in.b[len(in.b)-n:], in.c[len(in.c)-n:], false)
		return in.a
	}, false},
	{"Rope halves", func(in *inputs) []float32 {
		n := len(in.a) / 2
		vec.Rope(in.a, in.b[len(in.b)-n:], in.c[len(in.c)-n:], true)
		return in.a
	}, false},
	{"FromF16", func(in *inputs) []float32 { vec.FromF16(in.a, in.h); return in.a }, false},
	{"ToF16", func(in *inputs) []float32 {
		vec.ToF16(in.h, in.a)
		bits := make([]float32, len(in.h))
		for i, h := range in.h {
			bits[i] = float32(h)
			if h&0x7fff > 0x7c00 {
				bits[i] = -1 // any NaN
			}
		}
		return bits
	}, false},
	{"Max", func(in *inputs) []float32 { return one(vec.Max(in.a)) }, false},
	{"ArgMax", func(in *inputs) []float32 { return one(float32(vec.ArgMax(in.a))) }, false},
	{"Scores", func(in *inputs) []float32 { in.group.Scores(in.b, in.a, in.wide, in.s); return in.b }, true},
	{"ScoresF16", func(in *inputs) []float32 { in.group.ScoresF16(in.b, in.a, in.wideF16, in.s); return in.b }, true},
	{"Mix", func(in *inputs) []float32 { in.group.Mix(in.a, in.b, in.wide); return in.a }, true},
	{"MixF16", func(in *inputs) []float32 { in.group.MixF16(in.a, in.b, in.wideF16); return in.a }, true},
}

// Bits as they came out on amd64. Another machine must find the same.
func TestGoldenBits(t *testing.T) {
	golden := map[string]uint64{
		"SoftmaxSink":   0x25ce88f72658cf3d,
		"Sigmoid":       0xa37666e6ad57b33c,
		"SoftCap":       0x9a6301f9e255125c,
		"ClampedSwiGLU": 0xc00a5fd77b15a309,
		"Dot":           0x7de5fb606182566b,
		"DotF16":        0x0aed6e3d05d7c10c,
		"Add":           0x706e6fc27a845e9f,
		"AddScaled":     0x4b4aef59f039d65d,
		"AddScaledF16":  0x84ebb821c0da7a7c,
		"Scale":         0x76aa1d2041fae958,
		"RMSNorm":       0xa361b9a55a56eaad,
		"Exp":           0xa39422d2a8329a5f,
		"Softmax":       0xafb9439909a25fd6,
		"SiLUMul":       0xe9518f9bd79b354e,
		"GELUMul":       0xba53eeecd08a9f6a,
		"Rope pairs":    0xa82c7a344b82e057,
		"Rope halves":   0x3c873fd41dfdf3a9,
		"FromF16":       0x46b92ef7ae9c3670,
		"ToF16":         0xb510d212fcaabbe4,
		"Max":           0x7063787f76c8f68a,
		"ArgMax":        0xe5deafb542540f72,
		"Scores":        0xd5eedfa8506dd527,
		"ScoresF16":     0xec5f9f4e019d8c49,
		"Mix":           0x2168fefbeb25e3ea,
		"MixF16":        0x63c17ef65e7592f7,
	}
	for _, op := range operations {
		sum := fnv.New64a()
		for n := range 70 {
			// Uniform numbers are made by exact operations; normal ones are not.
			r := rand.New(rand.NewPCG(uint64(n), 3))
			uniform := func(n int) []float32 {
				x := make([]float32, n)
				for i := range x {
					x[i] = 16*r.Float32() - 8
				}
				return x
			}
			in := inputs{a: uniform(n), b: uniform(n), c: uniform(n), h: make([]uint16, n), s: 0.37}
			vec.ToF16(in.h, in.b)
			if op.grouped {
				g := vec.Group{Heads: n / 10, Dim: 8 + n, Len: n % 10, Stride: 9 + n, Row: n%10 + 1}
				in.group, in.a, in.b, in.wide = g, uniform(g.Heads*g.Dim), uniform(g.Heads*g.Row), uniform(g.Len*g.Stride)
				in.wideF16 = make([]uint16, len(in.wide))
				vec.ToF16(in.wideF16, in.wide)
			}
			require.NoError(t, binary.Write(sum, binary.LittleEndian, op.run(&in)))
		}
		require.Equal(t, golden[op.name], sum.Sum64(), "%s: %#x", op.name, sum.Sum64())
	}
}

func TestGoldenExp(t *testing.T) {
	for _, c := range []struct {
		x    float32
		bits uint32
	}{
		{0.1, 0x3f8d763e},
		{1, 0x402df854},
		{-1, 0x3ebc5ab2},
		{0.34657359, 0x3fb504f3},
		{-0.34657360, 0x3f3504f3},
		{2.5, 0x4142eb7f},
		{10, 0x46ac14ee},
		{-10, 0x383e6bce},
		{50.123, 0x639eece1},
		{88.722, 0x7f7fc90a},
		{-87.3365, 0x00800166},
		{-90.5, 0x00056969},
		{-103.9, 0x00000001},
	} {
		y := one(c.x)
		vec.Exp(y, y)
		require.Equal(t, c.bits, math.Float32bits(y[0]), "exp(%g) = %#x", c.x, math.Float32bits(y[0]))
	}
}
