package synth_test

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/synth"
)

// BenchmarkWrite tells how fast a disk may be before making the weights is what
// takes the time.
func BenchmarkWrite(b *testing.B) {
	for _, t := range synth.Types() {
		b.Run(string(t), func(b *testing.B) {
			c := synth.Config{Shape: synth.Shape{Layers: 4, Dim: 2048, FFN: 5632, Heads: 32, KVHeads: 4, Vocab: 4096}, Type: t}
			size, err := synth.Size(c)
			require.NoError(b, err)
			b.SetBytes(size)
			b.ReportAllocs()
			for b.Loop() {
				require.NoError(b, synth.Write(b.Context(), io.Discard, c, nil))
			}
		})
	}
}
