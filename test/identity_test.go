package test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
)

// cell is one way to run a model.
type cell struct {
	backend  pipeline.Backend
	buffers  int
	threads  int
	pinned   int
	oneByOne bool
}

func (c cell) String() string {
	cut := "one pass"
	if c.oneByOne {
		cut = "token by token"
	}
	return fmt.Sprintf("%v, %d buffers, %d threads, %d pinned, %s", c.backend, c.buffers, c.threads, c.pinned, cut)
}

func (c cell) logits(ctx context.Context, path string, tokens []int32) ([]float32, error) {
	e, err := pipeline.Open(path, pipeline.WithBackend(c.backend), pipeline.WithBuffers(c.buffers),
		pipeline.WithThreads(c.threads), pipeline.WithPinned(c.pinned), pipeline.WithoutTokenizer())
	if err != nil {
		return nil, err
	}
	defer e.Close()
	s, err := e.NewSession(0)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if !c.oneByOne {
		return s.Feed(ctx, tokens, len(tokens))
	}
	var all []float32
	for i := range tokens {
		row, err := s.Feed(ctx, tokens[i:i+1], 1)
		if err != nil {
			return nil, err
		}
		all = append(all, row...)
	}
	return all, nil
}

// The logits are the same bits in every cell of the matrix.
func TestIdentity(t *testing.T) {
	tokens := []int32{1, 264, 30, 7, 512, 99, 1000, 41, 5, 6, 7, 300, 2, 77, 640, 3}
	want, err := cell{pipeline.Pread, 1, 1, 0, false}.logits(t.Context(), demoModel, tokens)
	require.NoError(t, err)
	require.Len(t, want, len(tokens)*1024)
	for _, backend := range pipeline.Backends() {
		for _, buffers := range []int{1, 2, 3, 5} {
			for _, threads := range []int{1, 2, 3} {
				for _, pinned := range []int{0, 4, 9} {
					for _, oneByOne := range []bool{false, true} {
						c := cell{backend, buffers, threads, pinned, oneByOne}
						got, err := c.logits(t.Context(), demoModel, tokens)
						require.NoError(t, err, c)
						same(t, want, got, c)
					}
				}
			}
		}
	}
}

// A sequence has the same logits when strangers take turns with it, and after a
// part of it was taken back.
func TestIdentitySessions(t *testing.T) {
	tokens := []int32{1, 264, 30, 7, 512, 99}
	want, err := cell{pipeline.Pread, 2, 2, 0, true}.logits(t.Context(), demoModel, tokens)
	require.NoError(t, err)
	e, err := pipeline.Open(demoModel)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	a, err := e.NewSession(0)
	require.NoError(t, err)
	defer a.Close()
	b, err := e.NewSession(0)
	require.NoError(t, err)
	defer b.Close()
	var got []float32
	for i := range tokens {
		_, err := b.Feed(t.Context(), tokens[len(tokens)-1-i:], 0)
		require.NoError(t, err)
		row, err := a.Feed(t.Context(), tokens[i:i+1], 1)
		require.NoError(t, err)
		got = append(got, row...)
		if i == 3 {
			_, err := a.Feed(t.Context(), []int32{9, 8, 7}, 0)
			require.NoError(t, err)
			a.Truncate(4)
		}
	}
	same(t, want, got, "sessions")
}

// same fails at the first logit whose bits differ.
func same(t *testing.T, want, got []float32, what any) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		if want[i] != got[i] {
			require.Failf(t, "logits differ", "%v: logit %d is %v, not %v", what, i, got[i], want[i])
		}
	}
}
