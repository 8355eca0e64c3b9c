package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
)

// The logits of every llama-architecture reference, at every position, with the
// activations in float: within 1e-3 of those of an engine that does the same.
func TestParityFloat(t *testing.T) {
	dir := refsDir(t)
	for _, r := range references(t, dir, "llama") {
		if r.Tolerance.F32Act == nil && r.Type != "F32" {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			e, err := pipeline.Open(r.model(), pipeline.WithKV("f32"), pipeline.WithoutTokenizer())
			require.NoError(t, err)
			defer func() { require.NoError(t, e.Close()) }()
			s, err := e.NewSession(0)
			require.NoError(t, err)
			defer s.Close()
			got, err := s.Feed(t.Context(), r.Tokens, len(r.Tokens))
			require.NoError(t, err)

			path, limit := "f32act/"+r.Name+".f32act.bin", r.Tolerance.F32Act
			if r.Type == "F32" {
				path, limit = "ref/"+r.Name+".f32kv.bin", r.Tolerance.Max
			}
			most, rms, top1 := r.compare(got, r.logits(t, path))
			t.Logf("max %.2g, rms %.2g, top-1 %.3f", most, rms, top1)
			require.LessOrEqual(t, most, *limit)
		})
	}
}
