package test

import (
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/ring"
)

// A memoryChild is what a child process of these tests does: it opens a model,
// generates a few tokens, and writes its peak of resident memory.
type memoryChild struct {
	Path, Backend string
	Unit          model.Unit
	Buffers       int
	Ceiling       int64
	Float32       bool
	Prompt        int    // tokens
	Sessions      int    // if not 0, so many are asked for, with logits behind every token, instead of a generation
	Ordinary      bool   // without huge pages
	Group         string // the control group that it moves itself to, a file
}

// ordinaryPages turns huge pages off for the process, where there are some.
var ordinaryPages func() error

const memoryChildEnv = "LAYERPIPE_TEST_MEMORY_CHILD"

type memoryReport struct {
	Peak  int64
	Huge  int64 // bytes in huge pages at the end
	Plan  *pipeline.Plan
	Notes []string
}

// run runs the child and returns what it reports.
func (c memoryChild) run(t *testing.T) (r memoryReport) {
	runChild(t, "TestMemoryChild", memoryChildEnv, c, &r)
	return r
}

// TestMemoryChild is no test by itself but what the child processes run.
func TestMemoryChild(t *testing.T) {
	var c memoryChild
	childSpec(t, memoryChildEnv, &c)
	if c.Group != "" {
		joinGroup(t, c.Group)
	}
	if c.Ordinary {
		require.NoError(t, ordinaryPages())
	}
	backend, err := pipeline.ParseBackend(c.Backend)
	require.NoError(t, err)
	options := []pipeline.Option{pipeline.WithBackend(backend), pipeline.WithContext(128), pipeline.WithoutTokenizer()}
	if c.Buffers > 0 {
		options = append(options, pipeline.WithBuffers(c.Buffers))
	}
	if c.Unit != "" {
		options = append(options, pipeline.WithUnit(c.Unit))
	}
	if c.Ceiling > 0 {
		options = append(options, pipeline.WithMemory(pipeline.MemoryBytes(c.Ceiling)))
	}
	if c.Float32 {
		options = append(options, pipeline.WithFloat32())
	}
	if c.Sessions > 0 {
		options = append(options, pipeline.WithSessions(c.Sessions), pipeline.WithLogits(c.Sessions*c.Prompt))
	}
	e, err := pipeline.Open(c.Path, options...)
	require.NoError(t, err)
	debug.SetMemoryLimit(e.Plan().GoBytes()) // as the command does
	var stats pipeline.GenStats
	if c.Sessions > 0 {
		feedSessions(t, e, c.Prompt)
		c.Prompt = 1
	}
	for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Tokens: make([]int32, c.Prompt), MaxTokens: 3, Stats: &stats}) {
		require.NoError(t, err)
	}
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(memoryReport{stats.PeakRSSBytes, ring.HugeBytes(), e.Plan(), stats.Notes}))
	require.NoError(t, e.Close())
}

// feedSessions feeds as many sessions as the plan has room for with so many
// tokens, and takes as many rows of logits at once as it has room for.
func feedSessions(t *testing.T, e *pipeline.Engine, tokens int) {
	plan := e.Plan()
	feeds := make([]pipeline.Feed, min(plan.Sessions, plan.Logits))
	part := min(tokens, plan.Logits/len(feeds))
	for i := range feeds {
		s, err := e.NewSession(tokens)
		require.NoError(t, err)
		defer s.Close()
		feeds[i] = pipeline.Feed{Session: s, Tokens: make([]int32, part), Logits: part}
	}
	for fed := 0; fed+part <= tokens; fed += part {
		_, err := e.Feed(t.Context(), feeds...)
		require.NoError(t, err)
	}
}

func skipWithoutPeak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak of resident memory is only known on Linux")
	}
	if raceEnabled {
		t.Skip("the race detector's own memory is larger than the limit")
	}
}

// memoryModel is some 85 MB, its slots by layers 14 MB.
var memoryModel = synth.Config{
	Shape: synth.Shape{Layers: 6, Dim: 1024, FFN: 2816, Heads: 16, KVHeads: 16, Vocab: 1024}, Type: "Q8_0",
}

// With one slot a model takes the memory of one block, as loaded and as
// expanded, and of what always stays, and little more: measured by the
// operating system, in a process that does nothing else.
func TestMemory(t *testing.T) {
	skipWithoutPeak(t)
	path := synthetic(t, memoryModel)
	f, err := gguf.Open(path)
	require.NoError(t, err)
	m, err := model.New(f)
	require.NoError(t, err)
	var loaded, expanded, all int64
	for _, b := range m.Blocks {
		var floats int64
		for _, tensor := range b.Tensors {
			floats += 4 * int64(tensor.Rows()) * int64(tensor.Dims[0])
		}
		loaded, expanded, all = max(loaded, b.Bytes()), max(expanded, floats), all+floats
	}
	cache, err := compute.CacheBytes(&m.Params, compute.KVF16, 128)
	require.NoError(t, err)
	limit := loaded + expanded + cache + 32<<20
	require.Greater(t, all, 2*limit, "the model is too small for the test to mean something")

	for _, backend := range pipeline.Backends() {
		peak := memoryChild{Path: path, Backend: backend.String(), Buffers: 1, Float32: true, Prompt: 3}.run(t).Peak
		t.Logf("%v: peak %d MiB of at most %d MiB; the model is %d MiB in float", backend, peak>>20, limit>>20, all>>20)
		require.Less(t, peak, limit, backend)
		require.Greater(t, peak, loaded+expanded, "measured less than the slot alone")
	}
}

// The peak stays under every ceiling, from the floor to more than the model, with
// every backend.
func TestCeiling(t *testing.T) {
	skipWithoutPeak(t)
	path := synthetic(t, memoryModel)
	file, err := os.Stat(path)
	require.NoError(t, err)
	for _, backend := range pipeline.Backends() {
		for _, unit := range []model.Unit{"", model.UnitLayer} {
			floor := memoryFloor(t, path, backend, unit)
			for _, ceiling := range []int64{floor, floor + file.Size()/2, floor + 2*file.Size()} {
				r := memoryChild{Path: path, Backend: backend.String(), Unit: unit, Ceiling: ceiling, Prompt: 100}.run(t)
				t.Logf("%v %v: peak %d MiB, planned %d MiB, ceiling %d MiB", backend, r.Plan.Unit, r.Peak>>20, r.Plan.Total>>20, ceiling>>20)
				require.LessOrEqual(t, r.Peak, ceiling, "%v %v", backend, unit)
			}
		}
	}
}

// The plan counts every row of logits and every session: those that are asked for
// alone are far more than the lower ceilings.
func TestCeilingSessions(t *testing.T) {
	skipWithoutPeak(t)
	path := synthetic(t, synth.Config{
		Shape: synth.Shape{Layers: 3, Dim: 512, FFN: 512, Heads: 8, KVHeads: 8, Vocab: 32000}, Type: "Q8_0",
	})
	floor := memoryFloor(t, path, pipeline.Pread, "")
	var r memoryReport
	rows := 0
	for _, ceiling := range []int64{floor, floor + 48<<20, 1 << 40} {
		r = memoryChild{Path: path, Backend: pipeline.Pread.String(), Ceiling: ceiling, Prompt: 100, Sessions: 12}.run(t)
		t.Logf("peak %d MiB, planned %d MiB, ceiling %d MiB: %d sessions, %d rows of logits",
			r.Peak>>20, r.Plan.Total>>20, ceiling>>20, r.Plan.Sessions, r.Plan.Logits)
		require.LessOrEqual(t, r.Peak, ceiling)
		require.Greater(t, r.Plan.Logits, rows)
		rows = r.Plan.Logits
	}
	require.Equal(t, 12, r.Plan.Sessions)
	require.Equal(t, 1200, rows)
	require.Greater(t, r.Peak, int64(1200*4*32000), "the logits of all sessions lay in memory")
}

// memoryFloor is the floor of a process like the children, which is larger than
// this one's plan would say: a child's executable takes memory too.
func memoryFloor(t *testing.T, path string, backend pipeline.Backend, unit model.Unit) int64 {
	r := memoryChild{Path: path, Backend: backend.String(), Unit: unit, Ceiling: 1 << 40, Prompt: 1}.run(t)
	return r.Plan.Floor + 2<<20 // what a process takes at its start varies a little
}

// A process that keeps its ceiling lives in a control group of that size, with
// a model twice as large.
func TestCeilingInControlGroup(t *testing.T) {
	skipWithoutPeak(t)
	path := synthetic(t, memoryModel)
	for _, backend := range pipeline.Backends() {
		ceiling := memoryFloor(t, path, backend, "") + 10<<20
		group := controlGroup(t, ceiling)
		r := memoryChild{Path: path, Backend: backend.String(), Ceiling: ceiling, Prompt: 100, Group: group}.run(t)
		t.Logf("%v: peak %d MiB in a group of %d MiB", backend, r.Peak>>20, ceiling>>20)
		require.Positive(t, r.Plan.StreamedBytes)
		require.LessOrEqual(t, r.Peak, ceiling)
	}
}

// controlGroup makes a control group with a limit of memory, and returns the file
// that a process joins it by.
func controlGroup(t testing.TB, bytes int64) string {
	value := strconv.FormatInt(bytes, 10)
	return makeGroup(t, "memory", limit{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", value}, limit{"/sys/fs/cgroup", "memory.max", value})
}
