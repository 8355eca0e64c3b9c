package vec_test

import (
	"fmt"
	"testing"

	"github.com/layerpipe/layerpipe/compute/vec"
)

// BenchmarkElementwise decides which function deserves more work: beside the
// products of a layer, all of them together should take a few percent.
func BenchmarkElementwise(b *testing.B) {
	const n = 4096
	dst, x, y, h := make([]float32, n), randoms(n, 1), randoms(n, 2), make([]uint16, n)
	for _, c := range []struct {
		name  string
		bytes int // moved for an element
		f     func()
	}{
		{"Dot", 8, func() { vec.Dot(x, y) }},
		{"DotF16", 6, func() { vec.DotF16(x, h) }},
		{"Add", 12, func() { vec.Add(dst, x) }},
		{"AddScaled", 12, func() { vec.AddScaled(dst, x, 0.5) }},
		{"AddScaledF16", 10, func() { vec.AddScaledF16(dst, h, 0.5) }},
		{"Scale", 8, func() { vec.Scale(dst, 1) }},
		{"RMSNorm", 16, func() { vec.RMSNorm(dst, x, y, 1e-5) }},
		{"Exp", 8, func() { vec.Exp(dst, x) }},
		{"Softmax", 12, func() { vec.Softmax(dst) }},
		{"Max", 4, func() { vec.Max(x) }},
		{"ArgMax", 4, func() { vec.ArgMax(x) }},
		{"SiLUMul", 12, func() { vec.SiLUMul(dst, x, y) }},
		{"GELUMul", 12, func() { vec.GELUMul(dst, x, y) }},
		{"Rope/pairs", 12, func() { vec.Rope(dst, x[:n/2], y[:n/2], false) }},
		{"Rope/halves", 12, func() { vec.Rope(dst, x[:n/2], y[:n/2], true) }},
		{"FromF16", 6, func() { vec.FromF16(dst, h) }},
		{"ToF16", 6, func() { vec.ToF16(h, x) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(n * c.bytes))
			for b.Loop() {
				c.f()
			}
			b.ReportMetric(float64(n)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "elem/ns")
		})
	}
}

// BenchmarkGroup decides how attention is divided: a key or value should cost
// less the more heads share it, and halves less than floats. MB/s are of keys
// or values; 2048 of them are more than the first-level cache holds.
func BenchmarkGroup(b *testing.B) {
	const dim, length = 128, 2048
	kv := randoms(length*dim, 1)
	halves := make([]uint16, len(kv))
	vec.ToF16(halves, kv)
	for _, heads := range []int{1, 2, 4, 8} {
		g := vec.Group{Heads: heads, Dim: dim, Len: length, Stride: dim, Row: length}
		q, scores := randoms(heads*dim, 2), randoms(heads*length, 3)
		for _, c := range []struct {
			name string
			size int
			f    func()
		}{
			{"Scores", 4, func() { g.Scores(scores, q, kv, 0.1) }},
			{"ScoresF16", 2, func() { g.ScoresF16(scores, q, halves, 0.1) }},
			{"Mix", 4, func() { g.Mix(q, scores, kv) }},
			{"MixF16", 2, func() { g.MixF16(q, scores, halves) }},
		} {
			b.Run(fmt.Sprintf("%s/heads=%d", c.name, heads), func(b *testing.B) {
				b.SetBytes(int64(c.size * dim * length))
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(2*float64(heads*dim*length)*float64(b.N)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
			})
		}
	}
}
