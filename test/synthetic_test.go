package test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/synth"
)

// synthetic makes a model with random weights.
func synthetic(t testing.TB, c synth.Config) string {
	path := filepath.Join(t.TempDir(), "synthetic.gguf")
	writeSynthetic(t, path, c)
	return path
}

func writeSynthetic(t testing.TB, path string, c synth.Config) {
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	require.NoError(t, synth.Write(t.Context(), f, c, nil))
}
