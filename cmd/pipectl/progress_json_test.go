package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// progressOf parses the lines of progress on stderr.
func progressOf(t *testing.T, stderr string) (lines []progressLine) {
	t.Helper()
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var p progressLine
		require.NoError(t, json.Unmarshal([]byte(line), &p))
		lines = append(lines, p)
	}
	require.NotEmpty(t, lines)
	for i, l := range lines {
		require.Equal(t, lines[0].Phase, l.Phase)
		require.Equal(t, lines[0].Total, l.Total)
		if i > 0 {
			require.Greater(t, l.Done, lines[i-1].Done)
			require.GreaterOrEqual(t, l.Seconds, lines[i-1].Seconds)
		}
	}
	return lines
}

func TestProgressJSON(t *testing.T) {
	o := pipectl(t, "", "run", "-p", "Once upon a time", "-n", "2", "--temp", "0", "--json", "--progress", "json")
	require.Equal(t, exitOK, o.code, o.stderr)
	lines := progressOf(t, o.stderr)
	last := lines[len(lines)-1]
	require.Equal(t, "prompt", last.Phase)
	require.Equal(t, 9, last.Total)
	require.Equal(t, 9, last.Done, "the last step is always told")
	require.Zero(t, last.Left)
	require.True(t, strings.HasPrefix(o.stdout, "{"))

	t.Setenv(childEnv, "1")
	o = pipectl(t, "", "bench", "-n", "2", "--rounds", "1", "--only", "serial", "--progress=json")
	require.Equal(t, exitOK, o.code, o.stderr)
	lines = progressOf(t, o.stderr)
	last = lines[len(lines)-1]
	require.Equal(t, "bench", last.Phase)
	require.Equal(t, last.Total, last.Done)

	require.Equal(t, exitUsage, pipectl(t, "", "run", "-p", "x", "--progress", "xml").code)
	require.Empty(t, pipectl(t, "", "run", "-p", "x", "-n", "1", "--json").stderr, "not asked for, and no terminal")
}

// stuck is a reader of progress that does not read until it is told to.
type stuck struct {
	bytes.Buffer
	reads chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	<-s.reads
	return s.Buffer.Write(p)
}

// Whoever computes does not wait for whoever reads, and the last line comes.
func TestProgressDoesNotBlock(t *testing.T) {
	w := &stuck{reads: make(chan struct{})}
	p := newProgressLines(w, "prompt")
	for i := range 1000 {
		p.set(i+1, 1000)
	}
	close(w.reads)
	p.stop()
	lines := progressOf(t, w.String())
	require.LessOrEqual(t, len(lines), 2)
	require.Equal(t, 1000, lines[len(lines)-1].Done)
}
