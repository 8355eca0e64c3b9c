package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// progressOf parses the lines of progress among those on stderr, by phase. Of each
// phase they go on and never back, up to the end.
func progressOf(t *testing.T, stderr string) map[string][]progressLine {
	t.Helper()
	phases := map[string][]progressLine{}
	for line := range strings.Lines(stderr) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var p progressLine
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		require.NoError(t, d.Decode(&p))
		phases[p.Phase] = append(phases[p.Phase], p)
	}
	for phase, lines := range phases {
		for i, l := range lines {
			require.Equal(t, lines[0].Unit, l.Unit, phase)
			require.Equal(t, lines[0].Total, l.Total, phase)
			require.GreaterOrEqual(t, l.Left, 0.0)
			if i > 0 {
				require.GreaterOrEqual(t, l.Done, lines[i-1].Done, phase)
				require.GreaterOrEqual(t, l.Seconds, lines[i-1].Seconds, phase)
			}
		}
		last := lines[len(lines)-1]
		require.Equal(t, last.Total, last.Done, "the last step is always told: %s", phase)
		require.Zero(t, last.Left)
	}
	return phases
}

// Every command that can take long has the flag, with the same lines.
func TestProgressJSON(t *testing.T) {
	t.Setenv(childEnv, "1")
	dir := t.TempDir()
	type phases map[string]struct {
		total int64 // 0: whatever it is
		unit  string
	}
	for _, tc := range []struct {
		args  string
		stdin string
		want  phases
	}{
		{"run -p Once -n 2 --temp 0 --json", "", phases{phasePrompt: {9, "blocks"}, phaseLoad: {9, "blocks"}}},
		{"run -p Once -n 2 --temp 0 --json --buffers 2", "", phases{phasePrompt: {9, "blocks"}}},
		{"chat -n 2 --temp 0 --chat-template chatml --buffers 2", "Hello\n", phases{phasePrompt: {9, "blocks"}}},
		{"logits --tokens 1,2,3 --one-by-one --out " + os.DevNull, "", phases{phaseTokens: {3, "tokens"}}},
		{"perplexity --ctx 32 --batch 1 --chunks 3", storyText(t), phases{phasePerplexity: {3 * 31, "tokens"}}},
		{"bench -n 2 --rounds 1 --only serial", "", phases{phaseProbe: {1, "probes"}, phaseBench: {0, "runs"}}},
		{"synth --shape 2x256x512x4x2x512 --type F16 -o " + filepath.Join(dir, "tiny.gguf"), "", phases{phaseWrite: {0, "bytes"}}},
		{"doctor --full", "", phases{phaseProbe: {1, "probes"}, phaseWeights: {0, "bytes"}}},
		{"plan --direct --buffers 2", "", phases{phaseProbe: {1, "probes"}}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			o := pipectl(t, tc.stdin, append(strings.Fields(tc.args), "--progress=json")...)
			require.Equal(t, exitOK, o.code, o.stderr)
			got := progressOf(t, o.stderr)
			require.Len(t, got, len(tc.want), o.stderr)
			for phase, want := range tc.want {
				require.NotEmpty(t, got[phase], phase)
				last := got[phase][len(got[phase])-1]
				require.Equal(t, want.unit, last.Unit)
				if want.total > 0 {
					require.Equal(t, want.total, last.Total)
				}
				require.Positive(t, last.Total)
			}
			require.NotContains(t, o.stdout, `"phase"`)
			command, _, _ := strings.Cut(tc.args, " ")
			require.Contains(t, succeed(t, "", command, "-h"), "--progress FORM")
		})
	}
	require.Equal(t, exitUsage, pipectl(t, "", "run", "-p", "x", "--progress", "xml").code)
	require.Empty(t, pipectl(t, "", "run", "-p", "x", "-n", "1", "--json").stderr, "not asked for, and no terminal")
}

// The lines are read by programs.
func TestProgressLine(t *testing.T) {
	b, err := json.Marshal(progressLine{Phase: phasePrompt, Done: 1, Total: 4, Unit: "blocks", Seconds: 0.5, Left: 1.5})
	require.NoError(t, err)
	require.Equal(t, `{"phase":"prompt","done":1,"total":4,"unit":"blocks","seconds":0.5,"left_seconds":1.5}`, string(b))
	for want, line := range map[string]progressLine{
		" 3/4 blocks, 1m3s left":                    {Done: 3, Total: 4, Unit: "blocks", Seconds: 9, Left: 63.4},
		" 1.00 MiB of 2.00 GiB, 1.05 MB/s, 2s left": {Done: 1 << 20, Total: 2 << 30, Unit: "bytes", Seconds: 1, Left: 2},
	} {
		require.Equal(t, want, line.String())
	}
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

// Whoever computes does not wait for whoever reads, and the last lines come.
func TestProgressDoesNotBlock(t *testing.T) {
	w := &stuck{reads: make(chan struct{})}
	p := progressJSON.start(w)
	prompt, load := p.phase(phasePrompt, "blocks"), p.phase(phaseLoad, "blocks")
	for i := range 1000 {
		prompt(int64(i+1), 1000)
		load(int64(i+1), 1000)
	}
	close(w.reads)
	p.end()
	p.end()
	for _, lines := range progressOf(t, w.String()) {
		require.LessOrEqual(t, len(lines), 2)
		require.True(t, slices.ContainsFunc(lines, func(l progressLine) bool { return l.Done == 1000 }))
	}
}

// Nothing is shown by default where there is no terminal.
func TestNoProgress(t *testing.T) {
	p := progressFlag("").start(new(bytes.Buffer))
	p.phase(phaseWrite, "bytes")(1, 2)
	p.tell("a note")
	p.end()
	require.Nil(t, p)
}
