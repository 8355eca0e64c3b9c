package pipeline_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// For each actor working, waiting for input and waiting for room add up to the time
// that passed.
func TestTimesAddUp(t *testing.T) {
	for _, buffers := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(buffers, " slots"), func(t *testing.T) {
			e, err := pipeline.Open(demo, pipeline.WithBuffers(buffers))
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			generate(t, e, 1, 1) // all actors run by now

			// The clock is read on both sides of each reading of the meters.
			before := time.Now()
			first := e.Stats()
			between := time.Now()
			stats := generate(t, e, 3, 100)
			then := time.Now()
			last := e.Stats()
			after := time.Now()

			least, most := then.Sub(between), after.Sub(before)
			for name, c := range map[string]stage.Counts{
				"reader":      last.Stream.Reader.Sub(first.Stream.Reader),
				"dequantizer": last.Dequantizer.Sub(first.Dequantizer),
				"compute":     last.Compute.Sub(first.Compute),
			} {
				sum := c.Working + c.WaitingInput + c.WaitingRoom
				require.True(t, sum >= least && sum <= most, "%s: %v in %v to %v", name, sum, least, most)
			}
			require.EqualValues(t, 100, stats.Passes)
			require.LessOrEqual(t, last.Stream.Stall, last.Compute.WaitingInput, "a stall is a wait")
		})
	}
}

// Every block that was asked for was a hit or a miss: each once a pass.
func TestHitsAndMisses(t *testing.T) {
	for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
		for _, pinned := range []int{0, 3, 1000} {
			t.Run(fmt.Sprintf("%s, %d pinned", unit, pinned), func(t *testing.T) {
				e, err := pipeline.Open(demo, pipeline.WithUnit(unit), pipeline.WithBuffers(2), pipeline.WithPinned(pinned))
				require.NoError(t, err)
				defer func() { require.NoError(t, e.Close()) }()
				blocks := int64(len(e.Model().Blocks))
				stats := generate(t, e, 3, 10)
				require.EqualValues(t, 10, stats.Passes)
				require.Equal(t, blocks*stats.Passes, stats.PrefetchHits+stats.PrefetchMisses)
				require.Equal(t, min(int64(pinned), blocks)*(stats.Passes-1), stats.ResidentHits, "a pinned block comes once")
			})
		}
	}
}

// The overlap efficiency is what the longest of the actors takes alone, of the
// time of the passes.
func TestOverlapEfficiency(t *testing.T) {
	e, err := pipeline.Open(demo, pipeline.WithBuffers(1))
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	stats := generate(t, e, 3, 20)
	a := stats.Actors
	longest := max(a.Stream.Reader.Working, a.Dequantizer.Working, a.Compute.Working)
	require.InDelta(t, min(1, longest.Seconds()/(a.Compute.Working+a.Stream.Stall).Seconds()), stats.OverlapEfficiency, 1e-9)
	require.Positive(t, stats.OverlapEfficiency)

	all, err := pipeline.Open(demo, pipeline.WithPinned(1000))
	require.NoError(t, err)
	defer func() { require.NoError(t, all.Close()) }()
	generate(t, all, 1, 1) // everything is in memory
	require.InDelta(t, 1, generate(t, all, 3, 20).OverlapEfficiency, 1e-9, "nothing but arithmetic")

	var none pipeline.GenStats
	for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Tokens: []int32{-1}, Stats: &none}) {
		require.Error(t, err)
	}
	require.Zero(t, none.OverlapEfficiency, "no pass")
}

// slowed loads everything many times.
type slowed struct {
	ioactor.Backend
	times int
}

func (b slowed) Load(ctx context.Context, block *ioactor.Block, s *ring.Slot) error {
	for range b.times {
		if err := b.Backend.Load(ctx, block, s); err != nil {
			return err
		}
		s.Parts = s.Parts[:0]
	}
	return b.Backend.Load(ctx, block, s)
}

// synthetic writes a model of random weights and returns its path.
func synthetic(t *testing.T, shape string, typ synth.Type) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "synthetic.gguf")
	s, err := synth.ParseShape(shape)
	require.NoError(t, err)
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, synth.Write(t.Context(), f, synth.Config{Shape: s, Type: typ, Seed: 1}, nil))
	require.NoError(t, f.Close())
	return path
}

// Statistics and trace say what a run is limited by.
func TestLimiter(t *testing.T) {
	slow := pipeline.NewBackend("slowed", func(paths []string) (ioactor.Backend, error) {
		b, err := ioactor.OpenPread(paths, ioactor.HintNone)
		return slowed{b, 600}, err
	})
	// Expanding writes twelve times what was read, on one core.
	expanding := synthetic(t, "2x512x1024x8x8x512", "Q2_K")

	for name, tc := range map[string]struct {
		path           string
		prompt, tokens int
		options        []pipeline.Option
		want           pipeline.Limiter
	}{
		"slowed reader":         {demo, 1, 3, []pipeline.Option{pipeline.WithBackend(slow)}, pipeline.LimitStorage},
		"slowed kernels":        {demo, 500, 1, []pipeline.Option{pipeline.WithThreads(1)}, pipeline.LimitArithmetic}, // 500 products for each weight
		"expanding dequantizer": {expanding, 1, 20, []pipeline.Option{pipeline.WithFloat32()}, pipeline.LimitDequantize},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := pipeline.Open(tc.path, append(tc.options, pipeline.WithPinned(0), pipeline.WithTrace())...)
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			stats := generate(t, e, tc.prompt, tc.tokens)
			a := stats.Actors
			require.Equal(t, tc.want, stats.Limiter, "read %v, dequantize %v, compute %v", a.Stream.Reader.Working, a.Dequantizer.Working, a.Compute.Working)
			tr := e.Trace()
			passes := tr.Passes()
			require.Len(t, passes, tc.tokens)
			agree := 0 // most of them: who was without a core for a while may limit one
			for _, p := range passes {
				if tr.Analyze(p).Limiter == string(tc.want) {
					agree++
				}
			}
			require.Greater(t, 2*agree, len(passes))
		})
	}
}
