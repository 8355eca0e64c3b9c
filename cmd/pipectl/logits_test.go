package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLogits(t *testing.T) {
	emptyTemp(t)
	const vocab = 1024
	tokens := "1 418,419, 973 63\n"
	want := succeed(t, "", "logits", "--tokens", tokens)
	require.Len(t, want, 5*vocab*4)
	require.NotEqual(t, want[:vocab*4], want[vocab*4:2*vocab*4])
	for name, args := range map[string][]string{
		"one by one":           {"--one-by-one"},
		"one slot, one by one": {"--no-async", "--one-by-one"},
		"mapped":               {"--mmap", "--buffers", "3"},
		"one thread":           {"--threads", "1"},
		"model from its file":  {"-m", demoModel, "--ctx", "5"},
	} {
		require.True(t, want == succeed(t, "", append([]string{"logits", "--tokens", tokens}, args...)...), name)
	}
	require.False(t, want == succeed(t, "", "logits", "--tokens", tokens, "--kv", "f32"))

	out := filepath.Join(t.TempDir(), "logits.f32")
	var report struct {
		Shape  []int
		SHA256 string
	}
	decodeJSON(t, succeed(t, "", "logits", "--tokens", tokens, "--out", out, "--json"), &report)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.True(t, want == string(got))
	digest := sha256.Sum256(got)
	require.Equal(t, []int{5, vocab}, report.Shape)
	require.Equal(t, hex.EncodeToString(digest[:]), report.SHA256)
	require.Empty(t, succeed(t, "", "logits", "--tokens", tokens, "--out", out))
}

func TestLogitsFail(t *testing.T) {
	o := pipectl(t, "", "logits", "--tokens", "1,2,3", "--ctx", "2")
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "\nhint: raise --ctx")
	require.Empty(t, o.stdout)

	dir := t.TempDir()
	out := filepath.Join(dir, "logits.f32")
	require.NoError(t, os.WriteFile(out, []byte("before"), 0o600))
	o = pipectl(t, "", "logits", "-m", brokenDemo(t), "--tokens", "1,2,3", "--out", out, "--json")
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "not a finite number")
	require.Empty(t, o.stdout)
	got, err := os.ReadFile(out)
	require.NoError(t, err)
	require.Equal(t, "before", string(got), "a run that failed has touched the file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "half a file is left")

	o = pipectl(t, "", "logits", "--tokens", "1", "--out", filepath.Join(dir, "absent", "x"))
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "absent")
	require.NotContains(t, o.stderr, "-m", "a hint about the model")
}

func TestLogitsThroughLink(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	if err := os.Symlink(file, link); err != nil {
		t.Skip("no symbolic links: ", err)
	}
	succeed(t, "", "logits", "--tokens", "1", "--out", link)
	info, err := os.Lstat(link)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSymlink, "the link was replaced")
	info, err = os.Stat(file)
	require.NoError(t, err)
	require.EqualValues(t, 4096, info.Size())

	succeed(t, "", "logits", "--tokens", "1", "--out", os.DevNull)
	info, err = os.Stat(os.DevNull)
	require.NoError(t, err)
	require.False(t, info.Mode().IsRegular(), "the device was replaced")
}
