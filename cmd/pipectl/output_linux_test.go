package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// lonelyPipe is a pipe with nobody at its other end. What is left waiting for that
// is released when the test ends.
func lonelyPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	t.Cleanup(func() {
		_, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) // both ends, and open from now on
		require.NoError(t, err)
	})
	return path
}

// Who waits for the other end of a pipe can be interrupted.
func TestInterruptedPipe(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"trace", lonelyPipe(t)}, strings.NewReader(""), &stdout, &stderr))
	require.Equal(t, exitInterrupted, run(ctx, []string{"perplexity", "-f", lonelyPipe(t)}, strings.NewReader(""), &stdout, &stderr))
	var template templateFlags
	template.template = lonelyPipe(t)
	_, err := template.source(ctx, nil)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, writeFile(ctx, lonelyPipe(t), nil), context.Canceled)

	// What is written at the end of an interrupted run.
	ctx, cancel = context.WithCancel(t.Context())
	cancelling := writerFunc(func(p []byte) (int, error) {
		cancel()
		return len(p), nil
	})
	args := []string{"run", "-p", "Once", "--temp", "0", "--trace", lonelyPipe(t)}
	require.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(""), cancelling, &stderr))
}

// A read from a pipe whose writer says nothing can be interrupted too.
func TestInterruptedReadOfPipe(t *testing.T) {
	for _, args := range [][]string{{"trace"}, {"perplexity", "-f"}} {
		path := filepath.Join(t.TempDir(), "pipe")
		require.NoError(t, unix.Mkfifo(path, 0o600))
		cmd := program(t, append(args, path)...)
		require.NoError(t, cmd.Start())
		w, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for it
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(os.Interrupt))
		_ = cmd.Wait() // the exit code says it
		require.Equal(t, exitInterrupted, cmd.ProcessState.ExitCode())
		require.NoError(t, w.Close())
	}
}

// A pipe with somebody at its other end is as good as a file.
func TestPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, unix.Mkfifo(path, 0o600))
	read := make(chan []byte, 1)
	reader := func() {
		data, _ := os.ReadFile(path)
		read <- data
	}
	go reader()
	succeed(t, "", "logits", "--tokens", "1", "-o", path)
	require.Len(t, <-read, 4096)
	go reader()
	succeed(t, "", "run", "-p", "Once", "-n", "2", "--temp", "0", "--trace", path)
	made := <-read

	write := func(data []byte) { _ = os.WriteFile(path, data, 0) } // it waits for the reader
	go write(made)
	require.Contains(t, succeed(t, "", "trace", path), "of 2 recorded")
	go write([]byte(storyText(t)))
	require.Contains(t, succeed(t, "", "perplexity", "--ctx", "32", "-f", path), "perplexity ")

	r, w, err := os.Pipe() // as the shell's process substitution has it
	require.NoError(t, err)
	defer w.Close()
	go func() { _, _ = io.Copy(w, bytes.NewReader(made)); _ = w.Close() }()
	cmd := program(t, "trace", "/dev/fd/3")
	cmd.ExtraFiles = []*os.File{r}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, r.Close())
}

// Whatever a limit on open files makes of a run, the demo model is not left.
func TestFewFiles(t *testing.T) {
	emptyTemp(t)
	for n := 4; n < 12; n++ {
		cmd := program(t, "run", "-n", "1", "--temp", "0")
		cmd.Args = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, n), cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
		_ = cmd.Run() // it may well fail
	}
}

// The demo model needs no directory to write to.
func TestNoTemp(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	require.NotEmpty(t, succeed(t, "", "run", "-n", "1", "--temp", "0"))
}
