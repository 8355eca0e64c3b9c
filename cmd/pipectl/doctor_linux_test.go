package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

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
