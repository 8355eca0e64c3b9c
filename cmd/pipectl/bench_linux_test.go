package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The page cache is filled where it is not full, and a file that it cannot hold is
// not called warm.
func TestBenchStates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 8<<20), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync()) // else its pages stay
	require.NoError(t, f.Close())
	share := func() float64 {
		share, known, err := cachedShare([]string{path})
		require.NoError(t, err)
		require.True(t, known)
		return share
	}
	b := &benchCommand{shards: []string{path}, bytes: 8 << 20}
	dropped, err := dropCached(b.shards)
	require.NoError(t, err)
	if !dropped {
		t.Skip("the file system keeps files in memory")
	}
	require.LessOrEqual(t, share(), 0.01)
	held, err := b.warm(t.Context())
	require.NoError(t, err)
	require.True(t, held)
	require.GreaterOrEqual(t, share(), 0.99)

	var r benchReport
	states, err := b.states(t.Context(), &r)
	require.NoError(t, err)
	require.Equal(t, []string{cold, warm}, states)
	require.Empty(t, r.Notes)

	b.room = 4 << 20
	states, err = b.states(t.Context(), &r)
	require.NoError(t, err)
	require.Equal(t, []string{cold}, states)
	require.Equal(t, []string{"no warm runs: the page cache cannot hold the 8.00 MiB of the file"}, r.Notes)
	require.LessOrEqual(t, share(), 0.01, "it is not read in vain")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.warm(ctx)
	require.Error(t, err)
}
