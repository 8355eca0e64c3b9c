package kernel

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// run measures f. Beside the mean it reports the best, which says more on a
// machine that others use too; work is what one call does, in a unit per ns.
func run(b *testing.B, work float64, unit string, f func()) {
	b.ReportAllocs()
	best := time.Duration(math.MaxInt64)
	for b.Loop() {
		start := time.Now()
		f()
		best = min(best, time.Since(start))
	}
	b.ReportMetric(work/float64(best.Nanoseconds()), "best-"+unit)
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
			run(b, float64(len(buf)), "GB/s", func() { sink += readAll(buf) })
		})
	}
}

var sizes = []struct {
	name  string
	bytes int
}{{"cache", 256 << 10}, {"memory", 256 << 20}}

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
					w.Layout = layout // the content does not matter
					a := actsFor(tc.t, 1, k, randomActs(rng, k))
					dst := make([]float32, w.Rows)
					run(b, float64(len(w.Data)), "GB/s", func() { Mul(dst, w.Rows, w, a, 0, w.Rows) })
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
				w.Layout = layout
				a := actsFor(tc.t, n, k, randomActs(rng, n*k))
				dst := make([]float32, n*rows)
				run(b, 2*rows*k*n, "GFLOP/s", func() { Mul(dst, rows, w, a, 0, rows) })
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
			run(b, 4*k, "GB/s", func() { a.Quantize(x, 0, 1) })
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
			run(b, float64(len(w.Data)), "GB/s", func() { Interleave(w.Type, w.Rows, w.Cols, w.Data, w.Data) })
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

// readAll is as fast as Go reads memory.
func readAll(p []byte) (sum uint64) {
	for len(p) >= 64 {
		v := (*[8]uint64)(unsafe.Pointer(unsafe.SliceData(p)))
		sum += v[0] ^ v[1] ^ v[2] ^ v[3] ^ v[4] ^ v[5] ^ v[6] ^ v[7]
		p = p[64:]
	}
	return sum
}
