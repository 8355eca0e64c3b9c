package pipeline_test

import (
	"bytes"
	"fmt"
	"regexp"
	"runtime"
	"runtime/pprof"
	rttrace "runtime/trace"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/trace"
	"github.com/layerpipe/layerpipe/stage"
)

func generate(t *testing.T, e *pipeline.Engine, prompt, tokens int) pipeline.GenStats {
	t.Helper()
	var stats pipeline.GenStats
	ids := make([]int32, prompt)
	for i := range ids {
		ids[i] = int32(3 + i%1000)
	}
	for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Tokens: ids, MaxTokens: tokens, Stats: &stats}) {
		require.NoError(t, err)
	}
	return stats
}

// What the trace tells adds up to the statistics, to the nanosecond and byte.
func TestTraceTotals(t *testing.T) {
	for _, buffers := range []int{1, 2, 3} {
		for _, pinned := range []int{0, 3, 9} {
			t.Run(fmt.Sprint(buffers, " slots, ", pinned, " pinned"), func(t *testing.T) {
				e, err := pipeline.Open(demo, pipeline.WithTrace(), pipeline.WithBuffers(buffers), pipeline.WithPinned(pinned), pipeline.WithFloat32())
				require.NoError(t, err)
				generate(t, e, 5, 6)
				require.NoError(t, e.Close())
				stats, tr := e.Stats(), e.Trace()

				var file bytes.Buffer
				require.NoError(t, tr.Write(&file))
				tr, err = trace.Read(&file) // refuses what overlaps
				require.NoError(t, err)

				for name, want := range map[string]stage.Counts{
					trace.Reader: stats.Stream.Reader, trace.Dequantizer: stats.Dequantizer, trace.Compute: stats.Compute,
				} {
					track := tr.Track(name)
					require.Zero(t, track.Forgotten)
					got := stage.Counts{
						Blocks: want.Blocks, // not each of compute's and dequantizer's events is a block
						Bytes:  want.Bytes, Working: track.Total(stage.Working), WaitingInput: track.Total(stage.WaitingInput), WaitingRoom: track.Total(stage.WaitingRoom),
					}
					require.Equal(t, want, got, name)
				}
				var blocks, bytesRead, stalls int64
				var stall time.Duration
				for _, e := range tr.Track(trace.Reader).Events {
					if e.Activity == stage.Working && e.Bytes > 0 {
						require.Equal(t, "read", e.Task)
						blocks, bytesRead = blocks+1, bytesRead+e.Bytes
					}
				}
				require.Equal(t, stats.Stream.Reader.Blocks, blocks, "a slice for each block")
				require.Equal(t, stats.Stream.Reader.Bytes, bytesRead)
				parts, ready := map[string]map[int]bool{}, 0
				for _, e := range tr.Track(trace.Compute).Events {
					switch {
					case e.Activity == stage.Reading:
						ready++
					case e.Task == "stall":
						require.Equal(t, stage.WaitingInput, e.Activity)
						stall, stalls = stall+e.End-e.Start, stalls+1
					case e.Activity == stage.Working:
						if parts[e.Task] == nil {
							parts[e.Task] = map[int]bool{}
						}
						parts[e.Task][e.Block] = true
					}
				}
				require.Equal(t, stats.Stream.Stall, stall)
				require.Equal(t, stats.Stream.Misses, stalls)
				require.Positive(t, ready)
				layers, head := map[int]bool{}, 8
				for l := range head {
					layers[l] = true
				}
				require.Equal(t, map[string]map[int]bool{
					"start": {-1: true}, "attention": layers, "feed-forward": layers, "head": {head: true},
				}, parts)

				passes := tr.Passes()
				require.EqualValues(t, stats.Passes, len(passes))
				for i, p := range passes {
					require.Equal(t, i, p.Number)
					require.EqualValues(t, map[bool]int64{true: 5, false: 1}[i == 0], p.Tokens)
					r := tr.Analyze(p)
					require.Contains(t, trace.Names, r.Limiter)
					require.True(t, r.OverlapEfficiency > 0 && r.OverlapEfficiency <= 1, "%g", r.OverlapEfficiency)
				}
				if runtime.GOOS == "linux" {
					require.NotEmpty(t, tr.Track(trace.Memory).Events)
					require.Positive(t, tr.Track(trace.Memory).Events[0].Bytes)
				}
			})
		}
	}
}

func TestNoTrace(t *testing.T) {
	e, err := pipeline.Open(demo)
	require.NoError(t, err)
	require.Nil(t, e.Trace())
	require.NoError(t, e.Close())
}

// The names in traces and in statistics are the same.
func TestTraceNames(t *testing.T) {
	require.Equal(t, []string{string(pipeline.LimitStorage), string(pipeline.LimitDequantize), string(pipeline.LimitArithmetic)}, trace.Names)
}

// Profiles tell the actors apart, and count the workers that share the arithmetic
// for compute.
func TestProfileLabels(t *testing.T) {
	const threads = 3
	e, err := pipeline.Open(demo, pipeline.WithBuffers(2), pipeline.WithThreads(threads))
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	generate(t, e, 1, 1) // all actors run by now
	var profile bytes.Buffer
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&profile, 1))
	goroutines := map[string]int{}
	for _, group := range regexp.MustCompile(`(?m)^(\d+) @.*\n# labels: {"actor":"(\w+)"}`).FindAllStringSubmatch(profile.String(), -1) {
		n, err := strconv.Atoi(group[1])
		require.NoError(t, err)
		goroutines[group[2]] += n
	}
	require.Equal(t, map[string]int{trace.Reader: 1, trace.Dequantizer: 1, trace.Compute: threads}, goroutines, profile.String())
}

// Go's own execution tracer shows what the actors do.
func TestGoTrace(t *testing.T) {
	var file bytes.Buffer
	require.NoError(t, rttrace.Start(&file))
	e, err := pipeline.Open(demo, pipeline.WithBuffers(2))
	require.NoError(t, err)
	generate(t, e, 2, 3)
	require.NoError(t, e.Close())
	rttrace.Stop()
	for _, name := range []string{"pass", "block", "read", "dequantize"} { // strings have their length before them
		require.Contains(t, file.String(), string(rune(len(name)))+name)
	}
}
