package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInspect(t *testing.T) {
	emptyTemp(t)
	text := succeed(t, "", "inspect")
	for _, want := range []string{
		`file       demo`, "GGUF 3, little-endian", " in 1 file, ", "8 layers of width", `a text begins with 1 "<s>", ends with 2 "</s>"`,
		"chat       no template", "runs       yes", "\nMETADATA\ngeneral.architecture", `[1024] "<unk>", "<s>", "</s>"`, ", ...\n",
		"\nBLOCKS\nlayer 0 ", "\noutput ", "\nblk.0.attn_q.weight ",
	} {
		require.Contains(t, text, want)
	}
	var r inspection
	decodeJSON(t, succeed(t, "", "inspect", "--json", demoModel), &r)
	require.Equal(t, demoModel, r.File)
	require.Equal(t, succeed(t, "", "inspect", demoModel), succeed(t, "", "inspect", "-m", demoModel))
	require.Empty(t, r.Problems)
	require.Nil(t, r.Template)
	require.Equal(t, 1024, r.Tokenizer.Tokens)
	require.EqualValues(t, 2, r.Tokenizer.EOS.ID)
	require.Len(t, r.Blocks, r.Params.Layers+1)
	info, err := os.Stat(demoModel)
	require.NoError(t, err)
	require.Equal(t, info.Size(), r.Bytes)
	// Blocks, vectors and, if it is no block, the embedding are all tensors.
	var tensors, parts int64
	for _, x := range r.Tensors {
		tensors += x.Bytes
	}
	for _, b := range r.Blocks {
		require.Positive(t, b.Bytes)
		require.Positive(t, b.Tensors)
		parts += b.Bytes
	}
	require.GreaterOrEqual(t, parts+r.Resident+r.ByRow, tensors)
	for _, p := range r.Metadata {
		if p.Key == "tokenizer.ggml.tokens" {
			require.Equal(t, 1024, p.Len)
			require.Len(t, p.Value, shownElements)
		}
	}
}

// A file that cannot run is shown with all that is wrong.
func TestInspectWhatCannotRun(t *testing.T) {
	path := patchedDemo(t, func(model []byte) {
		copy(model[bytes.Index(model, []byte("llama")):], "mamba") // general.architecture
		key := []byte("tokenizer.ggml.model")
		at := bytes.Index(model, key) + len(key) + 4 // type
		require.EqualValues(t, len("llama"), binary.LittleEndian.Uint64(model[at:]))
		copy(model[at+8:], "wordy")
	})
	text := succeed(t, "", "inspect", path)
	require.Regexp(t, `runs not +.*"mamba"`, text)
	require.Regexp(t, `runs not +.*"wordy"`, text)
	require.Contains(t, text, "\nTENSORS\n")
	require.NotContains(t, text, "\nBLOCKS\n")
	var r inspection
	decodeJSON(t, succeed(t, "", "inspect", "--json", path), &r)
	require.Len(t, r.Problems, 2)
	require.Nil(t, r.Params)
	require.Nil(t, r.Tokenizer)
	require.NotEmpty(t, r.Tensors)
}

func TestInspectTemplate(t *testing.T) {
	var r inspection
	decodeJSON(t, succeed(t, "", "inspect", "--json", templatedDemo(t, "{{ messages }}")), &r)
	require.Equal(t, &templateFacts{Bytes: 14}, r.Template)
	bad := templatedDemo(t, "\n{{ messages")
	decodeJSON(t, succeed(t, "", "inspect", "--json", bad), &r)
	require.Contains(t, r.Template.Problem, "line 2")
	require.Empty(t, r.Problems, "it runs without chat")
	require.Contains(t, succeed(t, "", "inspect", bad), "cannot be rendered")
	require.NotContains(t, succeed(t, "", "inspect", templatedDemo(t, "\x1b[2J")), "\x1b", "no command for the terminal")
}

func TestInspectFails(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text.gguf")
	require.NoError(t, os.WriteFile(text, []byte("Once upon a time"), 0o600))
	for _, path := range []string{text, text + ".absent", filepath.Dir(text)} {
		o := pipectl(t, "", "inspect", path)
		require.Equal(t, exitFailed, o.code)
		require.Empty(t, o.stdout)
		require.Contains(t, o.stderr, filepath.Base(path))
		require.Contains(t, o.stderr, "\nhint: ")
	}
	require.Equal(t, exitUsage, pipectl(t, "", "inspect", "").code, "a variable that is not set is not the demo")
	require.Equal(t, exitUsage, pipectl(t, "", "inspect", "a", "b").code)
	require.Equal(t, exitUsage, pipectl(t, "", "inspect", "-m", "a", "b").code)
}
