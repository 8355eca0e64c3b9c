package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// A meter collects the times of equal pieces of work, each shorter than a
// scheduler's time slice. It reports the rate of the lower quartile beside the
// mean: on a machine that others use too, a mean says little.
type meter []time.Duration

func (m *meter) time(f func()) {
	start := time.Now()
	f()
	*m = append(*m, time.Since(start))
}

// report reports work per piece in unit, which is per ns.
func (m meter) report(b *testing.B, work float64, unit string) {
	b.ReportAllocs()
	slices.Sort(m)
	b.ReportMetric(work/float64(m[len(m)/4].Nanoseconds()), unit)
}

var sink uint64

// BenchmarkRead is the bound of a matrix-vector product: reading memory and
// doing nothing with it.
func BenchmarkRead(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			buf := make([]byte, size.bytes)
			for i := range buf {
				buf[i] = byte(i)
			}
			m := make(meter, 0, 1<<16)
			for b.Loop() {
				for p := buf; len(p) > 0; p = p[piece:] {
					m.time(func() { sink += readAll(p[:piece]) })
				}
			}
			m.report(b, piece, "GB/s")
		})
	}
}

var sizes = []struct {
	name  string
	bytes int
}{{"cache", piece}, {"memory", 256 << 20}}

// piece is what is timed at a time, in bytes of weights.
const piece = 512 << 10

// BenchmarkMatVec tells what decoding costs, in bytes of weights, and whether
// interleaving pays.
func BenchmarkMatVec(b *testing.B) {
	const k = 4096
	for _, tc := range allTypes {
		for _, layout := range []Layout{Rows, Panels} {
			if layout == Panels && familyOf(tc.t).panel == nil {
				continue
			}
			for _, size := range sizes {
				name := map[Layout]string{Rows: "rows", Panels: "panels"}[layout]
				b.Run(tc.t.String()+"/"+name+"/"+size.name, func(b *testing.B) {
					rng := rand.New(rand.NewPCG(3, 3))
					w := benchMatrix(rng, tc.t, size.bytes/tc.t.RowBytes(k)&^7, k)
					layOut(w, layout)
					a := actsFor(tc.t, 1, k, randomActs(rng, k))
					dst := make([]float32, w.Rows)
					m := make(meter, 0, 1<<16)
					rows := piece / tc.t.RowBytes(k) &^ 7
					for b.Loop() {
						for r := 0; r+rows <= w.Rows; r += rows {
							m.time(func() { Mul(dst, w.Rows, w, a, r, r+rows) })
						}
					}
					m.report(b, float64(rows*tc.t.RowBytes(k)), "GB/s")
				})
			}
		}
	}
}

// BenchmarkMatMul tells what a prompt costs.
func BenchmarkMatMul(b *testing.B) {
	const rows, k, n = 1024, 4096, 64
	for _, tc := range allTypes {
		for _, layout := range []Layout{Rows, Panels} {
			if layout == Panels && familyOf(tc.t).panel == nil {
				continue
			}
			name := map[Layout]string{Rows: "rows", Panels: "panels"}[layout]
			b.Run(tc.t.String()+"/"+name, func(b *testing.B) {
				rng := rand.New(rand.NewPCG(3, 3))
				w := benchMatrix(rng, tc.t, rows, k)
				layOut(w, layout)
				a := actsFor(tc.t, n, k, randomActs(rng, n*k))
				dst := make([]float32, n*rows)
				m := make(meter, 0, 1<<16)
				const some = 64 // rows in a piece
				for b.Loop() {
					for r := 0; r < rows; r += some {
						m.time(func() { Mul(dst, rows, w, a, r, r+some) })
					}
				}
				m.report(b, 2*some*k*n, "GFLOP/s")
			})
		}
	}
}

// BenchmarkExpanded tells what the kernels for grids are worth: the same product
// takes turns with one of the weights expanded to float32, as types without
// kernels are.
func BenchmarkExpanded(b *testing.B) {
	const k = 4096
	for _, t := range []gguf.Type{gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ3_XXS, gguf.IQ3_S} {
		for _, n := range []int{1, 64} {
			b.Run(fmt.Sprintf("%v/columns=%d", t, n), func(b *testing.B) {
				rng := rand.New(rand.NewPCG(3, 3))
				rows := piece / t.RowBytes(k) &^ 7 / n &^ 7
				w := benchMatrix(rng, t, max(8, rows), k)
				x := randomActs(rng, n*k)
				a, af := actsFor(t, n, k, x), actsFor(gguf.F32, n, k, x)
				dst := make([]float32, n*w.Rows)
				values := make([]float32, w.Rows*k)
				f := &Matrix{Type: gguf.F32, Rows: w.Rows, Cols: k}
				f.Data = unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), 4*len(values))
				m, expanded := make(meter, 0, 1<<16), make(meter, 0, 1<<16)
				for b.Loop() {
					m.time(func() { Mul(dst, w.Rows, w, a, 0, w.Rows) })
					expanded.time(func() {
						if err := dequant.Float32(t, values, w.Data); err != nil {
							b.Fatal(err)
						}
						Mul(dst, w.Rows, f, af, 0, w.Rows)
					})
				}
				m.report(b, float64(len(w.Data)), "GB/s")
				expanded.report(b, float64(len(w.Data)), "expanded-GB/s")
			})
		}
	}
}

func BenchmarkQuantize(b *testing.B) {
	const k = 4096
	for _, t := range []gguf.Type{gguf.F32, gguf.Q4_0, gguf.Q4_K} {
		b.Run(t.String(), func(b *testing.B) {
			x := randomActs(rand.New(rand.NewPCG(3, 3)), k)
			a := actsFor(t, 1, k, x)
			m := make(meter, 0, 1<<20)
			for b.Loop() {
				m.time(func() { a.Quantize(x, 0, 1) })
			}
			m.report(b, 4*k, "GB/s")
		})
	}
}

func BenchmarkInterleave(b *testing.B) {
	const k = 4096
	for _, tc := range allTypes {
		if familyOf(tc.t).panel == nil {
			continue
		}
		b.Run(tc.t.String(), func(b *testing.B) {
			w := benchMatrix(rand.New(rand.NewPCG(3, 3)), tc.t, 8192, k)
			m := make(meter, 0, 1<<16)
			row := w.Type.RowBytes(k)
			for b.Loop() {
				for p := w.Data; len(p) > 0; p = p[64*row:] {
					m.time(func() { Interleave(w.Type, 64, k, p, p) })
				}
			}
			m.report(b, float64(64*row), "GB/s")
		})
	}
}

// benchMatrix repeats a few rows of random weights.
func benchMatrix(rng *rand.Rand, t gguf.Type, rows, cols int) *Matrix {
	few := randomMatrix(rng, t, 16, cols)
	w := &Matrix{Type: t, Rows: rows, Cols: cols, Data: make([]byte, rows*t.RowBytes(cols))}
	for p := w.Data; len(p) > 0; {
		p = p[copy(p, few.Data):]
	}
	return w
}

// layOut gives w a layout. Other weights would be as good but for their scales:
// arithmetic on subnormals is slow.
func layOut(w *Matrix, l Layout) {
	if w.Layout = l; l == Panels {
		Interleave(w.Type, w.Rows, w.Cols, w.Data, w.Data)
	}
}

// readAll is as fast as Go reads memory.
func readAll(p []byte) (sum uint64) {
	for len(p) >= 64 {
		v := (*[8]uint64)(unsafe.Pointer(unsafe.SliceData(p)))
		sum += v[0] ^ v[1] ^ v[2] ^ v[3] ^ v[4] ^ v[5] ^ v[6] ^ v[7]
		p = p[64:]
	}
	return sum
}
