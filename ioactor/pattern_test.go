package ioactor_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

// patternBytes are the bytes of the files that writePattern writes.
var patternBytes = sync.OnceValue(func() []byte {
	p := make([]byte, 32<<20)
	for i := range p {
		p[i] = pattern(int64(i))
	}
	return p
})

func writePattern(t testing.TB, size int) string {
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, patternBytes()[:size], 0o600))
	return path
}

// slotFor is a slot that a block of the extents fits in.
func slotFor(t testing.TB, extents []ioactor.Extent) *ring.Slot {
	r, err := ring.New(1, ioactor.LoadBytes([]ioactor.Block{{Extents: extents}}), 0)
	require.NoError(t, err)
	s, err := r.Acquire(t.Context(), nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		s.Free()
		r.Close()
	})
	return s
}

// loadPattern loads extents of files that writePattern wrote, and compares.
func loadPattern(t testing.TB, b ioactor.Backend, extents ...ioactor.Extent) {
	t.Helper()
	s := slotFor(t, extents)
	require.NoError(t, b.Load(t.Context(), &ioactor.Block{Extents: extents}, s))
	require.Len(t, s.Parts, len(extents))
	for i, e := range extents {
		require.True(t, string(s.Parts[i]) == string(patternBytes()[e.Off:][:e.Size]), "extent %d: other bytes than in the file", i)
	}
}
