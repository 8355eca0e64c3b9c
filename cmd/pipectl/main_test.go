package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// childEnv makes a test binary the program itself, as bench starts it.
const childEnv = "LAYERPIPE_TEST_PIPECTL"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// program is a command line that is to run in a process of its own.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), childEnv+"=1")
	return cmd
}

const demoModel = "../../model/demo/demo.gguf"

// outcome is what a command line did.
type outcome struct {
	code           int
	stdout, stderr string
}

// pipectl runs a command line with stdin.
func pipectl(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), args, strings.NewReader(stdin), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

// succeed runs a command line that must succeed and returns its output.
func succeed(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	o := pipectl(t, stdin, args...)
	require.Equal(t, exitOK, o.code, o.stderr)
	return o.stdout
}

// decodeJSON decodes one JSON object that is all of text.
func decodeJSON(t *testing.T, text string, v any) {
	t.Helper()
	require.True(t, strings.HasPrefix(text, "{"), text)
	require.NoError(t, json.Unmarshal([]byte(text), v)) // anything behind it is an error
}

// emptyTemp makes a directory that temporary files go to, and demands that it
// is empty when the test ends.
func emptyTemp(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TMP", dir) // on Windows
	t.Cleanup(func() {
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries, "temporary files are left")
	})
}

// patchedDemo writes the demo model, changed by patch, to a file.
func patchedDemo(t *testing.T, patch func(model []byte)) string {
	t.Helper()
	return patchedFile(t, demoModel, patch)
}

// patchedFile writes a model's file, changed by patch, to another.
func patchedFile(t *testing.T, model string, patch func(model []byte)) string {
	t.Helper()
	data, err := os.ReadFile(model)
	require.NoError(t, err)
	patch(data)
	path := filepath.Join(t.TempDir(), "patched.gguf")
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}

// endlessDemo is the demo model without a token that ends a text: it goes on
// until its context is full.
//
// With endlessContext that takes minutes, and makes more text than a pipe holds
// which nobody reads. Its KV cache is 120 MB.
func endlessDemo(t *testing.T) string {
	return patchedDemo(t, func(model []byte) {
		const key, uint32Bytes, unused = "tokenizer.ggml.eos_token_id", 4, 3
		at := bytes.Index(model, []byte(key))
		require.Positive(t, at)
		binary.LittleEndian.PutUint32(model[at+len(key)+uint32Bytes:], unused)
		require.Equal(t, 1, bytes.Count(model, []byte("</s>")))
		copy(model[bytes.Index(model, []byte("</s>")):], "</x>")
	})
}

// brokenDemo is the demo model with a NaN among its weights.
func brokenDemo(t *testing.T) string {
	f, err := gguf.Open(demoModel)
	require.NoError(t, err)
	gate, ok := f.Tensor("blk.3.ffn_gate.weight")
	require.True(t, ok)
	return patchedDemo(t, func(model []byte) { // all bits of a row: whatever the format, its scales are NaN
		for i := range gate.Type.RowBytes(gate.Dims[0]) {
			model[int(gate.Offset)+i] = 0xff
		}
	})
}

const endlessContext = "30000"

func TestHelp(t *testing.T) {
	for _, command := range []string{"run", "chat", "plan", "logits", "trace", "bench", "doctor", "tokenize", "inspect", "perplexity", "synth", "version"} {
		help := succeed(t, "", command, "-h")
		require.Contains(t, help, "Examples:\n  pipectl "+command)
		require.Equal(t, help, succeed(t, "", "help", command))
		require.NotRegexp(t, `\n +(-., )?--\S+ value`, help, "a flag that does not say what it takes")
		require.Contains(t, succeed(t, ""), "\n  "+command+" ", "the command is not listed")
	}
	require.Contains(t, succeed(t, "", "completion", "bash"), "pipectl")
}

func TestUsage(t *testing.T) {
	emptyTemp(t)
	for name, tc := range map[string]struct {
		args []string
		want []string // in the message
	}{
		"unknown command":           {[]string{"rnu"}, []string{`unknown command "rnu"`, "Did you mean", "\trun"}},
		"help for no command":       {[]string{"help", "nosuch"}, []string{`unknown command "nosuch"`}},
		"unit forgotten":            {[]string{"run", "--memory", "6"}, []string{"6 bytes", "6GiB"}},
		"unknown flag":              {[]string{"run", "--bufers", "3"}, []string{"--bufers", "pipectl run -h"}},
		"operand of run":            {[]string{"run", "Hello"}, []string{`"Hello"`, "hint: give the prompt with -p"}},
		"no buffers":                {[]string{"run", "--buffers", "0"}, []string{`"--buffers"`, "at least 1"}},
		"buffers not a number":      {[]string{"run", "--buffers", "two"}, []string{`"two"`, "not an integer"}},
		"buffers beyond an int":     {[]string{"run", "--buffers", "99999999999999999999"}, []string{"out of range"}},
		"more buffers than blocks":  {[]string{"run", "--buffers", "9223372036854775807"}, []string{`"--buffers"`, "at most 65536"}},
		"threads of bench":          {[]string{"bench", "--threads", "9999"}, []string{"at most 1024"}},
		"two files":                 {[]string{"inspect", "a", "b"}, []string{`"b"`, "one file at a time"}},
		"predict":                   {[]string{"run", "-n", "-2"}, []string{"--predict", "at least -1"}},
		"no threads":                {[]string{"run", "--threads", "0"}, []string{"--threads"}},
		"no context":                {[]string{"run", "--ctx", "0"}, []string{"--ctx"}},
		"KV format":                 {[]string{"run", "--kv", "f8"}, []string{"must be f16 or f32"}},
		"slots without async":       {[]string{"run", "--no-async", "--buffers", "2"}, []string{"--no-async", "--buffers 2"}},
		"mmap without async":        {[]string{"logits", "--tokens", "1", "--out", "x", "--no-async", "--mmap"}, []string{"--no-async", "--mmap"}},
		"temperature":               {[]string{"run", "--temp", "-1"}, []string{"temperature -1"}},
		"temperature not a number":  {[]string{"run", "--temp", "hot"}, []string{`"hot" for "--temp" flag: not a number`}},
		"temperature beyond floats": {[]string{"run", "--temp", "1e99"}, []string{`"--temp" flag: out of range`}},
		"top-k not an integer":      {[]string{"run", "--top-k", "1e3"}, []string{`"--top-k" flag: not an integer`}},
		"neither true nor false":    {[]string{"run", "--json=maybe"}, []string{`"--json" flag: not true or false`}},
		"mmap with a space":         {[]string{"run", "--mmap", "view"}, []string{`"view"`, "hint: write --mmap=view"}},
		"operand behind mmap":       {[]string{"run", "--mmap", "Hello"}, []string{`"Hello"`, "hint: give the prompt with -p"}},
		"unit":                      {[]string{"run", "--unit", "block"}, []string{"must be layer or tensor"}},
		"memory":                    {[]string{"run", "--memory", "much"}, []string{"6GiB"}},
		"top-p":                     {[]string{"run", "--top-p", "1.5"}, []string{"top-p 1.5"}},
		"seed":                      {[]string{"run", "--seed", "-1"}, []string{`"-1" for "--seed" flag: not an integer from 0 on`}},
		"no model name":             {[]string{"run", "-m", ""}, []string{"--model", "no file name"}},
		"model without prompt":      {[]string{"run", "-m", demoModel}, []string{"no prompt", "hint: give a text to continue with -p"}},
		"no tokens":                 {[]string{"logits"}, []string{"--tokens"}},
		"tokens not numbers":        {[]string{"logits", "--tokens", "1,x"}, []string{`token "x"`}},
		"negative token":            {[]string{"logits", "--tokens", "-1"}, []string{`token "-1"`}},
		"token beyond vocabulary":   {[]string{"logits", "--tokens", "1,1024"}, []string{"token 1024", "0 to 1023"}},
		"JSON and logits":           {[]string{"logits", "--tokens", "1", "--json"}, []string{"--out"}},
		"two texts":                 {[]string{"tokenize", "a", "b"}, []string{`"b"`, "quotes"}},
		"decode a word":             {[]string{"tokenize", "--decode", "a"}, []string{`token "a"`}},
		"decode beyond vocabulary":  {[]string{"tokenize", "--decode", "1", "1024"}, []string{"token 1024"}},
		"decode to JSON":            {[]string{"tokenize", "--decode", "--json", "1"}, []string{"--json"}},
		"decode and special tokens": {[]string{"tokenize", "--decode", "--no-special", "1"}, []string{"--no-special"}},
		"operand of version":        {[]string{"version", "x"}, []string{`"x"`}},
		"flag before the command":   {[]string{"--verbose", "run"}, []string{"--verbose", "behind its name"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := pipectl(t, "", tc.args...)
			require.Equal(t, exitUsage, o.code, o.stderr)
			require.Empty(t, o.stdout)
			require.True(t, strings.HasPrefix(o.stderr, "pipectl: "), o.stderr)
			require.Contains(t, o.stderr, "\nhint: ")
			require.NotContains(t, o.stderr, "strconv")
			for _, want := range tc.want {
				require.Contains(t, o.stderr, want)
			}
		})
	}
}

func TestModelDoesNotOpen(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.gguf")
	require.NoError(t, os.WriteFile(text, []byte("Once upon a time"), 0o600))
	other := patchedDemo(t, func(model []byte) {
		copy(model[bytes.Index(model, []byte("llama")):], "mamba")
	})
	unreadable := filepath.Join(dir, "unreadable.gguf")
	require.NoError(t, os.WriteFile(unreadable, nil, 0o200))
	const shard = "llama-split-Q8_0-00001-of-00003.gguf"
	first, err := os.ReadFile("../../test/testdata/refs/models/" + shard)
	require.NoError(t, err)
	alone := filepath.Join(dir, shard)
	require.NoError(t, os.WriteFile(alone, first, 0o600))
	for name, tc := range map[string]struct{ file, message, hint string }{
		"missing":       {filepath.Join(dir, "absent.gguf"), "absent.gguf", "check the path"},
		"not GGUF":      {text, "text.gguf", "no GGUF model"},
		"architecture":  {other, `"mamba"; supported: `, "supported architecture"},
		"directory":     {dir, dir + ": a directory", "name the GGUF file in it"},
		"device":        {os.DevNull, os.DevNull + ": a pipe or device", "store it in a file"},
		"unreadable":    {unreadable, "unreadable.gguf", "must be readable"},
		"missing shard": {alone, "no llama-split-Q8_0-00002-of-00003.gguf, 2 of 3, beside " + alone, "in one directory"},
	} {
		if name == "unreadable" && (runtime.GOOS == "windows" || os.Geteuid() == 0) {
			continue // it is readable
		}
		for _, args := range [][]string{{"run", "-p", "x"}, {"run", "-p", "x", "--json"}, {"logits", "--tokens", "1"}, {"tokenize", "x"}} {
			if name == "architecture" && args[0] == "tokenize" {
				continue // the vocabulary is all it needs
			}
			o := pipectl(t, "", append(args, "-m", tc.file)...)
			require.Equal(t, exitFailed, o.code, name)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, tc.message)
			require.Contains(t, o.stderr, "\nhint: ")
			require.Contains(t, o.stderr, tc.hint)
		}
	}
}

func TestVersion(t *testing.T) {
	require.Regexp(t, `^pipectl .+, go1\..+, \w+/\w+\n$`, succeed(t, "", "version"))
	require.Equal(t, succeed(t, "", "version"), succeed(t, "", "--version"))
	var v map[string]any
	decodeJSON(t, succeed(t, "", "version", "--json"), &v)
	require.NotEmpty(t, v["version"])
	require.NotEmpty(t, v["go"])
}

// A read of stdin that never ends does not keep an interrupted command.
func TestInterruptedRead(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	go func() {
		_, err := w.Write([]byte("the reader reads"))
		if err == nil {
			cancel()
		}
	}()
	defer w.Close() // ends the read that was left behind
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"tokenize"}, r, &stdout, &stderr))
	require.Equal(t, "pipectl: interrupted\n", stderr.String())
	require.Empty(t, stdout.String())
}

// Work that knows no context does not keep an interrupted command either.
func TestUnlessEnded(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	began, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	go func() {
		<-began
		cancel(io.ErrClosedPipe)
	}()
	require.Equal(t, io.ErrClosedPipe, unlessEnded(ctx, func() {
		close(began)
		<-release
	}))
	did := false
	require.NoError(t, unlessEnded(t.Context(), func() { did = true }))
	require.True(t, did)
}

// What goes wrong later says so in terms of the command line.
func TestFails(t *testing.T) {
	emptyTemp(t)
	dir := t.TempDir()
	for name, tc := range map[string]struct {
		args []string
		want string // in the message
	}{
		"memory for the demo model": {[]string{"run", "--memory", "1MiB"}, "pipectl: demo: pipeline: not enough memory"},
		"context beyond memory":     {[]string{"run", "--ctx", "9223372036854775807"}, "not enough memory"},
		"bias of no token":          {[]string{"run", "--logit-bias", "1024=1"}, "bias of token 1024: not in a vocabulary of 1024"},
		"trace to a directory":      {[]string{"run", "--trace", dir}, dir + ": a directory"},
		"plot to a directory":       {[]string{"bench", "--plot", dir}, dir + ": a directory"},
		"trace to nowhere":          {[]string{"run", "--trace", filepath.Join(dir, "absent", "x")}, "absent"},
		"a directory for a text":    {[]string{"perplexity", "-f", dir}, dir},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" && strings.HasSuffix(name, "demo model") {
				t.Skip("it has a name there")
			}
			o := pipectl(t, "", tc.args...)
			require.Equal(t, exitFailed, o.code, o.stderr)
			require.Empty(t, o.stdout)
			require.Contains(t, o.stderr, tc.want)
			require.NotContains(t, o.stderr, "/proc/")
		})
	}
}

// A full disk is no wrong usage.
func TestVersionDoesNotFit(t *testing.T) {
	full := writerFunc(func([]byte) (int, error) {
		return 0, &fs.PathError{Op: "write", Path: "stdout", Err: errors.New("full")}
	})
	for _, args := range [][]string{{"version"}, {"--version"}, {"completion", "bash"}} {
		var stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), args, strings.NewReader(""), full, &stderr))
		require.Equal(t, "pipectl: write stdout: full\n", stderr.String())
	}
}

// zeros is an input that never ends.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An input that never ends is not read for ever.
func TestEndlessInput(t *testing.T) {
	emptyTemp(t)
	model := "../../test/testdata/refs/models/qwen2-Q8_0.gguf"
	for _, args := range [][]string{{"run"}, {"run", "--chat", "-m", model}, {"chat", "--chat-template", "chatml", "-m", model}, {"tokenize"}} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitFailed, run(t.Context(), args, zeros{}, &stdout, &stderr), stderr.String())
		require.Empty(t, stdout.String())
		require.Regexp(t, `^pipectl: standard input: it goes on after \d+\.?\d* MiB, more is not taken\n$`, stderr.String())
	}
}
