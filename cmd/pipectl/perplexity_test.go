package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline"
)

// storyText is a text of which the demo model makes several chunks.
func storyText(t *testing.T) string {
	text, err := os.ReadFile("../../model/demo/greedy.txt")
	require.NoError(t, err)
	return strings.Repeat(string(text), 2)
}

// directly computes a perplexity from the logits of each chunk by itself.
func directly(t *testing.T, text string, chunk, step, first int) (perplexity float64, chunks, scored int) {
	e, err := pipeline.Open(demoModel)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	tokens := e.Tokenizer().Encode(text, tokenizer.Options{AddSpecial: true})
	vocab := e.Model().Vocab
	var sum float64
	for at := 0; at+chunk <= len(tokens); at += step {
		s, err := e.NewSession(chunk)
		require.NoError(t, err)
		window := append([]int32{1}, tokens[at+1:at+chunk]...)
		logits, err := s.Feed(t.Context(), window, chunk)
		require.NoError(t, err)
		for i := first; i < chunk; i++ {
			var z float64
			row := logits[(i-1)*vocab:][:vocab]
			for _, l := range row {
				z += math.Exp(float64(l))
			}
			sum -= math.Log(math.Exp(float64(row[window[i]])) / z)
			scored++
		}
		chunks++
		s.Close()
	}
	return math.Exp(sum / float64(scored)), chunks, scored
}

func TestPerplexity(t *testing.T) {
	emptyTemp(t)
	text := storyText(t)
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	measure := func(args ...string) (r perplexityReport) {
		decodeJSON(t, succeed(t, "", append([]string{"perplexity", "-f", path, "--ctx", "32", "--json"}, args...)...), &r)
		return r
	}
	want, chunks, scored := directly(t, text, 32, 32, 17)
	require.Greater(t, chunks, 5)
	all := measure()
	require.InEpsilon(t, want, all.Perplexity, 1e-9)
	require.Less(t, want, 100.0, "the model knows such stories")
	require.Equal(t, chunks, all.Chunks)
	require.Equal(t, scored, all.Scored)
	require.Positive(t, all.Error)
	require.EqualValues(t, 1, all.Passes, "all chunks go in one pass")
	for _, batch := range []string{"1", "4"} {
		r := measure("--batch", batch)
		require.Equal(t, all.Perplexity, r.Perplexity, "the same bits")
		require.Equal(t, all.Error, r.Error)
		require.Greater(t, r.Passes, all.Passes)
	}

	tight := measure("--memory", "floor")
	require.Equal(t, all.Perplexity, tight.Perplexity, "the same bits")
	require.Equal(t, all.Error, tight.Error)
	require.Greater(t, tight.Passes, int64(chunks), "not even a chunk goes in one pass")

	want, chunks, scored = directly(t, text, 32, 8, 24)
	r := measure("--stride", "8", "--batch", "3")
	require.InEpsilon(t, want, r.Perplexity, 1e-9)
	require.Equal(t, chunks, r.Chunks)
	require.Equal(t, scored, r.Scored)
	require.Less(t, r.Perplexity, all.Perplexity, "with more to go by")

	require.Equal(t, 2, measure("--chunks", "2").Chunks)

	o := pipectl(t, text, "perplexity", "--ctx", "32", "--batch", "4")
	require.Equal(t, exitOK, o.code)
	require.Regexp(t, `^perplexity \d+\.\d{4} \+/- \d+\.\d{4}, over \d+ tokens in \d+ chunks of 32\n$`, o.stdout)
	require.NotContains(t, o.stderr, "chunk", "no progress but on a terminal")
}

// The tokens of a long text are there before the plan, which leaves room for them.
func TestPerplexityPlansForItsText(t *testing.T) {
	floor := func(text string, args ...string) float64 {
		path := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
		cmd := program(t, append([]string{"perplexity", "--ctx", "32", "--batch", "1", "--memory", "1MiB", "-f", path}, args...)...)
		out, err := cmd.CombinedOutput()
		require.Error(t, err)
		found := regexp.MustCompile(`needs at least (\d+) MiB`).FindSubmatch(out)
		require.NotNil(t, found, "%s", out)
		n, err := strconv.ParseFloat(string(found[1]), 64)
		require.NoError(t, err)
		return n
	}
	const tokens = 6 << 20 // of 4 bytes
	short, long := floor(strings.Repeat("\n", 100)), floor(strings.Repeat("\n", tokens))
	require.Greater(t, long-short, 16.0)
	require.Greater(t, long-floor(strings.Repeat("\n", tokens), "--chunks", "1"), 16.0, "tokens of no chunk do not stay")
}

func TestPerplexityFails(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no such file":    {[]string{"-f", "absent"}, exitFailed, "absent"},
		"too short":       {nil, exitFailed, "makes no chunk of 512"},
		"a long stride":   {[]string{"--ctx", "8", "--stride", "8"}, exitUsage, "--stride 8"},
		"a tiny chunk":    {[]string{"--ctx", "3"}, exitUsage, "--ctx 3"},
		"no stride":       {[]string{"--stride", "0"}, exitUsage, "--stride"},
		"an operand":      {[]string{"text"}, exitUsage, "-f"},
		"a broken tensor": {[]string{"-m", brokenDemo(t), "--ctx", "4"}, exitFailed, "not a finite number"},
	} {
		o := pipectl(t, "Once upon a time there was", append([]string{"perplexity"}, tc.args...)...)
		require.Equal(t, tc.code, o.code, "%s: %s", name, o.stderr)
		require.Contains(t, o.stderr, tc.want, name)
		require.Empty(t, o.stdout)
	}
}

func TestPerplexityInterrupted(t *testing.T) {
	emptyTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	cancelling := writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte("perplexity ")) {
			cancel() // at the first estimate
		}
		return stderr.Write(p)
	})
	text := strings.Repeat(storyText(t), 100) // much more than is computed until then
	args := []string{"perplexity", "--ctx", "32", "--batch", "1", "--progress=json"}
	require.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(text), &stdout, cancelling))
	require.Regexp(t, `(?m)^after (1 chunk|\d+ chunks): perplexity \d`, stderr.String())
	require.Empty(t, stdout.String())
}
