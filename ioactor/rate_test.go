package ioactor_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

// A rate is measured on regions that lie in the file, each loaded as often as
// asked for.
func TestRate(t *testing.T) {
	const size = 20<<20 + 5
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, make([]byte, size), 0o600))
	for _, twice := range []bool{false, true} {
		loads := map[int64]int{}
		pread, err := openPread(ioactor.HintNone)([]string{path})
		require.NoError(t, err)
		b := &readertest.Hooked{Backend: pread, Before: func(_ context.Context, _ int, b *ioactor.Block) error {
			e := b.Extents[0]
			require.LessOrEqual(t, e.Off+e.Size, int64(size))
			loads[e.Off]++
			return nil
		}}
		rate, err := ioactor.Rate(t.Context(), b, size, twice)
		require.NoError(t, err)
		require.Positive(t, rate)
		most := 2 // the first is loaded once before it is measured
		if twice {
			most = 3
		}
		for off, n := range loads {
			require.LessOrEqual(t, n, most, "region at %d", off)
		}
		require.NoError(t, b.Close())
	}
}

func TestRateFails(t *testing.T) {
	boom := errors.New("boom")
	for k := 1; k <= 3; k++ {
		b := &readertest.Hooked{Before: func(context.Context, int, *ioactor.Block) error { return boom }}
		if k > 1 {
			path := filepath.Join(t.TempDir(), "model.gguf")
			require.NoError(t, os.WriteFile(path, make([]byte, 64), 0o600))
			pread, err := openPread(ioactor.HintNone)([]string{path})
			require.NoError(t, err)
			defer pread.Close()
			b.Backend = pread
			b.Before = func(_ context.Context, n int, _ *ioactor.Block) error {
				if n == k {
					return boom
				}
				return nil
			}
		}
		_, err := ioactor.Rate(t.Context(), b, 64, true)
		require.ErrorIs(t, err, boom)
	}
}
