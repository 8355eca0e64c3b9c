package test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/sample"
)

// eachReference runs f for every reference model that can be run: the few in
// testdata, and all where the reference data is.
func eachReference(t *testing.T, f func(t *testing.T, r reference)) {
	for _, set := range []string{"committed", "all"} {
		t.Run(set, func(t *testing.T) {
			dir := committed
			if set == "all" {
				dir = refsDir(t)
			}
			for _, r := range references(t, dir) {
				t.Run(r.Name, func(t *testing.T) { f(t, r) })
			}
		})
	}
}

// The logits at every position, with the activations in float: those of an
// engine that does the same.
func TestParityFloat(t *testing.T) {
	eachReference(t, func(t *testing.T, r reference) {
		e, err := pipeline.Open(r.model(), pipeline.WithKV("f32"), pipeline.WithFloat32(), pipeline.WithoutTokenizer())
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		s, err := e.NewSession(0)
		require.NoError(t, err)
		defer s.Close()
		got, err := s.Feed(t.Context(), r.Tokens, len(r.Tokens))
		require.NoError(t, err)

		path, limit := "f32act/"+r.Name+".f32act.bin", r.Tolerance.F32Act
		switch {
		case r.Tolerance.NP64 != nil:
			path, limit = "ref/"+r.Name+".np64.bin", r.Tolerance.NP64
		case r.Type == "F32":
			path, limit = "ref/"+r.Name+".f32kv.bin", r.Tolerance.Max
		}
		d := r.compare(got, r.logits(t, path))
		t.Logf("max %.2g, rms %.2g", d.most, d.rms)
		require.LessOrEqual(t, d.most, *limit)
	})
}

// The greedy continuation: equal as long as quantized and float activations
// agree in the other engine.
func TestParityGreedy(t *testing.T) {
	eachReference(t, func(t *testing.T, r reference) {
		want := r.Greedy
		if r.Type != "F32" {
			want = want[:r.GreedyFloat]
		}
		if len(want) == 0 {
			t.Skip("the other engine's own continuations differ from the first token on")
		}
		e, err := pipeline.Open(r.model(), pipeline.WithKV("f32"), pipeline.WithFloat32(), pipeline.WithoutTokenizer())
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		var got []int32
		for tok, err := range e.Generate(t.Context(), pipeline.GenConfig{Tokens: r.Tokens, MaxTokens: len(want), Sampling: sample.Config{}}) {
			require.NoError(t, err)
			got = append(got, tok.ID)
		}
		require.Equal(t, want, got)
	})
}

// The logits with quantized weights multiplied as they are: within what the
// rounding of the activations to 8 bits moves them in the other engine.
func TestParityQuantized(t *testing.T) {
	eachReference(t, func(t *testing.T, r reference) {
		kv, path := compute.KVF32, "ref/"+r.Name+".f32kv.bin"
		if strings.HasSuffix(r.KVOfF32KV, "V f16") {
			kv, path = compute.KVF16, "ref/"+r.Name+".f16kv.bin"
		}
		want := r.logits(t, path)
		e, err := pipeline.Open(r.model(), pipeline.WithKV(kv), pipeline.WithoutTokenizer())
		require.NoError(t, err)
		defer func() { require.NoError(t, e.Close()) }()
		s, err := e.NewSession(0)
		require.NoError(t, err)
		defer s.Close()
		got, err := s.Feed(t.Context(), r.Tokens, len(r.Tokens))
		require.NoError(t, err)

		d := r.compare(got, want)
		t.Logf("max %.2g, rms %.2g, top-1 %.3f, median of positions %.2g, 90th percentile %.2g", d.most, d.rms, d.top1, d.median, d.p90)
		atMost := func(what string, got float64, limit *float64) {
			if limit != nil {
				require.LessOrEqual(t, got, *limit, what)
			}
		}
		atMost("max", d.most, r.Tolerance.Max)
		atMost("rms", d.rms, r.Tolerance.RMS)
		atMost("median of positions", d.median, r.Tolerance.PosMedian)
		atMost("90th percentile of positions", d.p90, r.Tolerance.PosP90)
		require.GreaterOrEqual(t, d.top1, *r.Tolerance.Top1)
	})
}
