package test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
)

// gridModel makes a model whose weights are mostly points of a grid. The
// references have no IQ2.
func gridModel(t testing.TB, typ synth.Type) string {
	shape := synth.Shape{Layers: 3, Dim: 256, FFN: 512, Heads: 4, KVHeads: 2, Vocab: 500}
	return synthetic(t, synth.Config{Shape: shape, Type: typ, Seed: 3})
}

var gridTokens = []int32{1, 300, 17, 5, 499, 42, 256, 7, 7, 128, 64, 33}

// Products with weights that are points of a grid differ from products with
// their dequantized values by the rounding of the activations to 8 bits, which
// is as large as it is for other types. A sign that is wrong once in a hundred
// times would move the logits by more than a tenth of their size.
func TestGridTypes(t *testing.T) {
	for _, typ := range []synth.Type{"IQ2_XXS", "IQ2_XS", "IQ2_M", "IQ3_XXS", "IQ3_S", "Q6_K"} {
		t.Run(string(typ), func(t *testing.T) {
			path := gridModel(t, typ)
			logits := func(passes int, options ...pipeline.Option) []float32 {
				e, err := pipeline.Open(path, append(options, pipeline.WithKV("f32"))...)
				require.NoError(t, err)
				defer func() { require.NoError(t, e.Close()) }()
				s, err := e.NewSession(0)
				require.NoError(t, err)
				defer s.Close()
				var out []float32
				n := len(gridTokens) / passes
				for i := range passes {
					x, err := s.Feed(t.Context(), gridTokens[i*n:(i+1)*n], n)
					require.NoError(t, err)
					out = append(out, x...)
				}
				return out
			}
			got, want := logits(1), logits(1, pipeline.WithFloat32())
			require.Equal(t, got, logits(len(gridTokens), pipeline.WithBuffers(1)), "token by token")
			var size, difference float64
			for i, v := range want {
				size += float64(v) * float64(v)
				difference += math.Pow(float64(got[i]-v), 2)
			}
			share := math.Sqrt(difference / size)
			t.Logf("moved by %.3g", share)
			require.Less(t, share, 0.05)
			require.Greater(t, share, 0.001, "activations were not rounded")
		})
	}
}
