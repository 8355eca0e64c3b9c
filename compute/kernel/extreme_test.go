package kernel

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

var inf, nan = float32(math.Inf(1)), float32(math.NaN())

// activations are patterns that take arithmetic to its limits.
var activations = []struct {
	name string
	at   func(rng *rand.Rand, i int) float32
}{
	{"zeros", func(*rand.Rand, int) float32 { return 0 }},
	{"negative zeros", func(*rand.Rand, int) float32 { return float32(math.Copysign(0, -1)) }},
	{"all at the positive end", func(*rand.Rand, int) float32 { return 1 }},
	{"all at the negative end", func(*rand.Rand, int) float32 { return -1 }},
	{"alternating ends", func(_ *rand.Rand, i int) float32 { return float32(1 - i&1*2) }},
	{"ends by pairs", func(_ *rand.Rand, i int) float32 { return float32(1 - i&2) }},
	{"either end", func(rng *rand.Rand, _ int) float32 { return float32(rng.IntN(2)*2 - 1) }},
	{"smallest subnormals", func(rng *rand.Rand, _ int) float32 { return float32(rng.IntN(3)-1) * 0x1p-149 }},
	{"subnormals", func(rng *rand.Rand, _ int) float32 { return float32(rng.NormFloat64()) * 0x1p-130 }},
	{"around the least scale with a reciprocal", func(rng *rand.Rand, _ int) float32 { return float32(rng.NormFloat64()) * 0x1p-122 }},
	{"largest", func(rng *rand.Rand, _ int) float32 { return math.MaxFloat32 * (rng.Float32() - 0.5) * 2 }},
	{"halves", func(_ *rand.Rand, i int) float32 { return float32(i%255-127) / 2 }}, // ties, where 127 is in the block
	{"ties", func(_ *rand.Rand, i int) float32 {
		if i%32 == 0 {
			return 127
		}
		return float32(i%32) - 15.5
	}},
	{"all exponents", func(rng *rand.Rand, _ int) float32 {
		return math.Float32frombits(rng.Uint32()&0x807fffff | uint32(rng.IntN(255))<<23)
	}},
	{"a NaN", func(_ *rand.Rand, i int) float32 {
		if i == 37 {
			return nan
		}
		return float32(i)
	}},
	{"an infinity", func(_ *rand.Rand, i int) float32 {
		if i == 50 {
			return -inf
		}
		return float32(i)
	}},
	{"all NaN", func(*rand.Rand, int) float32 { return nan }},
	{"any bits", func(rng *rand.Rand, _ int) float32 { return math.Float32frombits(rng.Uint32()) }},
}

// Whatever the bytes, all kernels agree, and nothing crashes.
func TestExtremes(t *testing.T) {
	weights := []struct {
		name string
		at   func(rng *rand.Rand) byte
	}{
		{"00", func(*rand.Rand) byte { return 0 }},
		{"ff", func(*rand.Rand) byte { return 0xff }},
		{"80", func(*rand.Rand) byte { return 0x80 }},
		{"7f", func(*rand.Rand) byte { return 0x7f }},
		{"any", func(rng *rand.Rand) byte { return byte(rng.Uint32()) }},
	}
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		for _, weight := range weights {
			for _, act := range activations {
				for _, sane := range []bool{true, false} { // scales
					if !sane && weight.name != "any" {
						continue
					}
					t.Run(weight.name+"/"+act.name, func(t *testing.T) {
						rng := rand.New(rand.NewPCG(5, 5))
						const rows, n = 17, 13
						k := max(64, typ.BlockValues())
						w := randomMatrix(rng, typ, rows, k)
						scales := *w
						scales.Data = append([]byte(nil), w.Data...)
						for i := range w.Data {
							w.Data[i] = weight.at(rng)
						}
						if sane {
							keepScales(w, &scales)
						}
						x := make([]float32, n*k)
						for i := range x {
							x[i] = act.at(rng, i%k)
						}
						checkSameBits(t, w, x, n)
					})
				}
			}
		}
	})
}

// keepScales gives w the binary16 scales of from.
func keepScales(w, from *Matrix) {
	for _, tc := range allTypes {
		if tc.t != w.Type {
			continue
		}
		for b := 0; b < len(w.Data); b += tc.t.BlockBytes() {
			for _, off := range tc.halfs {
				copy(w.Data[b+off:][:2], from.Data[b+off:])
			}
		}
	}
}

// A product at the ends of the ranges of weights and activations is what
// integers say it is: no intermediate sum overflows.
func TestLargestSums(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		if familyOf(typ).form == formFloat {
			t.Skip("no integers")
		}
		const k = 256
		for _, b := range []byte{0x00, 0x7f, 0x80, 0xff} {
			for _, sign := range []float32{1, -1} {
				const rows = 24 // two panels at once, and one
				w := &Matrix{Type: typ, Rows: rows, Cols: k, Data: make([]byte, rows*typ.RowBytes(k))}
				for i := range w.Data {
					w.Data[i] = b
				}
				one := *w
				one.Data = make([]byte, len(w.Data))
				for i := 0; i < len(w.Data); i += 2 {
					binary.LittleEndian.PutUint16(one.Data[i:], dequant.F32ToF16(1))
				}
				keepScales(w, &one)
				if typ == gguf.MXFP4 {
					for i := 0; i < len(w.Data); i += 17 {
						w.Data[i] = 127
					}
				}
				weights := make([]float32, rows*k)
				require.NoError(t, dequant.Float32(typ, weights, w.Data))
				var want float64
				for _, v := range weights[:k] {
					want += float64(v) * float64(sign) * 127
				}
				x := make([]float32, 2*group*k)
				for i := range x {
					x[i] = sign * 127 // so that the scale is 1
				}
				for n := 1; n <= 2*group; n++ {
					dst := make([]float32, rows*n)
					Mul(dst, rows, w, actsFor(typ, n, k, x[:n*k]), 0, rows)
					for _, v := range dst {
						require.InEpsilon(t, 1+want, 1+float64(v), 1e-6, "weight bytes %x", b)
					}
				}
			}
		}
	})
}

// Every point of a grid, with all kinds of signs and the largest scale, gives
// exactly what the dequantized weights give, also with the activations that make
// the most of a row.
func TestGridPoints(t *testing.T) {
	fill := func(p []byte, b byte) {
		for i := range p {
			p[i] = b
		}
	}
	for _, tc := range []struct {
		t      gguf.Type
		points int
		set    func(block []byte, point int)
	}{
		{gguf.IQ2_XXS, 256, func(b []byte, point int) {
			for i := 2; i < 66; i += 8 {
				fill(b[i:i+4], byte(point))
				b[i+7] |= 0xf0
			}
		}},
		{gguf.IQ2_XS, 512, func(b []byte, point int) {
			for i := 2; i < 66; i += 2 {
				b[i] = byte(point)
				b[i+1] = b[i+1]&^1 | byte(point>>8)
			}
			fill(b[66:], 0xff)
		}},
		{gguf.IQ2_S, 1024, func(b []byte, point int) {
			fill(b[2:34], byte(point))
			fill(b[66:74], byte(point>>8)*0x55)
			fill(b[74:], 0xff)
		}},
		{gguf.IQ3_XXS, 256, func(b []byte, point int) {
			fill(b[2:66], byte(point))
			for i := 69; i < 98; i += 4 {
				b[i] |= 0xf0
			}
		}},
		{gguf.IQ3_S, 512, func(b []byte, point int) {
			fill(b[2:66], byte(point))
			fill(b[66:74], -byte(point>>8))
			fill(b[106:110], 0xff)
		}},
	} {
		t.Run(tc.t.String(), func(t *testing.T) {
			const rows, k = 8, 256
			rng := rand.New(rand.NewPCG(13, uint64(tc.t)))
			for point := range tc.points {
				w := randomMatrix(rng, tc.t, rows, k)
				for b := w.Data; len(b) > 0; b = b[tc.t.BlockBytes():] {
					binary.LittleEndian.PutUint16(b, dequant.F32ToF16(1))
					tc.set(b, point)
				}
				weights := make([]float32, rows*k)
				require.NoError(t, dequant.Float32(tc.t, weights, w.Data))
				x := make([]float32, rows*k) // column c makes the most of row c
				for i, v := range weights {
					x[i] = float32(math.Copysign(127, float64(v)))
				}
				for n := 1; n <= rows; n++ {
					dst := make([]float32, n*rows)
					Mul(dst, rows, w, actsFor(tc.t, n, k, x[:n*k]), 0, rows)
					for i, got := range dst {
						var want float64
						for j, v := range weights[i%rows*k:][:k] {
							want += float64(v) * float64(x[i/rows*k+j])
						}
						require.Equal(t, float32(want), got, "point %d, row %d, column %d", point, i%rows, i/rows)
					}
				}
			}
		})
	}
}

// What is not finite makes the products of its own column NaN, and no others.
func TestNotFinite(t *testing.T) {
	forAllTypes(t, func(t *testing.T, typ gguf.Type) {
		const rows, k, n = 11, 512, 6
		for _, bad := range []float32{nan, inf, -inf} {
			rng := rand.New(rand.NewPCG(6, 6))
			w, x := randomMatrix(rng, typ, rows, k), randomActs(rng, n*k)
			x[3*k+100] = bad
			dst := make([]float32, n*rows)
			Mul(dst, rows, w, actsFor(typ, n, k, x), 0, rows)
			for c := range n {
				for r := range rows {
					v := float64(dst[c*rows+r])
					if c == 3 {
						require.True(t, math.IsNaN(v) || math.IsInf(v, 0), "row %d: %v", r, v)
					} else {
						require.False(t, math.IsNaN(v) || math.IsInf(v, 0), "row %d, column %d: %v", r, c, v)
					}
				}
			}
		}
	})
}
