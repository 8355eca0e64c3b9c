package main

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// A model that is read is never replaced, whatever it is called.
func TestModelIsNotReplaced(t *testing.T) {
	emptyTemp(t)
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	shards, err := filepath.Glob("../../test/testdata/refs/models/llama-split-Q8_0-*.gguf")
	require.NoError(t, err)
	require.Len(t, shards, 3)
	before := map[string][]byte{}
	for _, shard := range append(shards, demoModel) {
		data, err := os.ReadFile(shard)
		require.NoError(t, err)
		before[filepath.Base(shard)] = data
		require.NoError(t, os.WriteFile(path(filepath.Base(shard)), data, 0o600))
	}
	split, alone := filepath.Base(shards[0]), filepath.Base(demoModel)
	targets := []struct{ model, out string }{{alone, alone}, {split, split}, {split, filepath.Base(shards[2])}}
	if os.Symlink(path(alone), path("link")) == nil {
		targets = append(targets, struct{ model, out string }{alone, "link"}, struct{ model, out string }{"link", alone})
	}
	if os.Link(path(alone), path("second")) == nil {
		targets = append(targets, struct{ model, out string }{alone, "second"})
	}
	for _, tc := range targets {
		for _, args := range [][]string{
			{"run", "-p", "x", "-n", "1", "--trace"}, {"logits", "--tokens", "1", "-o"}, {"logits", "--tokens", "1", "--trace"},
			{"bench", "-n", "2", "--rounds", "1", "--plot"}, {"chat", "--trace"},
		} {
			o := pipectl(t, "", append(args, path(tc.out), "-m", path(tc.model))...)
			require.Equal(t, exitUsage, o.code, "%v %v: %s", args, tc, o.stderr)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, tc.out+": a file of the model")
			require.Contains(t, o.stderr, "\nhint: name another file\n")
		}
	}
	o := pipectl(t, "/save "+path(alone)+"\n", "chat", "-m", path(alone), "--chat-template", "chatml")
	require.Equal(t, exitUsage, o.code, o.stderr)
	require.Contains(t, o.stderr, alone+": a file of the model")
	for name, data := range before {
		now, err := os.ReadFile(path(name))
		require.NoError(t, err)
		require.True(t, string(data) == string(now), "%s is not what it was", name)
	}

	require.NoError(t, os.WriteFile(path("old"), []byte("before"), 0o600))
	succeed(t, "", "logits", "-m", path(alone), "--tokens", "1", "-o", path("old"))
	now, err := os.ReadFile(path("old"))
	require.NoError(t, err)
	require.Len(t, now, 4096, "another file is replaced")
}

// A directory that takes no file is noticed before the work.
func TestUnwritableOutput(t *testing.T) {
	emptyTemp(t)
	dir := "/proc" // not even root can write there
	if runtime.GOOS != "linux" {
		if dir = t.TempDir(); os.Geteuid() <= 0 || os.Chmod(dir, 0o500) != nil {
			t.Skip("every directory is writable")
		}
	}
	for _, args := range [][]string{
		{"run", "-p", "x", "-n", "1", "--trace"}, {"logits", "--tokens", "1", "--trace"}, {"logits", "--tokens", "1", "-o"},
		{"bench", "--plot"}, {"bench", "--trace"},
	} {
		o := pipectl(t, "", append(args, filepath.Join(dir, "out.json"), "--progress=json")...)
		require.Equal(t, exitFailed, o.code)
		require.Empty(t, o.stdout)
		require.Regexp(t, `^pipectl: write `+dir+`/out\.json: open .*\n$`, o.stderr, "it has begun")
	}
}
