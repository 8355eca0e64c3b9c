package test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/pipeline"
)

// identityTokens is more than a tile, so that a prompt is cut within a pass, and
// far more than the reference models' windows.
const identityTokens = 150

// The models that come with the repository are of every architecture that can be
// run, so that identity and golden hashes cover them all wherever the tests run.
func TestCommittedArchitectures(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range references(t, committed) {
		m, err := gguf.Open(r.model())
		require.NoError(t, err)
		arch, _, err := gguf.Get[string](m.Metadata, "general.architecture")
		require.NoError(t, err)
		require.NotEqual(t, "F32", r.Type, "identity leaves such models out")
		seen[arch] = true
	}
	require.Equal(t, model.Architectures(), slices.Sorted(maps.Keys(seen)))
}

// For one reference model of each kind the logits are the same bits in one pass and token
// by token, by layers and by tensors, with one thread and two, streamed and
// pinned, and in the company of others.
func TestIdentityArchitectures(t *testing.T) {
	seen := map[string]bool{}
	eachReference(t, func(t *testing.T, r reference) {
		kind, _, _ := strings.Cut(r.Model, "-")
		if seen[kind] || r.Type == "F32" {
			return
		}
		seen[kind] = true
		tokens := make([]int32, identityTokens)
		for i := range tokens {
			tokens[i] = int32(3 + (i*i*7+i/40)%(r.Vocab-3))
		}
		want := make(map[bool][]float32) // by whether the weights are expanded
		for _, float := range []bool{false, true} {
			for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
				for _, threads := range []int{1, 2} {
					options := []pipeline.Option{pipeline.WithUnit(unit), pipeline.WithThreads(threads), pipeline.WithoutTokenizer()}
					if float {
						options = append(options, pipeline.WithFloat32())
					}
					if threads == 2 {
						options = append(options, pipeline.WithBuffers(3), pipeline.WithPinned(2))
					}
					e, err := pipeline.Open(r.model(), options...)
					require.NoError(t, err)
					for name, logits := range waysToFeed(t, e, tokens) {
						if want[float] == nil {
							want[float] = logits
						}
						same(t, want[float], logits, fmt.Sprintf("float %v, unit %v, %d threads, %s", float, unit, threads, name))
					}
					require.NoError(t, e.Close())
				}
			}
		}
	})
}

// waysToFeed returns the logits of tokens in one pass, in passes of different
// lengths, and in a pass with two strangers.
func waysToFeed(t *testing.T, e *pipeline.Engine, tokens []int32) map[string][]float32 {
	sessions := make([]*pipeline.Session, 5)
	for i := range sessions {
		s, err := e.NewSession(256)
		require.NoError(t, err)
		defer s.Close()
		sessions[i] = s
	}
	feed := func(s *pipeline.Session, tokens []int32) []float32 {
		logits, err := s.Feed(t.Context(), tokens, len(tokens))
		require.NoError(t, err)
		return append([]float32(nil), logits...)
	}
	ways := map[string][]float32{"one pass": feed(sessions[0], tokens)}
	var cut []float32
	for i := 0; i < len(tokens); {
		n := min(len(tokens)-i, 1)
		if i >= 20 { // one by one at first, past a window, then by more and more
			n = min(len(tokens)-i, i/7)
		}
		cut = append(cut, feed(sessions[1], tokens[i:i+n])...)
		i += n
	}
	ways["several passes"] = cut
	got, err := e.Feed(t.Context(),
		pipeline.Feed{Session: sessions[2], Tokens: tokens[20:60], Logits: 1},
		pipeline.Feed{Session: sessions[3], Tokens: tokens, Logits: len(tokens)},
		pipeline.Feed{Session: sessions[4], Tokens: tokens[:1], Logits: 1})
	require.NoError(t, err)
	ways["with strangers"] = append([]float32(nil), got[1]...)
	return ways
}

// Decoding allocates nothing in any architecture once its buffers have grown.
func TestAllocationsArchitectures(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, r := range references(t, committed) {
		for _, options := range [][]pipeline.Option{nil, {pipeline.WithFloat32()}, {pipeline.WithUnit(model.UnitTensor)}} {
			e, err := pipeline.Open(r.model(), append(options, pipeline.WithoutTokenizer())...)
			require.NoError(t, err)
			s, err := e.NewSession(0)
			require.NoError(t, err)
			token := []int32{42}
			n := testing.AllocsPerRun(50, func() {
				token[0] = (token[0]*7 + 5) % int32(r.Vocab)
				_, err = s.Feed(t.Context(), token, 1)
			})
			require.NoError(t, err)
			require.Zero(t, n, "allocations for a token of %s", r.Name)
			s.Close()
			require.NoError(t, e.Close())
		}
	}
}
