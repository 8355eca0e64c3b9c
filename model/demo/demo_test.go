package demo_test

import (
	"os"
	"runtime"
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
	left := func() int {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		return len(entries)
	}
	if runtime.GOOS == "linux" {
		require.Zero(t, left(), "what a killed process would leave")
	} else {
		require.Equal(t, 1, left(), "the model is not where the test looks")
	}

	require.NoError(t, remove())
	require.Zero(t, left())
	_, err = os.Stat(path)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// Without a directory for temporary files there is memory, on Linux.
func TestWriteTempNowhere(t *testing.T) {
	dir := t.TempDir() + "/absent"
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir)
	path, remove, err := demo.WriteTemp()
	if runtime.GOOS != "linux" {
		require.ErrorIs(t, err, os.ErrNotExist)
		return
	}
	require.NoError(t, err)
	f, err := gguf.Open(path)
	require.NoError(t, err)
	require.NotEmpty(t, f.Tensors)
	require.NoError(t, remove())
}
