package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/synth"
)

const tinyShape = "2x256x512x4x2x512"

// names lists the files of dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestSynth(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tiny.gguf")
	args := []string{"synth", "--shape", tinyShape, "--type", "q4_k_m", "-o", path}
	o := pipectl(t, "", args...)
	require.Equal(t, exitOK, o.code, o.stderr)
	require.Empty(t, o.stdout)
	require.Regexp(t, `^\S+/tiny\.gguf: 884 KiB in .+, .+B/s\n$`, o.stderr)
	require.Equal(t, []string{"tiny.gguf"}, names(t, dir))
	made, err := os.ReadFile(path)
	require.NoError(t, err)

	text := succeed(t, "Hello, world", "tokenize", "-m", path)
	require.Equal(t, "<s> Hello, world", succeed(t, text, "tokenize", "-m", path, "-d"))
	var r runReport
	decodeJSON(t, succeed(t, "", "run", "-m", path, "-p", "Hello", "-n", "3", "--seed", "1", "--json"), &r)
	require.Equal(t, 3, r.GeneratedTokens)

	t.Run("a file that is there", func(t *testing.T) {
		o := pipectl(t, "", args...)
		require.Equal(t, exitFailed, o.code)
		require.Contains(t, o.stderr, "tiny.gguf: file already exists\nhint: --force replaces it\n")
	})
	t.Run("a part that is there", func(t *testing.T) {
		other := filepath.Join(dir, "other.gguf")
		require.NoError(t, os.WriteFile(other+".part", []byte("a download"), 0o600))
		o := pipectl(t, "", "synth", "--shape", tinyShape, "--type", "F16", "-o", other)
		require.Equal(t, exitFailed, o.code)
		require.Contains(t, o.stderr, "other.gguf.part: file exists\nhint: ")
		part, err := os.ReadFile(other + ".part")
		require.NoError(t, err)
		require.Equal(t, "a download", string(part))
		require.NoError(t, os.Remove(other+".part"))
	})
	t.Run("force", func(t *testing.T) {
		var report synthReport
		decodeJSON(t, succeed(t, "", append(args, "--force", "--seed", "2", "--json")...), &report)
		forced, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotEqual(t, made, forced)
		require.Len(t, forced, len(made))
		require.Positive(t, report.Seconds)
		require.Positive(t, report.BytesPerSecond)
		report.Seconds, report.BytesPerSecond = 0, 0
		require.Equal(t, synthReport{File: path, Shape: tinyShape, Type: "Q4_K_M", Seed: 2, Bytes: int64(len(made))}, report)
		require.Equal(t, []string{"tiny.gguf"}, names(t, dir))
	})
	t.Run("no disk is that large", func(t *testing.T) {
		if _, known, _ := freeBytes(dir); !known {
			t.Skip("free space is not known here")
		}
		o := pipectl(t, "", "synth", "--shape", "4096x65536x262144x64x64x32000", "--type", "F32", "-o", filepath.Join(dir, "huge.gguf"))
		require.Equal(t, exitFailed, o.code)
		require.Regexp(t, `huge\.gguf: 1\d\d\d TiB are needed, .+ are free on its disk\nhint: make room`, o.stderr)
		require.Equal(t, []string{"tiny.gguf"}, names(t, dir))
	})
}

// A countdown ends when it has been asked n times.
type countdown struct {
	context.Context
	cancel func()
	n      int
}

func (c *countdown) Err() error {
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// Wherever it is interrupted, it leaves nothing.
func TestSynthInterrupted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tiny.gguf")
	code := exitInterrupted
	for n := 1; code == exitInterrupted; n++ {
		require.Less(t, n, 1000)
		ctx, cancel := context.WithCancel(t.Context())
		var stdout, stderr bytes.Buffer
		args := []string{"synth", "--shape", tinyShape, "--type", "Q2_K", "-o", path}
		code = run(&countdown{ctx, cancel, n}, args, strings.NewReader(""), &stdout, &stderr)
		if code == exitInterrupted {
			require.Equal(t, "pipectl: interrupted\n", stderr.String())
			require.Empty(t, names(t, dir))
			require.Greater(t, 40, n, "it was asked more often than there are tensors")
		} else {
			require.Greater(t, n, 20, "it was asked less often than there are tensors")
		}
		cancel()
	}
	require.Equal(t, exitOK, code)
	require.Equal(t, []string{"tiny.gguf"}, names(t, dir))
}

func TestSynthUsage(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "x.gguf")
	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"nothing":         {nil, []string{"required flag(s)", `"shape"`, `"type"`, `"out"`}},
		"operand":         {[]string{"--shape", "1b", "--type", "F16", "x.gguf"}, []string{`"x.gguf"`, "hint: give the file with -o"}},
		"unknown shape":   {[]string{"--shape", "3b", "--type", "F16", "-o", out}, append(synth.Shapes(), "LAYERSxDIM")},
		"unknown type":    {[]string{"--shape", "1b", "--type", "Q9", "-o", out}, typeNames()},
		"rows of a type":  {[]string{"--shape", "1x96x96x2x2x400", "--type", "Q4_K_M", "-o", out}, []string{"Q4_K_M", "96", "multiple of 256"}},
		"no file name":    {[]string{"--shape", tinyShape, "--type", "F16", "-o", ""}, []string{"no file name"}},
		"no regular file": {[]string{"--shape", tinyShape, "--type", "F16", "-o", dir, "--force"}, []string{"no regular file"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := pipectl(t, "", append([]string{"synth"}, tc.args...)...)
			require.Equal(t, exitUsage, o.code, o.stderr)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, "\nhint: ")
			for _, want := range tc.want {
				require.Contains(t, o.stderr, want)
			}
			require.Empty(t, names(t, dir))
		})
	}
	o := pipectl(t, "", "synth", "--shape", tinyShape, "--type", "F16", "-o", filepath.Join(dir, "absent", "x.gguf"))
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "absent")
}
