package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/pipeline"
)

// Files of today have the matrix that makes keys and values of a latent in two
// parts, the first of them transposed, and cache the latent. The model is the
// same.
func TestLatentAbsorbed(t *testing.T) {
	eachReference(t, func(t *testing.T, r reference) {
		if r.Arch != "deepseek2" {
			return
		}
		file := newRewrite(t, r.model())
		m, err := model.New(file.f)
		require.NoError(t, err)
		plain, rank := m.HeadDim-m.Rope.Dim, m.KVRank
		for _, ten := range m.File.Tensors {
			layer, ok := strings.CutSuffix(ten.Name, "attn_kv_b.weight")
			if !ok {
				continue
			}
			both := make([]float32, rank*ten.Rows())
			require.NoError(t, dequant.Float32(ten.Type, both, file.data[ten.Name]))
			var keys, values []float32
			for h := range m.Heads {
				of := both[h*(plain+m.VDim)*rank:][:(plain+m.VDim)*rank]
				for c := range rank {
					for k := range plain {
						keys = append(keys, of[k*rank+c])
					}
				}
				values = append(values, of[plain*rank:]...)
			}
			file.remove(ten.Name)
			file.addFloats(layer+"attn_k_b.weight", keys, plain, rank, m.Heads)
			file.addFloats(layer+"attn_v_b.weight", values, rank, m.VDim, m.Heads)
		}
		for key, v := range map[string]int{
			"head_count_kv": 1, "key_length": rank + m.Rope.Dim, "value_length": rank, "key_length_mla": m.HeadDim, "value_length_mla": m.VDim,
		} {
			file.meta.Set("deepseek2.attention."+key, uint32(v))
		}
		path := file.write(t)

		logits := func(path string) []float32 {
			e, err := pipeline.Open(path, pipeline.WithFloat32(), pipeline.WithKV("f32"), pipeline.WithoutTokenizer())
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			s, err := e.NewSession(0)
			require.NoError(t, err)
			defer s.Close()
			logits, err := s.Feed(t.Context(), r.Tokens, len(r.Tokens))
			require.NoError(t, err)
			return append([]float32(nil), logits...)
		}
		d := r.compare(logits(path), logits(r.model()))
		t.Logf("max %.2g", d.most)
		require.LessOrEqual(t, d.most, 1e-3)
		require.NotZero(t, d.most, "the same file twice")

		tokens := make([]int32, identityTokens)
		for i := range tokens {
			tokens[i] = int32(3 + (i*i*7+i/40)%(r.Vocab-3))
		}
		var want []float32
		for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
			e, err := pipeline.Open(path, pipeline.WithUnit(unit), pipeline.WithoutTokenizer())
			require.NoError(t, err)
			for name, logits := range waysToFeed(t, e, tokens) {
				if want == nil {
					want = logits
				}
				same(t, want, logits, name)
			}
			require.NoError(t, e.Close())
		}
	})
}
