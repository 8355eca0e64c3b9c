package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline/trace"
)

// traced makes a trace of the demo model: a pass of 3 tokens and 3 of one.
func traced(t *testing.T, args ...string) string {
	path := filepath.Join(t.TempDir(), "trace.json")
	succeed(t, "", append([]string{"run", "-p", "Once upon", "-n", "4", "--temp", "0", "--buffers", "2", "--trace", path}, args...)...)
	return path
}

func TestTrace(t *testing.T) {
	path := traced(t)
	chart := succeed(t, "", "trace", path, "--width", "80")
	lines := strings.Split(chart, "\n")
	require.Regexp(t, `^pass 3 \(of 4 recorded\): 1 token in .*s$`, lines[0])
	for i, name := range []string{"reader", "dequantizer", "compute"} {
		require.Regexp(t, `^`+name+` +[#=. -]+  +\d+\.\d %$`, lines[3+i])
		require.Len(t, lines[3+i], 80)
	}
	require.Regexp(t, `[#=]`, lines[5])
	require.Regexp(t, `^critical +[SDA ]*A[SDA ]*$`, lines[6], "the last is arithmetic")
	require.Regexp(t, `\nbounded by +(storage|dequantizing|arithmetic)\noverlap efficiency  [01]\.\d{3}: `, chart)

	var first, last traceReport
	decodeJSON(t, succeed(t, "", "trace", path, "--json", "--pass", "0"), &first)
	decodeJSON(t, succeed(t, "", "trace", path, "--json"), &last)
	require.Equal(t, 4, first.Passes)
	require.Equal(t, 0, first.Pass.Number)
	require.EqualValues(t, 3, first.Pass.Tokens)
	require.Equal(t, 3, last.Pass.Number)
	require.Contains(t, trace.Names, last.Limiter)
	require.Len(t, last.Actors, 3)
	require.Positive(t, last.Actors[2].Working)
}

func TestTraceOfLogits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	succeed(t, "", "logits", "--tokens", "1,2,3", "--one-by-one", "--out", os.DevNull, "--trace", path)
	require.Contains(t, succeed(t, "", "trace", path), "pass 2 (of 3 recorded)")
}

func TestTraceOfChat(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	succeed(t, "Hello\nAnd you?\n", "chat", "--chat-template", "chatml", "-n", "2", "--temp", "0", "--trace", path)
	require.Contains(t, succeed(t, "", "trace", path), "pass 3 (of 4 recorded)")
}

func TestTraceFails(t *testing.T) {
	path := traced(t)
	o := pipectl(t, "", "trace", path, "--pass", "4")
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "no pass 4; it has 0 to 3")
	require.Empty(t, o.stdout)

	o = pipectl(t, "", "trace", demoModel)
	require.Equal(t, exitFailed, o.code)
	require.Contains(t, o.stderr, "not a trace of layerpipe")

	o = pipectl(t, "", "trace", path+".absent")
	require.Equal(t, exitFailed, o.code)

	for _, args := range [][]string{{"trace"}, {"trace", path, path}, {"trace", path, "--width", "3"}, {"trace", path, "--pass", "-1"}} {
		o := pipectl(t, "", args...)
		require.Equal(t, exitUsage, o.code, args)
		require.Contains(t, o.stderr, "\nhint: ")
	}

	o = pipectl(t, "", "run", "-p", "x", "--trace", filepath.Join(t.TempDir(), "no", "trace.json"))
	require.Equal(t, exitFailed, o.code)
	require.Empty(t, o.stdout, "it is known before the work")
}

// A pass that was cut short is not among the passes, and the file is there.
func TestTraceOfFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	o := pipectl(t, "", "run", "-m", brokenDemo(t), "-p", "x", "--trace", path)
	require.Equal(t, exitFailed, o.code)
	_, err := os.Stat(path)
	require.NoError(t, err)
}

func TestLocaleUTF8(t *testing.T) {
	for _, tc := range []struct {
		all, ctype, lang string
		want             bool
	}{
		{"", "", "", false}, {"C", "", "en_US.UTF-8", false}, {"", "C.utf8", "C", true}, {"", "", "de_DE.UTF-8", true}, {"", "", "de_DE", false},
	} {
		t.Setenv("LC_ALL", tc.all)
		t.Setenv("LC_CTYPE", tc.ctype)
		t.Setenv("LANG", tc.lang)
		require.Equal(t, tc.want, localeUTF8(), tc)
	}
}
