package test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/synth"
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

// Whatever the planner chooses, from the floor to all of the model, by layers
// or by tensors, with a prompt in one pass or in chunks. The budgets begin and
// grow by more than this process itself may grow between two plans: some 8 MiB
// the first time.
func TestIdentityPlanned(t *testing.T) {
	path := synthetic(t, synth.Config{
		Shape: synth.Shape{Layers: 8, Dim: 512, FFN: 1536, Heads: 8, KVHeads: 4, Vocab: 500}, Type: "Q8_0", // 25 MiB
	})
	tokens := make([]int32, 40)
	for i := range tokens {
		tokens[i] = int32(3 + (i*i*7)%490)
	}
	want, err := cell{pipeline.Pread, 1, 1, 0, false}.logits(t.Context(), path, tokens)
	require.NoError(t, err)
	for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
		chunks, pinned := map[int]bool{}, map[int]bool{}
		for extra := int64(0); extra <= 72<<20; extra += 12 << 20 {
			options := []pipeline.Option{pipeline.WithUnit(unit), pipeline.WithMemory(pipeline.MemoryFloor()), pipeline.WithoutTokenizer()}
			if extra > 0 {
				floor, err := pipeline.PlanFor(t.Context(), path, options...)
				require.NoError(t, err)
				options = append(options, pipeline.WithMemory(pipeline.MemoryBytes(floor.Floor+extra)))
			}
			e, err := pipeline.Open(path, options...)
			require.NoError(t, err)
			plan := e.Plan()
			require.LessOrEqual(t, plan.Total, plan.Ceiling)
			chunks[plan.Chunk], pinned[plan.PinnedBlocks] = true, true
			s, err := e.NewSession(0)
			require.NoError(t, err)
			got, err := s.Feed(t.Context(), tokens, len(tokens))
			require.NoError(t, err)
			same(t, want, got, plan)
			s.Close()
			require.NoError(t, e.Close())
		}
		require.Greater(t, len(chunks), 1, "prompts were never cut: %v", chunks)
		require.Greater(t, len(pinned), 2, "the budgets made no difference: %v", pinned)
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

// Sequences that share a pass have the logits that each has alone.
func TestIdentityShared(t *testing.T) {
	e, err := pipeline.Open(demoModel)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	var sequences [][]int32
	var want [][]float32
	for i := range 5 {
		tokens := make([]int32, 1+7*i) // also across a tile's bunches of rows
		for j := range tokens {
			tokens[j] = int32(1 + (i*131+j*17)%1000)
		}
		logits, err := cell{pipeline.Pread, 2, 1, 0, false}.logits(t.Context(), demoModel, tokens)
		require.NoError(t, err)
		sequences, want = append(sequences, tokens), append(want, logits)
	}
	var feeds []pipeline.Feed
	for _, tokens := range sequences {
		s, err := e.NewSession(0)
		require.NoError(t, err)
		defer s.Close()
		feeds = append(feeds, pipeline.Feed{Session: s, Tokens: tokens, Logits: len(tokens)})
	}
	before := e.Stats().Passes
	got, err := e.Feed(t.Context(), feeds...)
	require.NoError(t, err)
	require.EqualValues(t, 1, e.Stats().Passes-before)
	for i := range want {
		same(t, want[i], got[i], i)
	}
	_, err = e.Feed(t.Context(), feeds[0], feeds[0])
	require.ErrorContains(t, err, "twice")
}

// A prompt that is longer than a tile has the logits that its tokens have one by
// one.
func TestIdentityLongPrompt(t *testing.T) {
	tokens := make([]int32, 300)
	for i := range tokens {
		tokens[i] = int32(3 + (i*i*7)%1000)
	}
	whole, err := cell{pipeline.Pread, 2, 2, demoBlocks, false}.logits(t.Context(), demoModel, tokens)
	require.NoError(t, err)
	single, err := cell{pipeline.Pread, 2, 2, demoBlocks, true}.logits(t.Context(), demoModel, tokens)
	require.NoError(t, err)
	same(t, whole, single, "token by token")
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
