package ioactor_test

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
	"github.com/layerpipe/layerpipe/ring"
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
		require.NotEmpty(t, loads)
		most := 1
		if twice {
			most = 3 // the first brings the slot's memory too
		}
		for off, n := range loads {
			require.LessOrEqual(t, n, most, "region at %d", off)
		}
		require.NoError(t, b.Close())
	}
}

// However large a file says it is, what is kept of it is small.
func TestRateOfEndlessFile(t *testing.T) {
	b := &readertest.Hooked{Before: func(_ context.Context, n int, b *ioactor.Block) error {
		if n == 2 { // the first that is timed
			return io.ErrUnexpectedEOF
		}
		return nil
	}, Backend: noBackend{}}
	_, err := ioactor.Rate(t.Context(), b, math.MaxInt64, false)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// A noBackend loads nothing, at once.
type noBackend struct{}

func (noBackend) Load(context.Context, *ioactor.Block, *ring.Slot) error { return nil }
func (noBackend) Close() error                                           { return nil }

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
