package demo_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/model/demo"
	"github.com/layerpipe/layerpipe/model/gguf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWriteTemp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows

	path, remove, err := demo.WriteTemp()
	require.NoError(t, err)
	f, err := gguf.Open(path)
	require.NoError(t, err)
	require.NotEmpty(t, f.Tensors)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "the model is not where the test looks")

	require.NoError(t, remove())
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestWriteTempFails(t *testing.T) {
	dir := t.TempDir() + "/absent"
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	_, _, err := demo.WriteTemp()
	require.ErrorIs(t, err, os.ErrNotExist)
}
