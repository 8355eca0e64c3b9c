package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
)

// A model in memory is no measure of a disk, and takes the memory that it is to
// save.
func TestDoctorInMemory(t *testing.T) {
	const shm = "/dev/shm"
	if ioactor.MemoryFS(shm) == "" {
		t.Skipf("%s is no file system in memory", shm)
	}
	dir, err := os.MkdirTemp(shm, "layerpipe")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	whole, err := os.ReadFile(demoModel)
	require.NoError(t, err)
	path := filepath.Join(dir, "demo.gguf")
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	checks := examined(t, exitOK, "-m", path)
	require.Equal(t, statusWarn, checks["storage"].Status)
	require.Contains(t, checks["storage"].Message, "of memory and not of a disk")
	require.Contains(t, checks["storage"].Advice, "takes 2.91 MiB of memory")
	require.NotContains(t, checks, "direct reads")
}

func TestDoctorSystem(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "setting")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	for text, want := range map[string]status{
		"[always] madvise never\n": statusOK, "always [madvise] never\n": statusOK, "always madvise [never]\n": statusWarn, "": statusWarn,
	} {
		var d doctorCommand
		d.checkHugePages(file(text))
		require.Equal(t, want, d.checks[0].Status, text)
		require.Equal(t, want == statusWarn, d.checks[0].Advice != "", text)
	}
	var d doctorCommand
	d.checkHugePages(file("") + ".absent")
	d.checkLocked(file("MemTotal: 1 kB\nSwapTotal:   2048 kB\n"))
	d.checkLocked(file("SwapTotal: 0 kB\n"))
	require.Equal(t, statusWarn, d.checks[0].Status)
	require.Equal(t, statusWarn, d.checks[1].Status)
	require.Contains(t, d.checks[1].Message, "2.00 MiB of swap")
	require.Equal(t, statusOK, d.checks[2].Status)
}
