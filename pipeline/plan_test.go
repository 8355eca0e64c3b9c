package pipeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// largeModel is the table of a model of 7B shape in Q4_0; to plan, its data need
// not exist.
func largeModel(t *testing.T) *model.Model {
	var m gguf.Metadata
	m.Set("general.architecture", "llama")
	for key, v := range map[string]uint32{
		"context_length": 4096, "embedding_length": 4096, "block_count": 32, "feed_forward_length": 11008,
		"attention.head_count": 32,
	} {
		m.Set("llama."+key, v)
	}
	m.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	matrix := func(name string, cols, rows int) gguf.TensorSpec {
		return gguf.TensorSpec{Name: name + ".weight", Type: gguf.Q4_0, Dims: []int{cols, rows}}
	}
	vector := func(name string) gguf.TensorSpec {
		return gguf.TensorSpec{Name: name + ".weight", Type: gguf.F32, Dims: []int{4096}}
	}
	specs := []gguf.TensorSpec{matrix("token_embd", 4096, 32000)}
	for l := range 32 {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s", l, name) }
		specs = append(specs, vector(blk("attn_norm")), matrix(blk("attn_q"), 4096, 4096), matrix(blk("attn_k"), 4096, 4096),
			matrix(blk("attn_v"), 4096, 4096), matrix(blk("attn_output"), 4096, 4096), vector(blk("ffn_norm")),
			matrix(blk("ffn_gate"), 4096, 11008), matrix(blk("ffn_up"), 4096, 11008), matrix(blk("ffn_down"), 11008, 4096))
	}
	specs = append(specs, vector("output_norm"), matrix("output", 4096, 32000))
	var header bytes.Buffer
	w, err := gguf.NewWriter(&header, &m, specs)
	require.NoError(t, err)
	last := w.Tensors()[len(specs)-1]
	header.Write(make([]byte, 1<<20)) // Parse may read beyond the header
	f, err := gguf.Parse("large.gguf", bytes.NewReader(header.Bytes()), last.Offset+last.Size)
	require.NoError(t, err)
	md, err := model.New(f)
	require.NoError(t, err)
	return md
}

// planFor plans for the large model in a process that takes processBytes already,
// with rates that are assumed: there is no such file. How much memory the machine
// has is not known: what 40 slots take need not be there.
func planFor(t *testing.T, options ...Option) (*Plan, error) {
	c, err := newConfig(append([]Option{WithThreads(2)}, options...))
	require.NoError(t, err)
	m := largeModel(t)
	c.setContext(m)
	p, err := newPlanner(m, c, processBytes)
	require.NoError(t, err)
	if err := p.limits(t.TempDir()); err != nil {
		return nil, err
	}
	return p.decide()
}

const processBytes = 20 << 20

// The plan never exceeds its ceiling, and more memory never makes it slower.
func TestPlanWithinCeiling(t *testing.T) {
	floor, err := planFor(t, WithMemory(MemoryFloor()), WithContext(512))
	require.NoError(t, err)
	require.Equal(t, floor.Floor, floor.Ceiling)
	require.Zero(t, floor.PinnedBlocks)
	require.Less(t, floor.Total, int64(450<<20), "a 4 GB model runs in a tenth of its size")

	last := time.Hour.Seconds()
	for memory := floor.Ceiling; memory < 6<<30; memory += 97 << 20 {
		p, err := planFor(t, WithMemory(MemoryBytes(memory)), WithContext(512))
		require.NoError(t, err)
		require.LessOrEqual(t, p.Total, memory)
		require.LessOrEqual(t, p.SecondsPerToken, last*1.05, "%d MiB", memory>>20)
		require.InDelta(t, p.ModelBytes, p.StreamedBytes+p.PinnedBytes, 64<<10*float64(p.Blocks), "but for norms and alignment")
		last = p.SecondsPerToken
		if p.StreamedBytes > 0 {
			require.Less(t, memory-p.Total, int64(120<<20), "%d MiB: room for another block is left", memory>>20)
		}
	}
	require.InDelta(t, 3.7e9/12e9, last, 0.1, "all of it in memory at last: only arithmetic is left")
}

func TestPlanRefuses(t *testing.T) {
	for _, options := range [][]Option{
		{WithMemory(MemoryBytes(100 << 20))},
		{WithMemory(MemoryBytes(400 << 20)), WithUnit(model.UnitLayer), WithBuffers(3)},
		{WithMemory(MemoryBytes(2 << 30)), WithContext(4096), WithKV(compute.KVF32)},
	} {
		_, err := planFor(t, options...)
		require.ErrorIs(t, err, ErrMemory)
		var memory *MemoryError
		require.ErrorAs(t, err, &memory)
		// The floor that the message names works.
		p, err := planFor(t, append(options, WithMemory(MemoryBytes(memory.Floor)))...)
		require.NoError(t, err)
		require.LessOrEqual(t, p.Total, memory.Floor)
		_, err = planFor(t, append(options, WithMemory(MemoryBytes(memory.Floor-4<<20)))...)
		require.ErrorIs(t, err, ErrMemory)
	}
}

// Sessions and rows of logits are planned with the rest: all that are asked for
// where there is memory, fewer where it is scarce, one at the floor.
func TestPlanSessionsAndLogits(t *testing.T) {
	asked := []Option{WithContext(512), WithSessions(8), WithLogits(2048)}
	one, err := planFor(t, WithMemory(MemoryFloor()), WithContext(512))
	require.NoError(t, err)
	least, err := planFor(t, append(asked, WithMemory(MemoryFloor()))...)
	require.NoError(t, err)
	require.Equal(t, 1, least.Sessions)
	require.LessOrEqual(t, least.Logits, least.Chunk)
	require.InDelta(t, one.Ceiling, least.Ceiling, 2<<20, "the floor is that of one session")

	last := least
	for memory := least.Ceiling; memory < 20<<30; memory += 301 << 20 {
		p, err := planFor(t, append(asked, WithMemory(MemoryBytes(memory)))...)
		require.NoError(t, err)
		require.LessOrEqual(t, p.Total, memory)
		require.GreaterOrEqual(t, p.Sessions, last.Sessions)
		require.GreaterOrEqual(t, p.Logits, last.Logits)
		last = p
	}
	require.Equal(t, 8, last.Sessions)
	require.Equal(t, 2048, last.Logits)
	require.Equal(t, 2048, last.Chunk, "prompts of several sessions share a pass")
	for _, i := range last.Items {
		if i.Name == "KV cache" {
			require.EqualValues(t, 8*512*32*2*4096*2, i.Bytes)
		}
	}
}

// Slots for a block of a file that says it is as large as can be are more than
// any memory, and not less than nothing.
func TestNeedsOfEndlessBlocks(t *testing.T) {
	c, err := newConfig([]Option{WithThreads(2), WithContext(512)})
	require.NoError(t, err)
	m := largeModel(t)
	c.setContext(m)
	p, err := newPlanner(m, c, processBytes)
	require.NoError(t, err)
	k := p.cuts[0]
	for _, slot := range []int64{1 << 59, 1 << 61, 1<<63 - 1} {
		k.slot = slot
		require.GreaterOrEqual(t, sum(p.needs(&k, p.least(), 40, 0)), int64(1<<60))
	}
}

// What is asked for is kept.
func TestPlanObeys(t *testing.T) {
	for _, buffers := range []int{1, 2, 5} {
		for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
			p, err := planFor(t, WithMemory(MemoryBytes(2<<30)), WithBuffers(buffers), WithUnit(unit), WithContext(1000))
			require.NoError(t, err)
			require.Equal(t, buffers, p.Buffers)
			require.Equal(t, unit, p.Unit)
			require.Equal(t, 1000, p.Context)
			require.Positive(t, p.PinnedBlocks)
			require.Positive(t, p.StreamedBytes)
		}
	}
	p, err := planFor(t, WithBuffers(3))
	require.NoError(t, err)
	require.Zero(t, p.PinnedBlocks, "buffers alone: stream everything")
	p, err = planFor(t, WithPinned(7))
	require.NoError(t, err)
	require.Equal(t, 7, p.PinnedBlocks)
	require.Equal(t, 2, p.Buffers)
	p, err = planFor(t, WithBuffers(40))
	require.NoError(t, err)
	require.Zero(t, p.StreamedBytes, "a ring with room for all blocks pins them")
}

// Pins are spread evenly: no stretch of streamed blocks is much longer than
// another, so that the reader always has compute to hide behind.
func TestPinsSpread(t *testing.T) {
	sizes := make([]blockSize, 33)
	for b := range sizes {
		sizes[b] = blockSize{file: 100, pin: 100}
	}
	for room := int64(0); room <= 3400; room += 100 {
		pinned := choosePins(sizes, room)
		pins, longest, run := 0, 0, 0
		for _, is := range pinned {
			if is {
				pins++
				run = 0
			} else if run++; run > longest {
				longest = run
			}
		}
		require.EqualValues(t, min(33, room/100), pins)
		if pins > 0 && pins < 33 {
			require.LessOrEqual(t, longest, 33/pins+1, "%d pins", pins)
		}
	}
}

// Random sizes: the room is never exceeded, and no block that would still fit
// is left out.
func TestPinsFit(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		sizes := make([]blockSize, 1+rng.IntN(60))
		for b := range sizes {
			sizes[b].pin = 1 + rng.Int64N(1000)
		}
		room := rng.Int64N(30000)
		left := room
		pinned := choosePins(sizes, room)
		for b, is := range pinned {
			if is {
				left -= sizes[b].pin
			}
		}
		require.GreaterOrEqual(t, left, int64(0))
		for b, is := range pinned {
			require.True(t, is || sizes[b].pin > left)
		}
	}
}

// The simulated ring agrees with what can be worked out by hand.
func TestSimulate(t *testing.T) {
	sizes := make([]blockSize, 10)
	for b := range sizes {
		sizes[b].file, sizes[b].used = 1000, 1000
	}
	none := make([]bool, 10)
	half := []bool{true, false, true, false, true, false, true, false, true, false}
	for _, tc := range []struct {
		name    string
		pinned  []bool
		buffers int
		gap     time.Duration
		rates   Rates // with Expand, blocks are made floats of
		want    time.Duration
	}{
		{"one slot: in turns", none, 1, 0, Rates{Storage: 1e6, Compute: 2e6}, 15 * time.Millisecond},
		{"two slots: storage is slower", none, 2, 0, Rates{Storage: 1e6, Compute: 2e6}, 10 * time.Millisecond},
		{"two slots: compute is slower", none, 2, 0, Rates{Storage: 2e6, Compute: 1e6}, 10 * time.Millisecond},
		{"between reads nothing is read", none, 2, time.Millisecond, Rates{Storage: 1e6, Compute: 2e6}, 20 * time.Millisecond},
		{"one slot: floats in turn too", none, 1, 0, Rates{Storage: 1e6, Compute: 2e6, Expand: 2e6}, 20 * time.Millisecond},
		{"two slots: one computes while the other is read and made floats of", none, 2, 0, Rates{Storage: 2e6, Compute: 1e6, Expand: 2e6}, 10 * time.Millisecond},
		{"three slots: making floats is slowest", none, 3, 0, Rates{Storage: 2e6, Compute: 2e6, Expand: 1e6}, 10 * time.Millisecond},
		{"pinned floats are not made again", half, 3, 0, Rates{Storage: 1e9, Compute: 1e9, Expand: 1e6}, 5 * time.Millisecond},
		{"half pinned, two slots: reads hide behind pins", half, 2, 0, Rates{Storage: 1e6, Compute: 1e6}, 10 * time.Millisecond},
		{"half pinned, one slot: a read hides behind the pin before it", half, 1, 0, Rates{Storage: 1e6, Compute: 1e6}, 10 * time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sizes := slices.Clone(sizes)
			for b := range sizes {
				if tc.rates.Expand > 0 {
					sizes[b].expand = 1000
				}
			}
			require.InDelta(t, tc.want.Seconds(), simulate(sizes, tc.pinned, tc.buffers, tc.gap, tc.rates).Seconds(), 1e-6)
		})
	}
}
