package test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
)

const memoryChild = "LAYERPIPE_TEST_MEMORY_CHILD"

// With one slot a model takes the memory of one block, as loaded and as
// expanded, and of what always stays, and little more: measured by the
// operating system, in a process that does nothing else.
func TestMemory(t *testing.T) {
	if path := os.Getenv(memoryChild); path != "" {
		runMemoryChild(t, path, os.Getenv("LAYERPIPE_TEST_BACKEND"))
		return
	}
	if runtime.GOOS != "linux" {
		t.Skip("the peak of resident memory is only known on Linux")
	}
	if raceEnabled {
		t.Skip("the race detector's own memory is larger than the limit")
	}
	path := synthetic(t, synth.Config{
		Shape: synth.Shape{Layers: 6, Dim: 1024, FFN: 2816, Heads: 16, KVHeads: 16, Vocab: 1024}, Type: "Q8_0",
	})
	f, err := gguf.Open(path)
	require.NoError(t, err)
	m, err := model.New(f)
	require.NoError(t, err)
	var loaded, expanded, all int64
	for _, b := range m.Blocks {
		var size, floats int64
		for _, e := range b.Extents {
			size += e.Size
		}
		for _, tensor := range b.Tensors {
			floats += 4 * int64(tensor.Rows()) * int64(tensor.Dims[0])
		}
		loaded, expanded, all = max(loaded, size), max(expanded, floats), all+floats
	}
	cache, err := compute.CacheBytes(&m.Params, compute.KVF16, 64)
	require.NoError(t, err)
	limit := loaded + expanded + cache + 32<<20
	require.Greater(t, all, 2*limit, "the model is too small for the test to mean something")

	for _, backend := range pipeline.Backends() {
		cmd := exec.Command(os.Args[0], "-test.run=^TestMemory$")
		cmd.Env = append(os.Environ(), memoryChild+"="+path, "LAYERPIPE_TEST_BACKEND="+backend.String())
		out, err := cmd.Output()
		require.NoError(t, err, "%s", out)
		var peak int64
		require.NoError(t, json.NewDecoder(bytes.NewReader(out)).Decode(&peak), "%s", out)
		t.Logf("%v: peak %d MiB of at most %d MiB; the model is %d MiB in float", backend, peak>>20, limit>>20, all>>20)
		require.Less(t, peak, limit, backend)
		require.Greater(t, peak, loaded+expanded, "measured less than the slot alone")
	}
}

func runMemoryChild(t *testing.T, path, name string) {
	backend, err := pipeline.ParseBackend(name)
	require.NoError(t, err)
	e, err := pipeline.Open(path, pipeline.WithBuffers(1), pipeline.WithBackend(backend), pipeline.WithContext(64),
		pipeline.WithFloat32(), pipeline.WithoutTokenizer())
	require.NoError(t, err)
	var stats pipeline.GenStats
	for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Tokens: []int32{1, 2, 3}, MaxTokens: 3, Stats: &stats}) {
		require.NoError(t, err)
	}
	require.NoError(t, e.Close())
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(stats.PeakRSSBytes))
}
