//go:build unix

package ioactor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

func openMmap(h ioactor.Hint) readertest.Opener {
	return func(paths []string) (ioactor.Backend, error) {
		m, err := ioactor.OpenMmap(paths, h)
		if err != nil {
			return nil, err
		}
		return m, nil
	}
}

func TestMmap(t *testing.T) {
	for _, h := range hints {
		t.Run(h.String(), func(t *testing.T) { readertest.Run(t, openMmap(h)) })
	}
}

func BenchmarkMmap(b *testing.B) {
	for _, h := range hints {
		b.Run(h.String(), func(b *testing.B) { readertest.Bench(b, openMmap(h)) })
	}
}

// What cannot be mapped is refused when it is opened.
func TestOpenMmap(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{empty, dir} {
		_, err := ioactor.OpenMmap([]string{path}, ioactor.HintNone)
		require.ErrorContains(t, err, path)
	}
}
