package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/pipeline/trace"
	"github.com/layerpipe/layerpipe/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script makes a track of a line such as "r0:5 .:2 r1:5", the task's first
// letter with its block, and the duration; a dot waits for input, a dash for
// room, s0 stalls for block 0, a comma is idle.
func script(t testing.TB, name, line string) trace.Track {
	tasks := map[byte]string{'r': "read", 'd': "dequantize", 'a': "attention", 'f': "feed-forward", 'h': "head", 'p': "pass", 's': "stall"}
	track, now := trace.Track{Name: name}, time.Duration(0)
	for f := range strings.FieldsSeq(line) {
		what, length, ok := strings.Cut(f, ":")
		require.True(t, ok, f)
		d, err := time.ParseDuration(length + "us")
		require.NoError(t, err)
		e := stage.Event{Start: now, End: now + d, Block: -1}
		switch what[0] {
		case '.', ',':
			e.Activity, e.Task = stage.WaitingInput, "wait"
		case '-':
			e.Activity, e.Task = stage.WaitingRoom, "wait for a slot"
		case 's':
			e.Activity = stage.WaitingInput
			fallthrough
		default:
			e.Task, e.Block = tasks[what[0]], int(what[1]-'0')
			if e.Activity == stage.Working {
				e.Bytes = int64(d)
			}
		}
		now = e.End
		track.Events = append(track.Events, e)
	}
	return track
}

func scripted(t testing.TB, passes, reader, dequantizer, compute string) *trace.Trace {
	return &trace.Trace{Tracks: []trace.Track{
		script(t, trace.Passes, passes), script(t, trace.Reader, reader), script(t, trace.Dequantizer, dequantizer), script(t, trace.Compute, compute),
	}}
}

func TestCriticalPath(t *testing.T) {
	for name, tc := range map[string]struct {
		passes, reader, dequantizer, compute string
		path                                 string // R, D, C and - for a hand-over, with the end of each
		limiter                              string
		overlap                              float64
	}{
		"storage": {
			"p0:100", "r0:30 r1:30 r2:30 -:10", ".:30 d0:1 .:29 d1:1 .:29 d2:1 .:9", "s0:32 a0:5 s1:25 a1:5 s2:25 a2:8",
			// A hand-over of 1 µs between the last work of the dequantizer and compute.
			"R90 D91 -92 C100", trace.Names[0], 0.9,
		},
		"arithmetic": {
			"p0:100", "r0:10 r1:10 -:19 r2:10 -:51", ".:10 d0:1 .:9 d1:1 .:28 d2:1 .:50", "s0:11 a0:28 f0:1 a1:30 h2:30",
			"R10 D11 C100", trace.Names[2], 0.89,
		},
		"dequantizing": {
			"p0:100", "r0:5 r1:5 -:90", ".:5 d0:45 d1:45 .:5", "s0:50 a0:2 s1:43 a1:5",
			"R5 D95 C100", trace.Names[1], 0.9,
		},
		"one slot": { // compute gives the slot back, and storage works again
			"p0:62", "r0:20 -:11 r1:20 -:11", ".:20 d0:1 .:30 d1:1 .:10", "s0:21 a0:10 s1:21 a1:10",
			"R20 D21 C31 R51 D52 C62", trace.Names[0], 40.0 / 62,
		},
		"all in memory": {"p0:50", "", "", "a0:20 f0:30", "C50", trace.Names[2], 1},
		"from before the pass": {
			",:20 p0:30", "r0:30", ".:30 d0:1", ",:20 s0:11 a0:19", "R30 D31 C50", trace.Names[2], 19.0 / 30,
		},
		"reader has ended": {"p0:50", "r0:10", ".:10 d0:5", "s0:20 a0:30", "R10 D15 -20 C50", trace.Names[2], 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			tr := scripted(t, tc.passes, tc.reader, tc.dequantizer, tc.compute)
			passes := tr.Passes()
			require.Len(t, passes, 1)
			r := tr.Analyze(passes[0])
			var got []string
			at := passes[0].Start
			var sum time.Duration
			for i, s := range r.Path {
				require.Equal(t, at, s.Start, "the path has no holes")
				at, sum = s.End, sum+s.End-s.Start
				letter := map[int]string{-1: "-", 0: "R", 1: "D", 2: "C"}[s.Actor]
				if i+1 < len(r.Path) && r.Path[i+1].Actor == s.Actor {
					continue
				}
				got = append(got, letter+strings.TrimSuffix(s.End.String(), "µs"))
			}
			require.Equal(t, tc.path, strings.Join(got, " "))
			require.Equal(t, passes[0].Time(), sum)
			require.Equal(t, tc.limiter, r.Limiter)
			require.InDelta(t, tc.overlap, r.OverlapEfficiency, 1e-9)
			for _, a := range r.Actors {
				sum -= a.Critical
			}
			require.Equal(t, r.Handover, sum)
		})
	}
}

// Of a pass whose beginning is forgotten nothing is said.
func TestPasses(t *testing.T) {
	tr := scripted(t, "p0:10 ,:1 p1:10 ,:1 p2:10", "", "", "a0:10 ,:1 a0:10 ,:1 a0:10")
	require.Len(t, tr.Passes(), 3)
	c := tr.Track(trace.Compute)
	c.Forgotten, c.Events = 1, c.Events[1:]
	passes := tr.Passes()
	require.Len(t, passes, 2)
	require.Equal(t, 1, passes[0].Number)
}

func TestReadBack(t *testing.T) {
	want := scripted(t, ",:0.001 p7:99.998", "r0:30 r1:0.123 -:0.877", ".:30 d0:1", "s0:31 a0:1.001")
	want.Tracks[3].Forgotten = 12
	want.Tracks = append(want.Tracks, trace.Track{Name: trace.Memory, Events: []stage.Event{
		{Activity: stage.Reading, Start: 1 << 50, End: 1 << 50, Task: `resident "memory"`, Block: -1, Bytes: 1 << 40},
	}})
	var file bytes.Buffer
	require.NoError(t, want.Write(&file))
	got, err := trace.Read(bytes.NewReader(file.Bytes()))
	require.NoError(t, err)
	require.Equal(t, want, got)

	// The file as others see it.
	var object struct {
		TraceEvents []map[string]any `json:"traceEvents"`
	}
	require.NoError(t, json.Unmarshal(file.Bytes(), &object))
	phases := map[any]int{}
	passes := map[any]any{}
	var bandwidth []float64
	for _, e := range object.TraceEvents {
		phases[e["ph"]]++
		require.Contains(t, e, "pid")
		require.Contains(t, e, "tid")
		if e["ph"] == "X" && e["tid"] == 1.0 {
			passes[e["name"]] = e["args"]
		}
		if e["name"] == "read bandwidth" {
			bandwidth = append(bandwidth, e["args"].(map[string]any)["MB/s"].(float64))
		}
	}
	require.Equal(t, map[any]int{"M": 1 + 2*5, "X": 2 + 3 + 2 + 2, "C": 1 + 4}, phases)
	require.Equal(t, map[string]any{"pass": 7.0, "tokens": 99998.0}, passes["pass"])
	require.Equal(t, []float64{1000, 0, 1000, 0}, bandwidth) // a byte a nanosecond
}

// An event without a name is called after what its actor waits for.
func TestUnnamed(t *testing.T) {
	waits := []stage.Event{{Activity: stage.WaitingInput, End: 5, Block: -1}}
	tr := &trace.Trace{Tracks: []trace.Track{{Name: trace.Passes, Events: waits}, {Name: trace.Compute, Events: waits}}}
	var file bytes.Buffer
	require.NoError(t, tr.Write(&file))
	got, err := trace.Read(&file)
	require.NoError(t, err)
	require.Equal(t, "wait for a pass", got.Tracks[0].Events[0].Task)
	require.Equal(t, "wait for a block", got.Tracks[1].Events[0].Task)
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

func TestWriteFails(t *testing.T) {
	require.ErrorContains(t, scripted(t, "p0:1", "", "", "a0:1").Write(fullDisk{}), "the disk is full")
}

func hostile() map[string]string {
	const head = `{"traceEvents":[{"ph":"M","name":"thread_name","tid":1,"args":{"name":"compute"}}`
	return map[string]string{
		"empty":        ``,
		"no JSON":      `GGUF`,
		"an array":     `[1,2]`,
		"no events":    `{}`,
		"cut":          head,
		"no thread":    head + `,{"ph":"X","cat":"working","tid":2}]}`,
		"no category":  head + `,{"ph":"X","tid":1}]}`,
		"phase":        head + `,{"ph":"B","tid":1}]}`,
		"before time":  head + `,{"ph":"X","cat":"working","tid":1,"ts":-1}]}`,
		"beyond time":  head + `,{"ph":"X","cat":"working","tid":1,"ts":1e300}]}`,
		"overlap":      head + `,{"ph":"X","cat":"working","tid":1,"ts":5,"dur":2},{"ph":"X","cat":"working","tid":1,"ts":6,"dur":2}]}`,
		"thread twice": head + `,{"ph":"M","name":"thread_name","tid":1,"args":{"name":"compute"}}]}`,
	}
}

func TestReadRefuses(t *testing.T) {
	for name, text := range hostile() {
		_, err := trace.Read(strings.NewReader(text))
		require.ErrorIs(t, err, trace.ErrFormat, name)
	}
}

// Whatever can be read can be looked at, and is written as it was read.
func FuzzRead(f *testing.F) {
	for _, text := range hostile() {
		f.Add([]byte(text))
	}
	var good bytes.Buffer
	require.NoError(f, scripted(f, "p0:60", "r0:20 -:10 r1:20 -:10", ".:20 d0:0 .:30 d1:0 .:10", "s0:20 a0:10 s1:20 a1:10").Write(&good))
	f.Add(good.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		tr, err := trace.Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		for _, p := range tr.Passes() {
			r := tr.Analyze(p)
			at := p.Start
			for _, s := range r.Path {
				require.Equal(t, at, s.Start)
				at = s.End
			}
			require.Equal(t, p.End, at)
		}
		var first, second bytes.Buffer
		require.NoError(t, tr.Write(&first))
		again, err := trace.Read(bytes.NewReader(first.Bytes()))
		require.NoError(t, err)
		require.NoError(t, again.Write(&second))
		require.Equal(t, first.String(), second.String())
	})
}
