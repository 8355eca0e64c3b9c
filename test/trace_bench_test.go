package test

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/pipeline"
)

// BenchmarkTrace tells what a trace costs: how fast one sequence goes on without
// and with one, and the share of the time that it costs. The two take turns, so
// that a machine that becomes slower does it to both, and every turn has an engine
// of its own: how its memory happens to lie makes a difference of some per cent.
// Figures are medians over the turns; only many tell less than a per cent.
func BenchmarkTrace(b *testing.B) {
	if testing.Short() {
		b.Skip("the model takes gigabytes")
	}
	path := benchModel(b, benchShape, "Q4_K_M")
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(benchThreads + 1)) // as pipectl does
	for name, options := range map[string][]pipeline.Option{
		"tensor": {pipeline.WithBuffers(2), pipeline.WithUnit(model.UnitTensor)},
		"layer":  {pipeline.WithBuffers(2), pipeline.WithUnit(model.UnitLayer)},
		"memory": {pipeline.WithPinned(benchShape.Layers + 1)},
	} {
		b.Run(name, func(b *testing.B) {
			options := append(options, pipeline.WithThreads(benchThreads), pipeline.WithContext(512))
			turn := func(options []pipeline.Option) float64 {
				e, err := pipeline.Open(path, options...)
				require.NoError(b, err)
				defer func() { require.NoError(b, e.Close()) }()
				s, err := e.NewSession(0)
				require.NoError(b, err)
				defer s.Close()
				feed(b, s, 32)
				feed(b, s, 1)
				var times []float64
				for range 12 {
					began := time.Now()
					feed(b, s, 1)
					times = append(times, time.Since(began).Seconds())
				}
				return middle(times)
			}
			var off, on []float64
			for i := 0; b.Loop(); i++ {
				if i%2 == 0 {
					off = append(off, turn(options))
					on = append(on, turn(append(options, pipeline.WithTrace())))
				} else {
					on = append(on, turn(append(options, pipeline.WithTrace())))
					off = append(off, turn(options))
				}
			}
			b.ReportMetric(1/middle(off), "tokens/s-off")
			b.ReportMetric(1/middle(on), "tokens/s-on")
			b.ReportMetric(100*(middle(on)/middle(off)-1), "%-cost")
		})
	}
}

// middle is the median of v, which it sorts.
func middle(v []float64) float64 {
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}
