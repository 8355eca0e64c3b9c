package kernel

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allTypes lists the supported types, and how to give a block of random bytes
// scales that a model could have.
var allTypes = []struct {
	t     gguf.Type
	halfs []int // offsets of binary16 scales
}{
	{gguf.F32, nil}, {gguf.F16, nil}, {gguf.BF16, nil},
	{gguf.Q4_0, []int{0}}, {gguf.Q4_1, []int{0, 2}}, {gguf.Q5_0, []int{0}}, {gguf.Q5_1, []int{0, 2}},
	{gguf.Q8_0, []int{0}}, {gguf.IQ4_NL, []int{0}}, {gguf.MXFP4, nil},
	{gguf.Q2_K, []int{80, 82}}, {gguf.Q3_K, []int{108}}, {gguf.Q4_K, []int{0, 2}},
	{gguf.Q5_K, []int{0, 2}}, {gguf.Q6_K, []int{208}}, {gguf.IQ4_XS, []int{0}},
	{gguf.IQ2_XXS, []int{0}}, {gguf.IQ2_XS, []int{0}}, {gguf.IQ2_S, []int{0}},
	{gguf.IQ3_XXS, []int{0}}, {gguf.IQ3_S, []int{0}},
}

func forAllTypes(t *testing.T, f func(t *testing.T, typ gguf.Type)) {
	for _, tc := range allTypes {
		t.Run(tc.t.String(), func(t *testing.T) { f(t, tc.t) })
	}
}

func TestSupported(t *testing.T) {
	want := map[gguf.Type]bool{}
	for _, tc := range allTypes {
		want[tc.t] = true
	}
	for typ := range gguf.Type(64) {
		require.Equal(t, want[typ], Supported(typ), "%v", typ)
	}
	require.False(t, Supported(math.MaxUint32))
}

// rows is a multiple of cols values for every type.
func randomMatrix(rng *rand.Rand, t gguf.Type, rows, cols int) *Matrix {
	w := &Matrix{Type: t, Rows: rows, Cols: cols, Data: make([]byte, rows*t.RowBytes(cols))}
	for i := range w.Data {
		w.Data[i] = byte(rng.Uint32())
	}
	scale := func() float32 { return float32(rng.NormFloat64()) * 0.01 }
	switch t {
	case gguf.F32:
		for i := 0; i < len(w.Data); i += 4 {
			binary.LittleEndian.PutUint32(w.Data[i:], math.Float32bits(scale()))
		}
	case gguf.F16:
		for i := 0; i < len(w.Data); i += 2 {
			binary.LittleEndian.PutUint16(w.Data[i:], dequant.F32ToF16(scale()))
		}
	case gguf.BF16:
		for i := 0; i < len(w.Data); i += 2 {
			binary.LittleEndian.PutUint16(w.Data[i:], uint16(math.Float32bits(scale())>>16))
		}
	case gguf.MXFP4:
		for i := 0; i < len(w.Data); i += 17 {
			w.Data[i] = byte(118 + rng.IntN(12))
		}
	}
	for _, tc := range allTypes {
		if tc.t == t && tc.halfs != nil {
			for b := 0; b < len(w.Data); b += t.BlockBytes() {
				for _, off := range tc.halfs {
					binary.LittleEndian.PutUint16(w.Data[b+off:], dequant.F32ToF16(scale()))
				}
			}
		}
	}
	return w
}

// panels returns w in layout Panels.
func panels(w *Matrix) *Matrix {
	p := *w
	p.Layout, p.Data = Panels, make([]byte, len(w.Data))
	Interleave(w.Type, w.Rows, w.Cols, p.Data, w.Data)
	return &p
}

func randomActs(rng *rand.Rand, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(rng.NormFloat64())
		if rng.IntN(50) == 0 {
			x[i] *= 20 // as models have
		}
	}
	return x
}

func actsFor(t gguf.Type, n, k int, x []float32) *Acts {
	a := new(Acts)
	a.Reset(t, n, k)
	a.Quantize(x, 0, n)
	return a
}

// values returns the numbers that the activations of column c stand for.
func (a *Acts) values(c int) []float64 {
	x := make([]float64, a.k)
	for i := range x {
		switch a.form {
		case formFloat:
			x[i] = float64(a.f32[c*a.k+i])
		case form32:
			off, stride := a.column(c)
			r := a.recs[off+i/32*stride:]
			x[i] = float64(f32At(r, rec32D)) * float64(int8(r[i%32]))
		case form256:
			off, stride := a.column(c)
			r := a.recs[off+i/256*stride:]
			x[i] = float64(f32At(r, rec256D)) * float64(int8(r[i%256]))
		}
	}
	return x
}

// The quantized activations are within half a step of the activations, and the
// product is that of the dequantized weights with them, but for the rounding
// of float32.
func TestMulAgainstFloat64(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		const rows, k, n = 19, 1024, 13 // all kinds of kernels
		rng := rand.New(rand.NewPCG(1, uint64(typ)))
		w, x := randomMatrix(rng, typ, rows, k), randomActs(rng, n*k)
		weights := make([]float32, rows*k)
		require.NoError(t, dequant.Float32(typ, weights, w.Data))
		a := actsFor(typ, n, k, x)
		dst := make([]float32, n*rows)
		Mul(dst, rows, w, a, 0, rows)
		for c := range n {
			act := a.values(c)
			block := map[form]int{formFloat: 1, form32: 32, form256: 256}[a.form]
			for b := 0; b < k; b += block {
				var most float64
				for _, v := range x[c*k+b:][:block] {
					most = max(most, math.Abs(float64(v)))
				}
				for i := b; i < b+block; i++ {
					step := most / 127
					if a.form == formFloat {
						step = 0
					}
					require.InDelta(t, x[c*k+i], act[i], step*0.50001, "value %d of column %d", i, c)
				}
			}
			for r := range rows {
				var want, size float64
				for i, v := range weights[r*k : (r+1)*k] {
					want += float64(v) * act[i]
					size += math.Abs(float64(v) * act[i])
				}
				require.InDelta(t, want, dst[c*rows+r], size*3e-6, "row %d, column %d", r, c)
				require.Greater(t, size, 1e-3, "the test tests nothing")
			}
		}
	})
}

// sameBits compares as bits, but for NaNs, which are all one.
func sameBits(t *testing.T, want, got []float32, what string) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		if math.Float32bits(want[i]) != math.Float32bits(got[i]) && (want[i] == want[i] || got[i] == got[i]) {
			require.Failf(t, "other bits", "%s: value %d: want %v, got %v", what, i, want[i], got[i])
		}
	}
}

// Every layout, number of columns and range of rows gives the bits of the
// portable definition on one column.
func TestSameBits(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		rng := rand.New(rand.NewPCG(2, uint64(typ)))
		unit := max(8, typ.BlockValues())
		for rows := 1; rows <= 17; rows++ {
			blocks := 1 + rng.IntN(5)
			if rows == 16 { // several stretches of the workspace
				blocks = 2*panelBytes/(8*typ.RowBytes(unit)) + 1 + rng.IntN(3)
				if familyOf(typ).form == formFloat {
					blocks = packedFloats/8/unit + 1 + rng.IntN(3)
				}
			}
			k := blocks * unit
			n := 1 + rng.IntN(7)
			switch rows { // where two panels are taken at once
			case 16:
				n = 13
			case 17:
				n = 7
			}
			checkSameBits(t, randomMatrix(rng, typ, rows, k), randomActs(rng, n*k), n)
		}
	})
}

func checkSameBits(t *testing.T, w *Matrix, x []float32, n int) {
	t.Helper()
	want := make([]float32, n*w.Rows)
	for c := range n {
		one := new(Acts)
		one.Reset(w.Type, 1, w.Cols)
		one.quantizeGeneric(x[c*w.Cols:(c+1)*w.Cols], 0)
		mulGeneric(want[c*w.Rows:], w.Rows, w, one, 0, w.Rows)
	}
	matrices := []*Matrix{w}
	if familyOf(w.Type).panel != nil {
		matrices = append(matrices, panels(w))
	}
	const untouched = 12345
	for _, m := range matrices {
		what := fmt.Sprintf("%v layout %d, %d rows, %d columns of %d", w.Type, m.Layout, w.Rows, n, w.Cols)
		a := actsFor(w.Type, n, w.Cols, x)
		got := make([]float32, n*w.Rows)
		mulGeneric(got, w.Rows, m, a, 0, w.Rows)
		sameBits(t, want, got, what+", portable")

		ldd := w.Rows + 3
		wide := make([]float32, n*ldd)
		for i := range wide {
			wide[i] = untouched
		}
		for r := 0; r < w.Rows; r += 16 {
			Mul(wide, ldd, m, a, r, min(r+16, w.Rows))
		}
		for c := range n {
			copy(got[c*w.Rows:(c+1)*w.Rows], wide[c*ldd:])
			for _, v := range wide[c*ldd+w.Rows : (c+1)*ldd] {
				require.Equal(t, float32(untouched), v, "%s wrote between columns", what)
			}
		}
		sameBits(t, want, got, what)
	}
}

// Broken promises panic before a kernel can write anywhere.
func TestMulChecks(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 11))
	w := randomMatrix(rng, gguf.Q4_K, 20, 512)
	a := actsFor(gguf.Q6_K, 3, 512, randomActs(rng, 3*512))
	dst := make([]float32, 60)
	require.NotPanics(t, func() { Mul(dst, 20, w, a, 0, 20) }, "types of one family share activations")
	require.NotPanics(t, func() { Mul(nil, 0, w, a, 8, 8) })
	require.NotPanics(t, func() { Mul(dst[:56], 16, w, a, 0, 16) })
	short := *w
	short.Data = w.Data[1:]
	grid := randomMatrix(rng, gguf.IQ3_S, 24, 512)
	grid.Layout = Panels
	for name, f := range map[string]func(){
		"short weights":              func() { Mul(dst, 20, &short, a, 0, 20) },
		"short destination":          func() { Mul(dst[1:], 20, w, a, 0, 20) },
		"columns overlap":            func() { Mul(dst, 19, w, a, 0, 20) },
		"first row within a panel":   func() { Mul(dst, 20, w, a, 4, 20) },
		"last row within a panel":    func() { Mul(dst, 20, w, a, 0, 12) },
		"row after the last":         func() { Mul(dst, 24, w, a, 0, 24) },
		"rows backwards":             func() { Mul(dst, 20, w, a, 16, 8) },
		"another length":             func() { Mul(dst, 20, w, actsFor(gguf.Q4_K, 3, 256, make([]float32, 768)), 0, 20) },
		"another family":             func() { Mul(dst, 20, w, actsFor(gguf.Q8_0, 3, 512, make([]float32, 1536)), 0, 20) },
		"no activations":             func() { Mul(dst, 20, w, new(Acts), 0, 20) },
		"no panels":                  func() { Mul(make([]float32, 72), 24, grid, a, 0, 24) },
		"no kernel":                  func() { new(Acts).Reset(gguf.IQ1_S, 1, 256) },
		"length not of whole blocks": func() { new(Acts).Reset(gguf.Q4_0, 1, 33) },
	} {
		require.Panics(t, f, name)
	}
}
