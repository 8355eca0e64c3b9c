package ioactor_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

// What a hint does to the page cache: fadvise leaves nothing behind.
func TestHintCache(t *testing.T) {
	const size = 8 << 20
	path := writePattern(t, size)
	needDirect(t, path)
	for _, tc := range []struct {
		name string
		open func(ioactor.Hint) readertest.Opener
	}{{"pread", openPread}, {"mmap", openMmap}} {
		t.Run(tc.name, func(t *testing.T) {
			for _, h := range hints {
				dropCache(t, path)
				b, err := tc.open(h)([]string{path})
				require.NoError(t, err)
				loadPattern(t, b, ioactor.Extent{Off: 0, Size: size / 2}, ioactor.Extent{Off: size / 2, Size: size / 2})
				require.NoError(t, b.Close())
				if h == ioactor.HintFadvise {
					require.Less(t, cached(t, path), int64(size/4))
				} else {
					require.Equal(t, int64(size), cached(t, path))
				}
			}
		})
	}
}
