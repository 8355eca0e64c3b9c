package main

import (
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/demo"
)

// start starts the program and reads the first of its text.
func start(t *testing.T, args ...string) (cmd *exec.Cmd, stdout io.ReadCloser, stderr *strings.Builder) {
	t.Helper()
	cmd, stderr = program(t, args...), new(strings.Builder)
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.ReadFull(stdout, make([]byte, 16))
	require.NoError(t, err, "%s", stderr)
	return cmd, stdout, stderr
}

func TestSignals(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no such signals")
	}
	endless := []string{"run", "-m", endlessDemo(t), "-p", demo.Prompt, "-n", "-1", "--ctx", endlessContext}

	t.Run("SIGINT", func(t *testing.T) {
		cmd, stdout, stderr := start(t, endless...)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_, err := io.Copy(io.Discard, stdout)
		require.NoError(t, err)
		_ = cmd.Wait() // the exit code says it
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode(), "%s", stderr)
		require.Contains(t, stderr.String(), "stopped early\n")
		require.Contains(t, stderr.String(), "\npipectl: interrupted\n")
	})

	t.Run("closed pipe", func(t *testing.T) {
		cmd, stdout, stderr := start(t, endless...)
		require.NoError(t, stdout.Close())
		require.NoError(t, cmd.Wait())
		require.Contains(t, stderr.String(), "stopped early\n")
		require.NotContains(t, stderr.String(), "pipectl:")
	})
}
