package compute

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
)

func TestRate(t *testing.T) {
	for _, threads := range []int{1, 2} {
		require.Positive(t, Rate(gguf.Q4_K, threads, 1<<20))
		require.Positive(t, Rate(gguf.F32, threads, 1<<20))
	}
	require.Zero(t, Rate(gguf.Q4_K, 1, 1000), "no room for eight rows")
	require.Zero(t, Rate(gguf.Q4_K, 1, -1))
	require.Zero(t, Rate(gguf.IQ1_S, 1, 1<<20), "no kernel")
}
