package test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
)

// In these tests Engine.Close is the check that every slot is home: a ring
// panics when it is closed while a slot is not. That no goroutine stays behind
// is checked when the package's tests end.

var errEnough = errors.New("enough")

// A generation is stopped at every block of its first pass. What follows on the
// same engine is not disturbed: it gets the bits that it would have got.
func TestCancelDuringCompute(t *testing.T) {
	tokens := []int32{1, 264, 30}
	want, err := cell{pipeline.Pread, 2, 2, 0, false}.logits(t.Context(), demoModel, tokens)
	require.NoError(t, err)
	for _, buffers := range []int{1, 2, 3} {
		for _, pinned := range []int{0, 4, demoBlocks} {
			e, err := pipeline.Open(demoModel, pipeline.WithBuffers(buffers), pipeline.WithPinned(pinned))
			require.NoError(t, err)
			for at := 1; at < demoBlocks; at++ {
				ctx, cancel := context.WithCancelCause(t.Context())
				var stats pipeline.GenStats
				for _, err := range e.Generate(ctx, pipeline.GenConfig{
					Tokens: tokens, Stats: &stats, MaxTokens: 10,
					Progress: func(done, _ int) {
						if done == at {
							cancel(errEnough)
						}
					},
				}) {
					require.ErrorIs(t, err, errEnough, "buffers %d, block %d", buffers, at)
				}
				require.Equal(t, "cancelled", stats.StopReason)
				require.Zero(t, stats.GeneratedTokens)

				s, err := e.NewSession(0)
				require.NoError(t, err)
				got, err := s.Feed(t.Context(), tokens, len(tokens))
				require.NoError(t, err)
				same(t, want, got, "after a cancelled pass")
				s.Close()
			}
			require.NoError(t, e.Close())
		}
	}
}

// Between passes and before the first token.
func TestCancelBetweenPasses(t *testing.T) {
	for _, after := range []int{0, 1, 5} {
		e, err := pipeline.Open(demoModel)
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		if after == 0 {
			cancel(errEnough)
		}
		n := 0
		var last error
		var stats pipeline.GenStats
		for _, err := range e.Generate(ctx, pipeline.GenConfig{Prompt: "Once upon a time", Stats: &stats}) {
			if last = err; err != nil {
				break
			}
			if n++; n == after {
				cancel(errEnough)
			}
		}
		cancel(nil)
		require.ErrorIs(t, last, errEnough)
		require.Equal(t, after, n)
		require.Equal(t, after, stats.GeneratedTokens)
		require.Equal(t, "cancelled", stats.StopReason)
		require.NoError(t, e.Close())
	}
}

// Breaking out of the loop is enough to stop a generation.
func TestBreak(t *testing.T) {
	e, err := pipeline.Open(demoModel)
	require.NoError(t, err)
	var stats pipeline.GenStats
	for tok, err := range e.Generate(t.Context(), pipeline.GenConfig{Prompt: "Once upon a time", Stats: &stats}) {
		require.NoError(t, err)
		require.NotEmpty(t, tok.Text)
		break
	}
	require.Equal(t, "cancelled", stats.StopReason)
	require.Equal(t, 1, stats.GeneratedTokens)
	require.NoError(t, e.Close())
}

// An engine can be closed at any time: right after it was opened, while storage
// is slow, and while another goroutine waits for a pass, which then fails.
func TestClose(t *testing.T) {
	t.Run("at once", func(t *testing.T) {
		for range 20 {
			e, err := pipeline.Open(demoModel, pipeline.WithBuffers(3))
			require.NoError(t, err)
			require.NoError(t, e.Close())
		}
	})
	t.Run("while a read hangs and a pass waits for it", func(t *testing.T) {
		for at := 1; at <= 2*demoBlocks; at++ {
			e, blocked := openBlocking(t, at)
			s, err := e.NewSession(0)
			require.NoError(t, err)
			fed := make(chan error, 1)
			go func() {
				var err error
				for err == nil {
					_, err = s.Feed(context.Background(), []int32{1}, 1)
				}
				fed <- err
			}()
			<-blocked
			require.NoError(t, e.Close())
			require.ErrorIs(t, <-fed, pipeline.ErrClosed)
			s.Close()
		}
	})
	t.Run("while a pass computes and all is in memory", func(t *testing.T) {
		e, err := pipeline.Open(demoModel, pipeline.WithPinned(demoBlocks))
		require.NoError(t, err)
		inside, fed := make(chan struct{}), make(chan error, 1)
		go func() {
			var last error
			for _, err := range e.Generate(context.Background(), pipeline.GenConfig{
				Tokens: make([]int32, 100),
				Progress: func(done, _ int) {
					if done == 1 {
						close(inside)
						<-e.Done()
					}
				},
			}) {
				last = err
			}
			fed <- last
		}()
		<-inside
		require.NoError(t, e.Close())
		require.ErrorIs(t, <-fed, pipeline.ErrClosed)
		require.NoError(t, e.Close(), "again")
	})
}
