package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/stage"
)

func TestBench(t *testing.T) {
	t.Setenv(childEnv, "1")
	dir := t.TempDir()
	var r benchReport
	decodeJSON(t, succeed(t, "", "bench", "-n", "3", "--rounds", "2", "--only", "serial,memory", "--threads", "1", "--json",
		"--plot", filepath.Join(dir, "out.svg"), "--trace", filepath.Join(dir, "out.json")), &r)
	require.True(t, r.Same)
	require.Contains(t, []int{2, 4}, len(r.Results), "cold runs are not possible everywhere")
	ways := map[string]bool{}
	for _, x := range r.Results {
		ways[x.Way] = true
		require.Len(t, x.Runs, 2)
		require.EqualValues(t, 3, x.Runs[0].Passes)
		require.EqualValues(t, 3*9, x.Hits+x.Misses)
		require.Positive(t, x.TokensPerSecond.Min)
		require.GreaterOrEqual(t, x.TokensPerSecond.Median, x.TokensPerSecond.Min)
		require.GreaterOrEqual(t, x.TokensPerSecond.Max, x.TokensPerSecond.Median)
		require.Positive(t, x.Pass.Arithmetic)
		require.Equal(t, r.Results[0].Logits, x.Logits)
		require.Contains(t, succeed(t, "", "trace", filepath.Join(dir, "out."+x.Way+"."+x.Cache+".json")), "of 3 recorded")
	}
	require.Equal(t, map[string]bool{"serial": true, "memory": true}, ways)
	_, err := os.Stat(filepath.Join(dir, "out.svg"))
	require.NoError(t, err)

	table := succeed(t, "", "bench", "-n", "2", "--rounds", "1", "--only", "serial")
	require.Contains(t, table, "demo: 2 tokens behind a prompt of 5, rounds: 1")
	require.Contains(t, table, "\nall logits are the same bits: ")
}

func TestBenchFails(t *testing.T) {
	t.Setenv(childEnv, "1")
	o := pipectl(t, "", "bench", "-m", brokenDemo(t), "-n", "2", "--rounds", "1", "--only", "serial")
	require.Equal(t, exitFailed, o.code)
	require.Regexp(t, `(?m)^serial +(cold|warm|any) +failed: .*layer 3`, o.stdout)
	require.Contains(t, o.stdout, "\nnothing was measured\n")
	require.Contains(t, o.stderr, "pipectl: serial, ")
	require.Contains(t, o.stderr, "layer 3")

	for _, args := range [][]string{{"--only", "floppy"}, {"--json", "--csv"}, {"-n", "1"}, {"--rounds", "0"}, {"extra"}} {
		require.Equal(t, exitUsage, pipectl(t, "", append([]string{"bench"}, args...)...).code, args)
	}
	o = pipectl(t, "", "bench", "--plot", filepath.Join(t.TempDir(), "no", "out.svg"))
	require.Equal(t, exitFailed, o.code, "it is known before the work")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitInterrupted, run(ctx, []string{"bench"}, strings.NewReader(""), &stdout, &stderr))
	require.Empty(t, stdout.String())
}

// measured is the report of two ways with two runs each.
func measured(hashes ...string) *benchReport {
	r := &benchReport{Model: "model.gguf", Prompt: "x", Predict: 2, Rounds: 2, Same: true, Device: &ioactor.ProbeResult{BytesPerSecond: 2e9}, Notes: []string{"a note"}}
	for i, hash := range hashes {
		s := pipeline.GenStats{
			GeneratedTokens: 2, PromptTokens: 1, TokensPerSecond: float64(10 * (i + 1)), FirstTokenSeconds: 0.25, PrefetchHits: 4, PrefetchMisses: 2,
			StallSeconds: 0.5, StallShare: 0.25, OverlapEfficiency: 0.8, TotalSeconds: 2, Passes: 2, ReadBytesPerSecond: 1e9, PeakRSSBytes: 1 << 20, LogitsSHA256: hash,
			Actors: pipeline.Stats{Compute: stage.Counts{Working: 1e9}},
		}
		if i%2 == 0 {
			r.Results = append(r.Results, &benchResult{Way: ways[i/2].name, Cache: cold})
		}
		last := r.Results[len(r.Results)-1]
		last.Runs = append(last.Runs, s)
	}
	return r
}

func TestBenchReport(t *testing.T) {
	r := measured("aaaaaaaaaaaa", "aaaaaaaaaaaa", "aaaaaaaaaaaa", "aaaaaaaaaaaa")
	require.NoError(t, r.compare())
	require.Equal(t, spread{15, 10, 20}, r.Results[0].TokensPerSecond)
	require.Equal(t, benchPass{Arithmetic: 0.5, Stall: 0.25, Other: 0.25}, r.Results[0].Pass)
	var table, lines, drawing bytes.Buffer
	require.NoError(t, r.writeTable(&table))
	require.Equal(t, `model.gguf: 2 tokens behind a prompt of 1, rounds: 2; medians, and the least and the most

        cache  tokens/s                first token  hits  misses  stall  overlap       read  device    memory    logits
serial  cold       15.0  10.0 to 20.0       250 ms     4       2   25 %     0.80  1.00 GB/s    50 %  1.00 MiB  aaaaaaaa
ring-2  cold       35.0  30.0 to 40.0       250 ms     4       2   25 %     0.80  1.00 GB/s    50 %  1.00 MiB  aaaaaaaa

device: 2.00 GB/s
note: a note
all logits are the same bits: aaaaaaaaaaaa
`, table.String())

	require.NoError(t, r.writeCSV(&lines))
	rows, err := csv.NewReader(&lines).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 1+4)
	require.Equal(t, []string{"ring-2", "cold", "1", "40"}, rows[4][:4])

	require.NoError(t, r.plot(&drawing))
	for _, text := range []string{"serial", "ring-2", "tokens/s", "waiting for blocks"} {
		require.Contains(t, drawing.String(), text)
	}
	d := xml.NewDecoder(&drawing)
	for err == nil {
		_, err = d.Token()
	}
	require.ErrorIs(t, err, io.EOF)
}

// One run that computes something else is enough.
func TestBenchDiffers(t *testing.T) {
	for i := range 4 {
		hashes := []string{"aaaaaaaa", "aaaaaaaa", "aaaaaaaa", "aaaaaaaa"}
		hashes[i] = "bbbbbbbb"
		r := measured(hashes...)
		require.ErrorIs(t, r.compare(), errDiffer)
		require.False(t, r.Same)
		var table bytes.Buffer
		require.NoError(t, r.writeTable(&table))
		require.Contains(t, table.String(), "bbbbbbbb")
		require.Contains(t, table.String(), "the logits DIFFER")
	}
	require.False(t, errors.Is(measured("a").compare(), errDiffer))
}

// What one way fails at is in its row. The others go on, in every form of the
// report.
func TestBenchGoesOn(t *testing.T) {
	t.Setenv(childEnv, "1")
	dir := t.TempDir()
	bench := func(args ...string) outcome {
		// A directory that is not empty is where a run of direct has to write its trace.
		o := pipectl(t, "", append([]string{"bench", "-n", "2", "--rounds", "2", "--only", "serial,direct", "--trace", filepath.Join(dir, "out.json")}, args...)...)
		require.Equal(t, exitFailed, o.code, o.stderr)
		require.Contains(t, o.stderr, "direct, warm cache: write "+filepath.Join(dir, "out.direct.warm.json"))
		require.NotContains(t, o.stderr, "serial")
		return o
	}
	for _, state := range []string{cold, warm} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "out.direct."+state+".json", "full"), 0o700))
	}
	table := bench().stdout
	require.Regexp(t, `(?m)^serial +warm +\d`, table)
	require.Regexp(t, `(?m)^direct  warm +failed: write .*out\.direct\.warm\.json`, table)
	require.Contains(t, table, "\nall logits are the same bits: ")

	var r benchReport
	decodeJSON(t, bench("--json").stdout, &r)
	for _, x := range r.Results {
		if x.Way == "serial" {
			require.Len(t, x.Runs, 2)
			require.Empty(t, x.Error)
			require.Positive(t, x.Overlap.Median)
			require.LessOrEqual(t, x.Overlap.Max, 1.0)
		} else {
			require.Empty(t, x.Runs, "it is not tried again")
			require.Contains(t, x.Error, "out.direct.")
		}
	}

	rows, err := csv.NewReader(strings.NewReader(bench("--csv", "--plot", filepath.Join(dir, "out.svg")).stdout)).ReadAll()
	require.NoError(t, err)
	last := len(rows[0]) - 1
	require.Equal(t, "error", rows[0][last])
	for _, row := range rows[1:] {
		require.Equal(t, row[0] == "direct", row[last] != "", row)
	}
	drawing, err := os.ReadFile(filepath.Join(dir, "out.svg"))
	require.NoError(t, err)
	require.Contains(t, string(drawing), "serial")
	require.NotContains(t, string(drawing), "direct")
}

// Ctrl-C ends the run that is under way, and shows those that were complete.
func TestBenchInterrupted(t *testing.T) {
	t.Setenv(childEnv, "1")
	for _, args := range [][]string{nil, {"--json"}, {"--csv"}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var stdout bytes.Buffer
		stderr := writerFunc(func(p []byte) (int, error) {
			if bytes.Contains(p, []byte(`"phase":"bench"`)) && !bytes.Contains(p, []byte(`"done":0,`)) {
				cancel() // behind the first run, or one soon after
			}
			return len(p), nil
		})
		args := append([]string{"bench", "-n", "200", "--rounds", "1000", "--only", "serial,ring-2", "--progress", "json"}, args...)
		require.Equal(t, exitInterrupted, run(ctx, args, strings.NewReader(""), &stdout, stderr))
		switch text := stdout.String(); args[len(args)-1] {
		case "--json":
			var r benchReport
			decodeJSON(t, text, &r)
			require.True(t, r.Stopped)
			require.NotEmpty(t, r.Results[0].Runs)
		case "--csv":
			rows, err := csv.NewReader(&stdout).ReadAll()
			require.NoError(t, err)
			require.Greater(t, len(rows), 1)
		default:
			require.Regexp(t, `\ninterrupted after \d+ runs of \d`, text)
			require.Regexp(t, `(?m)^serial `, text)
		}
	}
}

// What bench says of the device is the median of its probes.
func TestBenchProbes(t *testing.T) {
	b, r := &benchCommand{largest: demoModel}, &benchReport{}
	for n := 1; n <= 3; n++ {
		require.NoError(t, b.probe(t.Context(), r))
		require.Len(t, b.probes, n)
		slower, faster := 0, 0
		for _, p := range b.probes {
			if p.BytesPerSecond < r.Device.BytesPerSecond {
				slower++
			} else if p.BytesPerSecond > r.Device.BytesPerSecond {
				faster++
			}
		}
		require.LessOrEqual(t, slower, n/2)
		require.LessOrEqual(t, faster, n/2)
	}
	b.largest = "absent"
	require.Error(t, b.probe(t.Context(), r))
	require.Len(t, b.probes, 3)
}
