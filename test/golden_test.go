package test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
)

var update = flag.Bool("update", false, "write testdata/golden.json anew")

const goldenFile = "testdata/golden.json"

// The logits are the same bits on every machine: a hash for each model and each
// way to treat its weights, written once, holds with vector kernels and without
// (LAYERPIPE_KERNELS=generic).
func TestGolden(t *testing.T) {
	golden := map[string]string{}
	if !*update {
		readJSON(t, goldenFile, &golden)
	}
	check := func(t *testing.T, name, path string, tokens []int32) {
		for kind, options := range map[string][]pipeline.Option{
			"":               nil,
			" f32":           {pipeline.WithFloat32()},
			" KV in float32": {pipeline.WithKV("f32")},
		} {
			e, err := pipeline.Open(path, append(options, pipeline.WithoutTokenizer())...)
			require.NoError(t, err)
			s, err := e.NewSession(0)
			require.NoError(t, err)
			logits, err := s.Feed(t.Context(), tokens, len(tokens))
			require.NoError(t, err)
			sum := sha256.New()
			require.NoError(t, binary.Write(sum, binary.LittleEndian, logits))
			s.Close()
			require.NoError(t, e.Close())
			got := hex.EncodeToString(sum.Sum(nil))
			if *update {
				golden[name+kind] = got
			}
			require.Equal(t, golden[name+kind], got, name+kind)
		}
	}
	t.Run("demo", func(t *testing.T) {
		check(t, "demo", demoModel, []int32{1, 264, 30, 7, 512, 99, 1000, 41, 5, 6, 7, 300, 2, 77, 640, 3})
	})
	t.Run("synthetic", func(t *testing.T) { check(t, "synthetic-IQ2_XXS", gridModel(t, "IQ2_XXS"), gridTokens) })
	eachReference(t, func(t *testing.T, r reference) { check(t, r.Name, r.model(), r.Tokens) })
	if *update {
		b, err := json.MarshalIndent(golden, "", "\t")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(goldenFile, append(b, '\n'), 0o644))
	}
}
