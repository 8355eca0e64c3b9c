package model_test

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
)

var (
	nan = float32(math.NaN())
	inf = float32(math.Inf(1))
)

// keysToMutate are all that New reads of the architecture's.
var keysToMutate = []string{
	"context_length", "embedding_length", "block_count", "feed_forward_length",
	"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.layer_norm_rms_epsilon",
	"rope.dimension_count", "rope.freq_base", "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor",
	"attention.kv_lora_rank", "attention.q_lora_rank", "attention.key_length_mla", "attention.value_length_mla", "attention.sliding_window", "attention.sliding_window_pattern",
	"attn_logit_softcapping", "final_logit_softcapping", "rope.freq_base_swa", "rope.scaling.yarn_log_multiplier",
	"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_feed_forward_length", "expert_shared_count",
	"leading_dense_block_count", "expert_gating_func", "expert_weights_norm", "expert_weights_scale", "expert_group_count", "expert_group_used_count",
	"rope.scaling.original_context_length", "rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
}

// bases are the sound models that FuzzNew changes, by their files; the first is
// tiny.
var bases = []string{"", "qwen2-Q8_0", "qwen3-Q8_0", "gemma3-Q8_0", "phi3-Q8_0", "mixtral-Q4_0", "qwen2moe-Q4_0", "qwen3moe-Q4_0", "gpt-oss-MXFP4", "deepseek2-Q4_0"}

// FuzzNew changes a sound model, a few bytes of input a change: a metadata
// value, the shape or type of a tensor, a tensor removed or added. New must not
// panic, and what it accepts must hold together.
func FuzzNew(f *testing.F) {
	f.Add(byte(0), []byte{})
	f.Add(byte(0), []byte{0, 2, 0, 0, 0})                         // block_count 0
	f.Add(byte(0), []byte{0, 2, 3, 1, 0, 0, 2, 4, 255, 0})        // 257 layers, then something
	f.Add(byte(0), []byte{0, 8, 4, 0, 0, 0, 10, 4, 1, 0})         // NaN eps, NaN base
	f.Add(byte(0), []byte{1, 3, 32, 0, 1, 0})                     // a tensor of one row
	f.Add(byte(0), []byte{2, 1, 0, 0, 0, 3, 1, 0, 0, 0})          // removed and added
	f.Add(byte(0), []byte{0, 3, 0, 1, 0, 1, 7, 32, 0, 1})         // FFN 1
	f.Add(byte(0), []byte{1, 0, 1, 0, 1, 1, 20, 1, 0, 1})         // Dim 1
	f.Add(byte(0), []byte{0, 4, 0, 1, 0, 0, 7, 0, 1, 0, 0, 1, 9}) // one head
	for i := range bases {
		f.Add(byte(i), []byte{0, 4, 0, 2, 0})
		f.Add(byte(i), []byte{2, 3, 0, 0, 0})
		for key := range keysToMutate[9:] {
			f.Add(byte(i), []byte{0, byte(9 + key), 0, 1, 0})
		}
	}
	recipes := []*recipe{tiny()}
	for _, name := range bases[1:] {
		recipes = append(recipes, recipeOf(f, name))
	}
	f.Fuzz(func(t *testing.T, base byte, change []byte) {
		of := recipes[int(base)%len(recipes)]
		r := &recipe{keys: maps.Clone(of.keys), tensors: slices.Clone(of.tensors)}
		for c := range slices.Chunk(change[:min(len(change), 50)], 5) {
			c = append(slices.Clone(c), make([]byte, 5-len(c))...)
			n := int(c[3]) | int(c[4])<<8
			switch c[0] % 4 {
			case 0:
				key := keysToMutate[int(c[1])%len(keysToMutate)]
				r.set(key, [...]any{uint32(n), int32(-n), uint64(n) << 48, float32(n) / 100, nan, inf, "yarn", []int32{2}, nil}[c[2]%9])
			case 1:
				if len(r.tensors) > 0 {
					s := &r.tensors[int(c[1])%len(r.tensors)]
					s.Dims = []int{1 + int(c[2]), 1 + int(c[3])}
					s.Type = [...]gguf.Type{gguf.F32, gguf.F16, s.Type}[c[4]%3]
				}
			case 2:
				if len(r.tensors) > 0 {
					i := int(c[1]) % len(r.tensors)
					r.tensors = slices.Delete(r.tensors, i, i+1)
				}
			case 3:
				names := [...]string{"rope_freqs.weight", "blk.0.attn_q.bias", "blk.1.attn_output.bias", "blk.2.attn_norm.weight", "blk.0.attn_rot_embd.weight"}
				r.add(names[int(c[1])%len(names)], gguf.F32, 1+int(c[2]))
			}
		}
		b, err := r.write()
		if err != nil {
			return // no such file
		}
		file, err := gguf.Parse("fuzz.gguf", bytes.NewReader(b), int64(len(b)))
		if err != nil {
			return
		}
		m, err := model.New(file)
		if err != nil {
			require.Nil(t, m)
			require.True(t, errors.Is(err, model.ErrModel) || errors.Is(err, model.ErrUnsupported) || errors.Is(err, gguf.ErrFormat), "%v", err)
			return
		}
		for _, p := range []int{m.Context, m.Vocab, m.Dim, m.Params.Layers, m.FFN, m.Heads, m.KVHeads, m.HeadDim, m.VDim, m.QueryDim, m.OutDim, m.Rope.Dim, m.Rope.OrigContext} {
			require.Positive(t, p)
		}
		for _, p := range []int{m.Rope.First, m.Window, m.WindowPeriod, m.KVRank, m.QRank, m.Experts.Count, m.Experts.Shared, m.Experts.FirstLayer} {
			require.GreaterOrEqual(t, p, 0)
		}
		require.LessOrEqual(t, m.Rope.First+m.Rope.Dim, m.HeadDim)
		for _, x := range []float32{
			m.NormEps, m.Rope.Base, m.Rope.Factor, m.Rope.AttnFactor, m.Rope.BetaFast, m.Rope.BetaSlow, m.RopeWindow.Base, m.RopeWindow.Factor,
			m.AttnScale, m.EmbedScale, m.AttnCap, m.LogitCap, m.Experts.Scale,
		} {
			require.True(t, x >= 0 && x < 1e13, x)
		}
		require.Len(t, m.Blocks, m.Params.Layers+1)
		for i, layer := range m.Layers {
			down := layer[model.FFNDown]
			if m.HasExperts(i) {
				down = layer[model.ExpertDown]
				require.True(t, m.Experts.Used > 0 && m.Experts.Used <= m.Experts.Count)
				require.Equal(t, m.Experts.Count*m.Dim, down.Rows())
			}
			require.NotNil(t, down)
			require.NotNil(t, layer[model.AttnOut])
			for _, ten := range layer {
				if ten == nil || ten.Block < 0 {
					continue
				}
				require.Equal(t, i, ten.Block, ten.Name)
				p := m.Blocks[i].Tensors[ten.Index]
				require.Same(t, ten.Tensor, p.Tensor)
				e := m.Blocks[i].Extents[p.Part]
				require.Equal(t, ten.Offset, e.Off+p.Off)
				require.LessOrEqual(t, p.Off+ten.Size, e.Size)
				require.LessOrEqual(t, e.Off+e.Size, file.Sizes[e.File])
			}
		}
	})
}
