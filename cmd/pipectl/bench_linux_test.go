package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The page cache is filled where it is not full, and a file that it cannot hold is
// not called warm.
func TestBenchStates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, make([]byte, 8<<20), 0o600))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync()) // else its pages stay
	require.NoError(t, f.Close())
	share := func() float64 {
		share, known, err := cachedShare([]string{path})
		require.NoError(t, err)
		require.True(t, known)
		return share
	}
	b := &benchCommand{shards: []string{path}, bytes: 8 << 20}
	dropped, err := dropCached(b.shards)
	require.NoError(t, err)
	if !dropped {
		t.Skip("the file system keeps files in memory")
	}
	require.LessOrEqual(t, share(), 0.01)
	held, err := b.warm(t.Context())
	require.NoError(t, err)
	require.True(t, held)
	require.GreaterOrEqual(t, share(), 0.99)

	var r benchReport
	states, err := b.states(t.Context(), &r)
	require.NoError(t, err)
	require.Equal(t, []string{cold, warm}, states)
	require.Empty(t, r.Notes)

	b.room = 4 << 20
	states, err = b.states(t.Context(), &r)
	require.NoError(t, err)
	require.Equal(t, []string{cold}, states)
	require.Equal(t, []string{"no warm runs: the page cache cannot hold the 8.00 MiB of the file"}, r.Notes)
	require.LessOrEqual(t, share(), 0.01, "it is not read in vain")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.warm(ctx)
	require.Error(t, err)
}

// A bench that is killed does not leave its run behind.
func TestBenchKilled(t *testing.T) {
	if _, err := os.Stat("/proc/thread-self/children"); err != nil {
		t.Skip("the system does not tell a process's children")
	}
	// Who loses its parent becomes a child of this process, which can wait for it.
	require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	defer func() { require.NoError(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)) }()
	model := patchedFile(t, endlessDemo(t), func(model []byte) {
		const key, uint32Type = "llama.context_length", 4
		at := bytes.Index(model, []byte(key))
		require.Positive(t, at)
		binary.LittleEndian.PutUint32(model[at+len(key)+uint32Type:], 1<<16)
	})
	bench := program(t, "bench", "-m", model, "-n", endlessContext, "--rounds", "1", "--only", "serial", "--progress=json")
	stderr, err := bench.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, bench.Start())
	lines := bufio.NewScanner(stderr)
	for lines.Scan() && !strings.Contains(lines.Text(), `"phase":"bench"`) {
	}
	run := 0 // which is about to start
	for run == 0 {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", bench.Process.Pid))
		require.NoError(t, err)
		require.NotEmpty(t, tasks, "the bench has ended")
		for _, task := range tasks {
			children, _ := os.ReadFile(task) // the thread may have ended
			child := strings.TrimSpace(string(children))
			line, _ := os.ReadFile("/proc/" + child + "/cmdline")
			if bytes.Contains(line, []byte("\x00run\x00")) { // and no child of the Go runtime
				run, err = strconv.Atoi(child)
				require.NoError(t, err)
			}
		}
	}
	require.NoError(t, bench.Process.Kill())
	require.Error(t, bench.Wait())
	_, err = unix.Wait4(run, nil, 0, nil) // it would take minutes
	require.NoError(t, err)
}
