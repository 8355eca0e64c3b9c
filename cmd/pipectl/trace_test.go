package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline/trace"
	"github.com/layerpipe/layerpipe/stage"
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
	require.Regexp(t, `^critical +[SDA ]+$`, lines[6])
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

// A column shows what took most of its time.
func TestTraceChart(t *testing.T) {
	const w, input, room, ms = stage.Working, stage.WaitingInput, stage.WaitingRoom, time.Millisecond
	tr := &trace.Trace{Tracks: []trace.Track{
		{Name: trace.Passes, Events: []stage.Event{{Activity: w, End: 58 * ms, Task: "pass", Bytes: 1}}},
		{Name: trace.Reader, Events: []stage.Event{
			{Activity: w, End: 20 * ms, Task: "read", Bytes: 1},
			{Activity: room, Start: 20 * ms, End: 30 * ms, Task: "wait for a slot", Block: -1},
			{Activity: w, Start: 30 * ms, End: 45 * ms, Task: "read", Block: 1, Bytes: 1},
			{Activity: room, Start: 45 * ms, End: 58 * ms, Task: "wait for a slot", Block: -1},
		}},
		{Name: trace.Dequantizer, Events: []stage.Event{
			{Activity: input, End: 20 * ms, Task: "wait", Block: -1},
			{Activity: w, Start: 20 * ms, End: 22 * ms, Task: "dequantize"},
			{Activity: input, Start: 22 * ms, End: 45 * ms, Task: "wait", Block: -1},
			{Activity: w, Start: 45 * ms, End: 45*ms + ms/4, Task: "dequantize", Block: 1},
			{Activity: input, Start: 45*ms + ms/4, End: 58 * ms, Task: "wait", Block: -1},
		}},
		{Name: trace.Compute, Events: []stage.Event{
			{Activity: input, End: 22 * ms, Task: "stall"},
			{Activity: w, Start: 22 * ms, End: 30 * ms, Task: "attention"},
			{Activity: input, Start: 30 * ms, End: 45*ms + ms/4, Task: "stall", Block: 1},
			{Activity: w, Start: 45*ms + ms/4, End: 58 * ms, Task: "attention", Block: 1},
		}},
	}}
	path := filepath.Join(t.TempDir(), "trace.json")
	f, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, tr.Write(f))
	require.NoError(t, f.Close())
	require.Equal(t, `pass 0 (of 1 recorded): 1 token in 58.0 ms

             0 s                                                58.0 ms  working
reader       ====================----------###############-------------   60.3 %
dequantizer  ....................==....................................    3.9 %
compute      ......................========...............#############   35.8 %
critical     SSSSSSSSSSSSSSSSSSSSDDAAAAAAAASSSSSSSSSSSSSSSAAAAAAAAAAAAA

#= work, block by block   . waits for a block   - waits for a free slot
critical path       storage (S) 60.3 %, dequantizing (D) 3.9 %, arithmetic (A) 35.8 %, handing over 0.0 %
bounded by          storage
overlap efficiency  0.603: storage alone takes 35.0 ms
`, succeed(t, "", "trace", path, "--width", "80"))
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
