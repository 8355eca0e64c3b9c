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
	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// For each actor working and waiting add up to the time that passed, and every
// block that was asked for was a hit or a miss.
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
			blocks := int64(len(e.Model().Blocks))
			require.EqualValues(t, 100, stats.Passes)
			require.Equal(t, blocks*stats.Passes, stats.PrefetchHits+stats.PrefetchMisses)
			require.LessOrEqual(t, last.Stream.Stall, last.Compute.WaitingInput, "a stall is a wait")
		})
	}
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

func TestLimiter(t *testing.T) {
	slow := pipeline.NewBackend("slowed", func(paths []string) (ioactor.Backend, error) {
		b, err := ioactor.OpenPread(paths, ioactor.HintNone)
		return slowed{b, 600}, err
	})
	// Expanding writes twelve times what was read, on one core.
	expanding := filepath.Join(t.TempDir(), "q2.gguf")
	shape, err := synth.ParseShape("2x1024x2048x8x8x512")
	require.NoError(t, err)
	kind, err := synth.ParseType("Q2_K")
	require.NoError(t, err)
	f, err := os.Create(expanding)
	require.NoError(t, err)
	require.NoError(t, synth.Write(t.Context(), f, synth.Config{Shape: shape, Type: kind, Seed: 1}, func(_, _ int64) {}))
	require.NoError(t, f.Close())

	for want, tc := range map[pipeline.Limiter]struct {
		path           string
		prompt, tokens int
		options        []pipeline.Option
	}{
		pipeline.LimitStorage:    {demo, 1, 3, []pipeline.Option{pipeline.WithBackend(slow)}},
		pipeline.LimitArithmetic: {demo, 500, 1, nil},
		pipeline.LimitDequantize: {expanding, 1, 3, []pipeline.Option{pipeline.WithFloat32()}},
	} {
		t.Run(string(want), func(t *testing.T) {
			e, err := pipeline.Open(tc.path, append(tc.options, pipeline.WithPinned(0))...)
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			stats := generate(t, e, tc.prompt, tc.tokens)
			a := stats.Actors
			require.Equal(t, want, stats.Limiter, "read %v, dequantize %v, compute %v", a.Stream.Reader.Working, a.Dequantizer.Working, a.Compute.Working)
			t.Logf("read %v, dequantize %v, compute %v", a.Stream.Reader.Working, a.Dequantizer.Working, a.Compute.Working)
		})
	}
}
