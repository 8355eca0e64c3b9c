package test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
)

// Decoding allocates nothing once its buffers have grown, in any actor.
func TestAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, pinned := range []int{0, demoBlocks} {
		for _, options := range [][]pipeline.Option{nil, {pipeline.WithFloat32()}} {
			e, err := pipeline.Open(demoModel, append(options, pipeline.WithPinned(pinned))...)
			require.NoError(t, err)
			s, err := e.NewSession(0)
			require.NoError(t, err)
			token := []int32{42}
			n := testing.AllocsPerRun(50, func() {
				_, err = s.Feed(t.Context(), token, 1)
			})
			require.NoError(t, err)
			require.Zero(t, n, "allocations for a token, %d blocks pinned", pinned)
			s.Close()
			require.NoError(t, e.Close())
		}
	}
}
