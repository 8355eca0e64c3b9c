package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
)

// ropeFactors are divisors of the frequencies that move the logits by far more
// than rounding does.
func ropeFactors(n int, step float32) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = 1 + step*float32(i)
	}
	return x
}

// logitsOf returns the logits behind all tokens with a context of so many
// positions, by which files with two sets of factors choose.
func logitsOf(t *testing.T, path string, tokens []int32, context int) []float32 {
	e, err := pipeline.Open(path, pipeline.WithContext(context), pipeline.WithoutTokenizer())
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	s, err := e.NewSession(0)
	require.NoError(t, err)
	defer s.Close()
	logits, err := s.Feed(t.Context(), tokens, len(tokens))
	require.NoError(t, err)
	return append([]float32(nil), logits...)
}

// Files of today name the scaling beside the long and the short factors, files of
// before have the factors alone: the logits are the same, and those of the
// reference models are those of the other engine.
func TestLongRopeNamed(t *testing.T) {
	eachReference(t, func(t *testing.T, r reference) {
		if r.Arch != "phi3" {
			return
		}
		file := newRewrite(t, r.model())
		own := false // factors
		for _, s := range file.specs {
			own = own || s.Name == "rope_factors_long.weight"
		}
		if !own {
			file.addFloats("rope_factors_long.weight", ropeFactors(16, 0.5), 16)
			file.addFloats("rope_factors_short.weight", ropeFactors(16, 0.1), 16)
			file.meta.Set("phi3.rope.scaling.original_context_length", uint32(128))
			file.meta.Set("phi3.rope.scaling.attn_factor", float32(1.19))
		}
		before := file.write(t)
		file.meta.Set("phi3.rope.scaling.type", "longrope")
		named := file.write(t)
		for _, context := range []int{64, 128, 256} {
			same(t, logitsOf(t, before, r.Tokens, context), logitsOf(t, named, r.Tokens, context), context)
		}
		if own {
			same(t, logitsOf(t, r.model(), r.Tokens, 256), logitsOf(t, named, r.Tokens, 256), "the reference itself")
			return
		}
		short, long := logitsOf(t, named, r.Tokens, 128), logitsOf(t, named, r.Tokens, 129)
		require.NotEqual(t, short, long, "the context makes no difference")
	})
}

// A llama model may have them too. With a context above the original one it is the
// model whose only factors are the long ones, otherwise that of the short ones.
func TestLongRopeLlama(t *testing.T) {
	const original, half = 100, 16
	tokens := make([]int32, 60)
	for i := range tokens {
		tokens[i] = int32(3 + (i*i*7)%280)
	}
	file := func() *rewrite {
		r := newRewrite(t, committed+"/models/llama-tied-Q8_0.gguf")
		r.meta.Set("llama.rope.scaling.attn_factor", float32(1.1))
		return r
	}
	two := file()
	long, short := ropeFactors(half, 0.5), ropeFactors(half, 0.1)
	two.addFloats("rope_factors_long.weight", long, half)
	two.addFloats("rope_factors_short.weight", short, half)
	two.meta.Set("llama.rope.scaling.type", "longrope")
	two.meta.Set("llama.rope.scaling.original_context_length", uint32(original))
	path := two.write(t)
	for _, tc := range []struct {
		context int
		factors []float32
	}{{original, short}, {original + 1, long}} {
		one := file()
		one.addFloats("rope_freqs.weight", tc.factors, half)
		same(t, logitsOf(t, one.write(t), tokens, tc.context), logitsOf(t, path, tokens, tc.context), tc.context)
	}
}
