package metrics_test

import (
	"encoding/json"
	"expvar"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/pipeline/metrics"
	"github.com/layerpipe/layerpipe/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func stats() pipeline.Stats {
	return pipeline.Stats{
		Stream: pipeline.StreamStats{
			Reader: stage.Counts{Blocks: 1, Bytes: 2, Working: 3 * time.Second, WaitingInput: 4 * time.Second, WaitingRoom: 5 * time.Second},
			Hits:   6, Misses: 7, Resident: 8, Discarded: 9, Stall: 1500 * time.Millisecond,
		},
		Dequantizer: stage.Counts{Blocks: 10, Bytes: 11, Working: 12 * time.Second, WaitingInput: 13 * time.Second, WaitingRoom: 14 * time.Second},
		Compute:     stage.Counts{Working: 15 * time.Second, WaitingInput: 16 * time.Second, WaitingRoom: 17 * time.Second},
		Passes:      18, BytesRead: 19,
	}
}

const exposition = `
# HELP layerpipe_actor_blocks_total Blocks that an actor has sent on.
# TYPE layerpipe_actor_blocks_total counter
layerpipe_actor_blocks_total{actor="dequantizer"} 10
layerpipe_actor_blocks_total{actor="reader"} 1
# HELP layerpipe_actor_bytes_total Bytes that an actor has brought or made.
# TYPE layerpipe_actor_bytes_total counter
layerpipe_actor_bytes_total{actor="dequantizer"} 11
layerpipe_actor_bytes_total{actor="reader"} 2
# HELP layerpipe_actor_seconds_total Time of an actor, by what it did: working, waiting_input or waiting_room.
# TYPE layerpipe_actor_seconds_total counter
layerpipe_actor_seconds_total{activity="waiting_input",actor="compute"} 16
layerpipe_actor_seconds_total{activity="waiting_input",actor="dequantizer"} 13
layerpipe_actor_seconds_total{activity="waiting_input",actor="reader"} 4
layerpipe_actor_seconds_total{activity="waiting_room",actor="compute"} 17
layerpipe_actor_seconds_total{activity="waiting_room",actor="dequantizer"} 14
layerpipe_actor_seconds_total{activity="waiting_room",actor="reader"} 5
layerpipe_actor_seconds_total{activity="working",actor="compute"} 15
layerpipe_actor_seconds_total{activity="working",actor="dequantizer"} 12
layerpipe_actor_seconds_total{activity="working",actor="reader"} 3
# HELP layerpipe_discarded_blocks_total Blocks that were loaded and given back unused, because another was asked for.
# TYPE layerpipe_discarded_blocks_total counter
layerpipe_discarded_blocks_total 9
# HELP layerpipe_passes_total Passes of tokens through all blocks of the model.
# TYPE layerpipe_passes_total counter
layerpipe_passes_total 18
# HELP layerpipe_prefetch_hits_total Blocks that were in memory when compute asked for them.
# TYPE layerpipe_prefetch_hits_total counter
layerpipe_prefetch_hits_total 6
# HELP layerpipe_prefetch_misses_total Blocks that compute had to wait for.
# TYPE layerpipe_prefetch_misses_total counter
layerpipe_prefetch_misses_total 7
# HELP layerpipe_read_bytes_total Bytes of the model that were read: blocks, and rows of the embedding.
# TYPE layerpipe_read_bytes_total counter
layerpipe_read_bytes_total 19
# HELP layerpipe_resident_hits_total Hits of blocks that stay in memory.
# TYPE layerpipe_resident_hits_total counter
layerpipe_resident_hits_total 8
# HELP layerpipe_stall_seconds_total Time that compute waited for blocks.
# TYPE layerpipe_stall_seconds_total counter
layerpipe_stall_seconds_total 1.5
`

func TestCollector(t *testing.T) {
	c := metrics.New(stats)
	require.NoError(t, testutil.CollectAndCompare(c, strings.NewReader(exposition)))
	problems, err := testutil.CollectAndLint(c)
	require.NoError(t, err)
	require.Empty(t, problems)
}

// Two engines of one program, told apart by a label.
func TestEngines(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	var engines []*pipeline.Engine
	for _, name := range []string{"first", "second"} {
		e, err := pipeline.Open("../../model/demo/demo.gguf")
		require.NoError(t, err)
		engines = append(engines, e)
		require.NoError(t, prometheus.WrapRegistererWith(prometheus.Labels{"engine": name}, registry).Register(metrics.New(e.Stats)))
	}
	for token, err := range engines[1].Generate(t.Context(), pipeline.GenConfig{Prompt: "Once", MaxTokens: 3}) {
		require.NoError(t, err, token)
	}
	require.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP layerpipe_passes_total Passes of tokens through all blocks of the model.
# TYPE layerpipe_passes_total counter
layerpipe_passes_total{engine="first"} 0
layerpipe_passes_total{engine="second"} 3
`), "layerpipe_passes_total"))
	for _, e := range engines {
		require.NoError(t, e.Close())
	}
	n, err := testutil.GatherAndCount(registry)
	require.NoError(t, err, "a closed engine still tells")
	require.Equal(t, 2*(7+9+2+2), n)
}

func TestPublish(t *testing.T) {
	name := "layerpipe"
	for expvar.Get(name) != nil { // what is published stays, also when the test runs again
		name += " again"
	}
	metrics.Publish(name, stats)
	var got pipeline.Stats
	require.NoError(t, json.Unmarshal([]byte(expvar.Get(name).String()), &got))
	require.Equal(t, stats(), got)
	require.Panics(t, func() { metrics.Publish(name, stats) })
}
