package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/model/demo"
)

// The reference is the text of another engine, so every way to read must give
// the same text; that the logits are the same bits says more.
func TestGreedy(t *testing.T) {
	emptyTemp(t)
	reference, err := os.ReadFile("../../model/demo/greedy.txt")
	require.NoError(t, err)
	want := strings.TrimSuffix(string(reference), "\n")
	predict, stop := "256", "end"
	if raceEnabled {
		predict, stop = "16", "length"
	}
	digest := ""
	for name, tc := range map[string]struct {
		args    []string
		backend string
		buffers int
	}{
		"default":  {nil, "pread", 2},
		"no async": {[]string{"--no-async"}, "pread", 1},
		"mmap":     {[]string{"--mmap"}, "mmap", 2},
		"3 slots":  {[]string{"--buffers", "3"}, "pread", 3},
		"a thread": {[]string{"--threads", "1", "-m", demoModel}, "pread", 2},
	} {
		t.Run(name, func(t *testing.T) {
			out := succeed(t, "", append([]string{"run", "--temp", "0", "-n", predict, "-p", demo.Prompt, "--json"}, tc.args...)...)
			var r runReport
			decodeJSON(t, out, &r)
			require.Contains(t, out, `"compute":{"working_nanos":`, "it counts no blocks")
			require.Nil(t, r.Seed, "greedy")
			require.Equal(t, stop, r.StopReason)
			if stop == "end" {
				require.Equal(t, want, demo.Prompt+r.Text)
			} else {
				require.True(t, strings.HasPrefix(want, demo.Prompt+r.Text), r.Text)
			}
			require.Equal(t, tc.backend, r.Backend)
			require.Equal(t, tc.buffers, r.Buffers)
			require.Positive(t, r.GeneratedTokens)
			require.Positive(t, r.BytesRead)
			if digest == "" {
				digest = r.LogitsSHA256
			}
			require.Len(t, digest, 64)
			require.Equal(t, digest, r.LogitsSHA256)
		})
	}
}

func TestRunText(t *testing.T) {
	emptyTemp(t)
	o := pipectl(t, "", "run", "--temp", "0", "-n", "12")
	require.Equal(t, exitOK, o.code)
	require.True(t, strings.HasPrefix(o.stdout, " there was a cheerful child"), o.stdout)
	for _, want := range []string{
		"prompt      5 tokens, ", " to the first token\n", "generated   12 tokens, ", " tokens/s, as many as -n allows\n",
		" hit", " miss", ", stalled for ", "MiB in 12 passes, ", "memory      ", "limited by  ", "seed        none",
	} {
		require.Contains(t, o.stderr, want)
	}
	require.NotContains(t, o.stderr, demo.Prompt, "echo without a terminal")
}

// Where both go to one file, text and statistics do not share a line.
func TestRunToOneFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer f.Close()
	require.Equal(t, exitOK, run(t.Context(), []string{"run", "--temp", "0", "-n", "2"}, strings.NewReader(""), f, f))
	out, err := os.ReadFile(f.Name())
	require.NoError(t, err)
	require.Contains(t, string(out), " there was\nprompt  ")
}

func TestPrompt(t *testing.T) {
	report := func(stdin string, args ...string) (r runReport) {
		decodeJSON(t, succeed(t, stdin, append([]string{"run", "--temp", "0", "-n", "4", "--json"}, args...)...), &r)
		return r
	}
	same := func(a, b runReport) bool { return a.LogitsSHA256 == b.LogitsSHA256 }
	flag := report("", "-p", "One day")
	require.True(t, same(flag, report("One day")), "from standard input")
	require.True(t, same(flag, report("One day\r\n")), "with a newline")
	require.True(t, same(flag, report("Not this", "-p", "One day")), "-p goes first")
	require.True(t, same(flag, report("One day", "-m", demoModel)), "another model takes standard input too")
	require.False(t, same(flag, report("")))
	require.True(t, same(report("", "-p", demo.Prompt), report("")), "the demo model's own")
	require.Equal(t, 1, report("", "-p", "").PromptTokens, "an empty -p is a prompt: the start of a text alone")
}

func TestSeed(t *testing.T) {
	report := func(args ...string) (r runReport) {
		decodeJSON(t, succeed(t, "", append([]string{"run", "-n", "12", "--json", "--temp", "1.5"}, args...)...), &r)
		return r
	}
	drawn := report()
	require.Equal(t, "demo", drawn.Model)
	again := report("--seed", fmt.Sprint(*drawn.Seed), "-m", demoModel, "-p", demo.Prompt)
	require.Equal(t, drawn.Seed, again.Seed)
	require.Equal(t, drawn.Text, again.Text, "the seed in the report gives the text again")
	require.Equal(t, demoModel, again.Model)
	texts := map[string]bool{} // of seeds that are given: two that are drawn may well say the same
	for seed := range 5 {
		texts[report("--seed", fmt.Sprint(seed)).Text] = true
	}
	require.Greater(t, len(texts), 1, "the seed makes no difference")
	require.Contains(t, pipectl(t, "", "run", "-n", "1", "--seed", "77").stderr, "seed        77\n")
}

func TestContextFull(t *testing.T) {
	model := endlessDemo(t)
	o := pipectl(t, "", "run", "-m", model, "-p", "Once", "--ctx", "8", "-n", "0", "--json")
	require.Equal(t, exitOK, o.code, o.stderr)
	var r runReport
	decodeJSON(t, o.stdout, &r)
	require.Equal(t, "context", r.StopReason)
	require.Empty(t, o.stderr)

	o = pipectl(t, "", "run", "-m", model, "-p", strings.Repeat("Once upon a time ", 4), "--ctx", "8")
	require.Equal(t, exitFailed, o.code)
	require.Regexp(t, `^pipectl: .*\nhint: raise --ctx, .*\n$`, o.stderr, "there is nothing to count")
}

// A run that fails in a pass says what it has done so far.
func TestRunFails(t *testing.T) {
	model := brokenDemo(t)
	o := pipectl(t, "", "run", "-m", model, "-p", "Once")
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "generated   0 tokens, - tokens/s, failed\n")
	require.Contains(t, o.stderr, compute.ErrNumeric.Error())
	require.Contains(t, o.stderr, "\nhint: ")

	o = pipectl(t, "", "run", "-m", model, "-p", "Once", "--json")
	require.Equal(t, exitFailed, o.code)
	var r runReport
	decodeJSON(t, o.stdout, &r)
	require.Equal(t, "error", r.StopReason)
}

// writerFunc is an io.Writer.
type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestInterruptedRun(t *testing.T) {
	emptyTemp(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stdout, stderr bytes.Buffer
	cancelling := writerFunc(func(p []byte) (int, error) {
		if stdout.Len() > 20 {
			cancel()
		}
		return stdout.Write(p)
	})
	args := []string{"run", "-m", endlessDemo(t), "-p", demo.Prompt, "--temp", "0", "-n", "-1", "--ctx", endlessContext}
	require.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(""), cancelling, &stderr))
	require.True(t, strings.HasPrefix(stdout.String(), " there was a cheerful"), stdout.String())
	require.Contains(t, stderr.String(), " tokens/s, stopped early\n")
	require.NotContains(t, stderr.String(), " a pass", "one was not finished")
	require.True(t, strings.HasSuffix(stderr.String(), "\npipectl: interrupted\n"), stderr.String())
}

func TestInterruptedJSON(t *testing.T) {
	args := []string{"run", "-m", endlessDemo(t), "-p", demo.Prompt, "-n", "-1", "--ctx", endlessContext, "--json", "--progress=json"}
	for _, within := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		if !within {
			cancel()
		}
		var stdout, stderr bytes.Buffer
		cancelling := writerFunc(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte(`"phase":"prompt"`)) {
				cancel()
			}
			return stderr.Write(p)
		})
		require.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(""), &stdout, cancelling))
		_, after, _ := strings.Cut("\n"+stderr.String(), "\npipectl: ")
		require.Equal(t, "interrupted\n", after)
		require.Equal(t, within, strings.HasPrefix(stderr.String(), "{"))
		var r runReport
		decodeJSON(t, stdout.String(), &r)
		require.Equal(t, "cancelled", r.StopReason)
	}
}

func TestOutputFails(t *testing.T) {
	emptyTemp(t)
	for name, tc := range map[string]struct {
		err  error
		code int
		want string
	}{
		"the reader has had enough": {syscall.EPIPE, exitOK, ""},
		"the disk is full":          {errors.New("disk full"), exitFailed, "pipectl: standard output: disk full\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			failing := writerFunc(func([]byte) (int, error) { return 0, tc.err })
			require.Equal(t, tc.code, run(t.Context(), []string{"run", "--temp", "0"}, strings.NewReader(""), failing, &stderr))
			require.Contains(t, stderr.String(), "generated   1 token, - tokens/s, stopped early\n")
			_, after, _ := strings.Cut(stderr.String(), "\nseed        none, greedy\n")
			require.Equal(t, tc.want, after)
		})
	}
}

func TestProgressEnds(t *testing.T) { // TestMain looks for what is left of it
	bar := newBar(new(bytes.Buffer))
	prompt, load := bar.phase(phasePrompt, "blocks"), bar.phase(phaseLoad, "blocks")
	for done := range int64(4) {
		load(done, 3)
		prompt(done, 3)
	}
	bar.end()
	bar.end()
}
