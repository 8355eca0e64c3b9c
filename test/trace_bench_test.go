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
// and with one, and the share of time that it costs. The two take turns, so that a
// machine that becomes slower does it to both. Figures are medians of the times of
// tokens; the cost is also told for the fastest tenth, which other programs have
// disturbed least.
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
			var sessions [2]*pipeline.Session // without, with
			for i := range sessions {
				with := slices.Clone(options)
				if i == 1 {
					with = append(with, pipeline.WithTrace())
				}
				e, err := pipeline.Open(path, append(with, pipeline.WithThreads(benchThreads), pipeline.WithContext(512))...)
				require.NoError(b, err)
				defer func() { require.NoError(b, e.Close()) }()
				sessions[i], err = e.NewSession(0)
				require.NoError(b, err)
				defer sessions[i].Close()
				feed(b, sessions[i], 32)
				feed(b, sessions[i], 1)
			}
			const tokens = 4
			var times [2][]float64
			for turn := 0; b.Loop(); turn++ {
				for j := range 2 {
					i := (turn + j) % 2
					s := sessions[i]
					s.Truncate(33)
					feed(b, s, 1) // the slots of an engine that has waited are full
					for range tokens {
						began := time.Now()
						feed(b, s, 1)
						times[i] = append(times[i], time.Since(began).Seconds())
					}
				}
			}
			for i := range times {
				slices.Sort(times[i])
			}
			at := func(i, part int) float64 { return times[i][len(times[i])/part] }
			b.ReportMetric(1/at(0, 2), "tokens/s-off")
			b.ReportMetric(1/at(1, 2), "tokens/s-on")
			b.ReportMetric(100*(at(1, 2)/at(0, 2)-1), "%-cost")
			b.ReportMetric(100*(at(1, 10)/at(0, 10)-1), "%-cost-undisturbed")
		})
	}
}
