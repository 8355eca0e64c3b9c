package tokenizer_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// mergeByDefinition looks through all neighbours for each merge: the highest
// score, and the leftmost of equal ones.
func mergeByDefinition(parts []string, scores map[string]float32) []string {
	for {
		best := -1
		for i := range len(parts) - 1 {
			s, ok := scores[parts[i]+parts[i+1]]
			if ok && (best < 0 || s > scores[parts[best]+parts[best+1]]) {
				best = i
			}
		}
		if best < 0 {
			return parts
		}
		parts = slices.Replace(parts, best, best+2, parts[best]+parts[best+1])
	}
}

// Vocabularies over two letters, with few distinct scores, so that pairs
// overlap and tie everywhere.
func TestMergeOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	randomWord := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte("ab"[rng.IntN(2)])
		}
		return b.String()
	}
	merges := 0
	for range 300 {
		scores := map[string]float32{"a": -9, "b": -9}
		tokens := []token{{"a", -9, normal}, {"b", -9, normal}}
		for range 12 {
			text := randomWord(2 + rng.IntN(4))
			if _, dup := scores[text]; !dup {
				scores[text] = -float32(rng.IntN(4))
				tokens = append(tokens, token{text, scores[text], normal})
			}
		}
		m := spmMetadata(tokens...)
		m.Set("tokenizer.ggml.add_space_prefix", false)
		tok := build(t, m)
		text := randomWord(1 + rng.IntN(60))
		var got []string
		for _, id := range tok.Encode(text, tokenizer.Options{}) {
			got = append(got, tok.Token(id))
		}
		want := mergeByDefinition(strings.Split(text, ""), scores)
		require.Equal(t, want, got, "%v", tokens)
		merges += len(text) - len(want)
	}
	require.Greater(t, merges, 1000)
}
