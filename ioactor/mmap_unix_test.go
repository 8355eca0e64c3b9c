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

func openMmap(paths []string) (ioactor.Backend, error) { return ioactor.OpenMmap(paths) }

func TestMmap(t *testing.T)      { readertest.Run(t, openMmap) }
func BenchmarkMmap(b *testing.B) { readertest.Bench(b, openMmap) }

// What cannot be mapped is refused when it is opened.
func TestOpenMmap(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{empty, dir} {
		_, err := ioactor.OpenMmap([]string{path})
		require.ErrorContains(t, err, path)
	}
}
