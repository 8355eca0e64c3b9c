package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// examined runs doctor and returns what it found, by check.
func examined(t *testing.T, code int, args ...string) map[string]check {
	t.Helper()
	o := pipectl(t, "", append([]string{"doctor", "--json"}, args...)...)
	require.Equal(t, code, o.code, o.stderr)
	var r doctorReport
	decodeJSON(t, o.stdout, &r)
	checks, failures, warnings := map[string]check{}, 0, 0
	for _, c := range r.Checks {
		require.NotContains(t, checks, c.Name)
		checks[c.Name] = c
		switch c.Status {
		case statusFail:
			failures++
		case statusWarn:
			warnings++
		default:
			require.Equal(t, statusOK, c.Status)
			require.Empty(t, c.Advice)
		}
	}
	require.Equal(t, failures, r.Failures)
	require.Equal(t, warnings, r.Warnings)
	require.Equal(t, code == exitFailed, failures > 0)
	return checks
}

func TestDoctor(t *testing.T) {
	checks := examined(t, exitOK, "--full")
	for _, name := range []string{"file", "architecture", "tokenizer", "memory", "streaming", "weights"} {
		require.Equal(t, statusOK, checks[name].Status, checks[name])
	}
	for _, name := range []string{"storage", "direct reads", "processor"} { // which depend on the machine
		require.Contains(t, []status{statusOK, statusWarn}, checks[name].Status, checks[name])
	}
	require.Equal(t, "1 file, 74 tensors of 2.91 MiB, each complete", checks["file"].Message)
	require.Equal(t, "2.91 MiB read, all are numbers", checks["weights"].Message)

	if !strings.Contains(checks["storage"].Message, "memory") {
		require.Contains(t, checks["storage"].Message, "so small a file that it says nothing")
	}

	text := succeed(t, "", "doctor", "--buffers", "2")
	require.Regexp(t, `(?m)^ok    streaming     .* a pass, 0 of 9 blocks stay in memory; about `, text)
	require.NotContains(t, text, "weights")
	require.Regexp(t, `\ndemo: \d+ ok, \d+ to know, 0 failed\n$`, text)
}

func TestDoctorFails(t *testing.T) {
	whole, err := os.ReadFile(demoModel)
	require.NoError(t, err)
	short := filepath.Join(t.TempDir(), "short.gguf")
	require.NoError(t, os.WriteFile(short, whole[:len(whole)-1], 0o600))
	other := patchedDemo(t, func(model []byte) { copy(model[bytes.Index(model, []byte("llama")):], "mamba") })

	for name, tc := range map[string]struct {
		args    []string
		check   string
		message string
	}{
		"cut":          {[]string{"-m", short}, "file", "short.gguf"},
		"absent":       {[]string{"-m", short + ".absent"}, "file", "no such file"},
		"architecture": {[]string{"-m", other}, "architecture", `"mamba"`},
		"ceiling":      {[]string{"--memory", "1MiB"}, "memory", "not enough memory"},
	} {
		t.Run(name, func(t *testing.T) {
			c := examined(t, exitFailed, tc.args...)[tc.check]
			require.Equal(t, statusFail, c.Status)
			require.Contains(t, c.Message, tc.message)
			require.NotEmpty(t, c.Advice)
		})
	}
	o := pipectl(t, "", "doctor", "-m", short)
	require.Equal(t, exitFailed, o.code)
	require.True(t, strings.HasPrefix(o.stdout, "fail  file "), o.stdout)
	require.Contains(t, o.stderr, "checks that failed: 1")
}

// A single scale that is no number is found, and named with its place.
func TestDoctorWeights(t *testing.T) {
	f, err := gguf.Open(demoModel)
	require.NoError(t, err)
	tensor, ok := f.Tensor("blk.5.ffn_down.weight")
	require.True(t, ok)
	row := int64(tensor.Type.RowBytes(tensor.Dims[0]))
	damaged := patchedDemo(t, func(model []byte) { // all bits of a row: whatever the format, its scales are NaN
		for i := range row {
			model[tensor.Offset+7*row+i] = 0xFF
		}
	})
	c := examined(t, exitFailed, "-m", damaged, "--full")["weights"]
	require.Equal(t, statusFail, c.Status)
	require.Contains(t, c.Message, `1 rows hold what is no number, the first: tensor "blk.5.ffn_down.weight": row 7, column 0 is NaN`)
	require.Contains(t, c.Advice, "checksum")
	examined(t, exitOK, "-m", damaged) // only --full looks

	c = examined(t, exitFailed, "-m", brokenDemo(t), "--full")["weights"]
	require.Contains(t, c.Message, `"blk.3.ffn_gate.weight": row 0, column 0 is NaN`)
}

func TestDoctorStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"doctor", "--full"}, strings.NewReader(""), &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Equal(t, exitUsage, pipectl(t, "", "doctor", demoModel).code)
}
