package model_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// checkBlocks tests the block table of m: every matrix but the embedding lies
// in exactly one block, at the bytes that the file says; extents are in their
// files, in order, and hold nothing but tensors of the block and small gaps.
func checkBlocks(t *testing.T, m *model.Model) {
	t.Helper()
	require.Len(t, m.Blocks, m.Params.Layers+1, "the layers, then the head")
	require.Len(t, m.Layers, m.Params.Layers)
	placed := map[string]int{} // tensor to block
	for b, block := range m.Blocks {
		if b < m.Params.Layers {
			require.Equal(t, fmt.Sprintf("layer %d", b), block.Name)
		} else {
			require.Equal(t, "output", block.Name)
		}
		used := make([]int64, len(block.Extents)) // up to where tensors have been found
		for _, p := range block.Tensors {
			e := block.Extents[p.Part]
			require.Equal(t, p.File, e.File, p.Name)
			require.Equal(t, p.Offset, e.Off+p.Off, p.Name)
			require.GreaterOrEqual(t, p.Off, used[p.Part], "%s overlaps the tensor before", p.Name)
			require.LessOrEqual(t, p.Off-used[p.Part], int64(64<<10), "a gap before %s", p.Name)
			used[p.Part] = p.Off + p.Size
			_, twice := placed[p.Name]
			require.False(t, twice, "%s is in two blocks", p.Name)
			placed[p.Name] = b
		}
		for i, e := range block.Extents {
			require.Equal(t, e.Size, used[i], "extent %d of %s ends with a tensor", i, block.Name)
			require.LessOrEqual(t, e.Off+e.Size, m.File.Sizes[e.File])
			require.True(t, slices.ContainsFunc(block.Tensors, func(p model.Placed) bool { return p.Part == i && p.Off == 0 }), "extent %d of %s begins with a tensor", i, block.Name)
		}
	}

	vectors := m.Vectors()
	inMemory := map[string]bool{}
	for _, v := range vectors {
		require.Equal(t, gguf.F32, v.Type)
		require.Equal(t, 1, v.Rows())
		require.Equal(t, -1, v.Block)
		require.False(t, inMemory[v.Name], v.Name)
		inMemory[v.Name] = true
	}
	tied := m.Global.Output.Name == m.Global.Embedding.Name
	for _, ten := range m.File.Tensors {
		_, streamed := placed[ten.Name]
		switch {
		case ten.Name == "token_embd.weight":
			require.Equal(t, tied, streamed, "the embedding is streamed if it is the head")
		case len(ten.Dims) == 1:
			require.True(t, inMemory[ten.Name] && !streamed, ten.Name)
		default:
			require.True(t, streamed && !inMemory[ten.Name], ten.Name)
		}
	}
	require.Equal(t, -1, m.Global.Embedding.Block)

	// From a role to its place, as compute goes.
	at := func(ten *model.Tensor, block int) {
		require.Equal(t, block, ten.Block, ten.Name)
		require.Same(t, ten.Tensor, m.Blocks[ten.Block].Tensors[ten.Index].Tensor)
	}
	for i, layer := range m.Layers {
		for role, ten := range layer {
			if ten == nil {
				continue
			}
			require.Contains(t, ten.Name, fmt.Sprintf("blk.%d.", i))
			if ten.Block >= 0 {
				at(ten, i)
			} else {
				require.Contains(t, vectors, ten, "role %d", role)
			}
		}
	}
	at(m.Global.Output, m.Params.Layers)
}

// The reference models, with what their maker's notes say of each.
func TestNewReferences(t *testing.T) {
	dir := filepath.Join(refs(t), "models")
	base := model.Params{
		Arch: "llama", Vocab: 288, Dim: 256, Layers: 2, FFN: 512,
	}
	for _, tc := range []struct {
		pattern string
		least   int // files
		check   func(t *testing.T, m *model.Model)
	}{
		{"llama-[A-Z]*.gguf", 20, func(t *testing.T, m *model.Model) {
			require.Equal(t, base.Dim, m.Dim)
			require.Equal(t, base.Layers, m.Params.Layers)
			require.Equal(t, base.FFN, m.FFN)
			require.Equal(t, m.HeadDim*m.Heads, m.Dim)
			require.Equal(t, m.HeadDim, m.VDim)
			require.Equal(t, m.HeadDim, m.Rope.Dim)
			require.False(t, m.Rope.Neox)
			require.Equal(t, float32(1), m.Rope.Factor)
			require.Nil(t, m.Global.RopeFactors)
			require.Nil(t, m.Layers[0][model.AttnQBias])
			require.NotEqual(t, m.Global.Embedding.Name, m.Global.Output.Name)
			require.Len(t, m.Vectors(), 2*2+1)
		}},
		{"llama-tied-*.gguf", 2, func(t *testing.T, m *model.Model) {
			require.Equal(t, "token_embd.weight", m.Global.Output.Name)
			require.NotSame(t, m.Global.Embedding, m.Global.Output, "one is streamed, the other is not")
		}},
		{"llama-bias-*.gguf", 2, func(t *testing.T, m *model.Model) {
			for _, layer := range m.Layers {
				for _, r := range []model.Role{model.AttnQBias, model.AttnKBias, model.AttnVBias, model.AttnOutBias} {
					require.NotNil(t, layer[r])
				}
			}
			require.Len(t, m.Vectors(), 6*len(m.Layers)+1)
		}},
		{"llama-headdim-*.gguf", 1, func(t *testing.T, m *model.Model) {
			require.NotEqual(t, m.Dim, m.Heads*m.HeadDim)
		}},
		{"llama-linear-*.gguf", 1, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.ScalingLinear, m.Rope.Scaling)
			require.Greater(t, m.Rope.Factor, float32(1))
		}},
		{"llama-yarn-*.gguf", 1, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.ScalingYarn, m.Rope.Scaling)
			require.Greater(t, m.Rope.Factor, float32(1))
			require.Less(t, m.Rope.OrigContext, m.Context)
			require.Equal(t, float32(32), m.Rope.BetaFast)
			require.Equal(t, float32(1), m.Rope.BetaSlow)
		}},
		{"llama-ropefreqs-*.gguf", 1, func(t *testing.T, m *model.Model) {
			require.NotNil(t, m.Global.RopeFactors)
			require.Equal(t, m.Rope.Dim/2, m.Global.RopeFactors.Dims[0])
		}},
		{"llama-split-*-00001-of-00003.gguf", 1, func(t *testing.T, m *model.Model) {
			require.Len(t, m.File.Paths, 3)
			files := map[int]bool{}
			for _, b := range m.Blocks {
				for _, e := range b.Extents {
					files[e.File] = true
				}
			}
			require.Greater(t, len(files), 1, "the blocks lie in one file")
		}},
		{"qwen2-*.gguf", 3, func(t *testing.T, m *model.Model) {
			require.True(t, m.Rope.Neox)
			require.NotNil(t, m.Layers[0][model.AttnQBias])
		}},
		{"qwen3-[FQ]*.gguf", 2, func(t *testing.T, m *model.Model) {
			require.Equal(t, m.HeadDim, m.Layers[0][model.HeadQNorm].Dims[0])
			require.NotEqual(t, m.Dim, m.Heads*m.HeadDim)
		}},
		{"gemma2-*.gguf", 4, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.GELU, m.Activation)
			require.Equal(t, float32(math.Sqrt(float64(m.Dim))), m.EmbedScale)
			require.Positive(t, m.AttnCap)
			require.Positive(t, m.LogitCap)
			require.Equal(t, []int{16, 0, 16, 0}, []int{m.WindowOf(0), m.WindowOf(1), m.WindowOf(2), m.WindowOf(3)})
			require.NotNil(t, m.Layers[0][model.AttnPostNorm])
			width := m.HeadDim
			if m.Params.Layers == 46 {
				width = m.Dim / m.Heads
			}
			require.Equal(t, float32(1/math.Sqrt(float64(width))), m.AttnScale)
		}},
		{"gemma3-*.gguf", 3, func(t *testing.T, m *model.Model) {
			require.Zero(t, m.AttnCap)
			require.Equal(t, []int{16, 16, 0}, []int{m.WindowOf(0), m.WindowOf(4), m.WindowOf(5)})
			require.Equal(t, float32(1e6), m.Rope.Base)
			require.Equal(t, float32(1e4), m.RopeWindow.Base)
			require.Equal(t, float32(1), m.RopeWindow.Factor)
		}},
		{"phi3-*.gguf", 4, func(t *testing.T, m *model.Model) {
			require.NotNil(t, m.Layers[0][model.AttnQKV])
			require.NotNil(t, m.Layers[0][model.FFNGateUp])
			require.Equal(t, m.Window, m.WindowOf(1))
			require.Positive(t, m.Window)
		}},
		{"phi3-*rope-*.gguf", 2, func(t *testing.T, m *model.Model) {
			require.NotNil(t, m.Global.RopeLong)
			require.NotNil(t, m.Global.RopeShort)
			require.Equal(t, float32(1.19), m.Rope.AttnFactor)
		}},
		{"mixtral-[FQ]*.gguf", 3, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.Experts{Count: 4, Used: 2, FFN: m.FFN, Routing: model.RouteSoftmax, Norm: true, Scale: 1}, m.Experts)
			require.Equal(t, []int{m.Dim, m.FFN, 4}, m.Layers[0][model.ExpertUp].Dims)
		}},
		{"qwen2moe-*.gguf", 4, func(t *testing.T, m *model.Model) {
			require.False(t, m.Experts.Norm)
			require.Positive(t, m.Experts.Shared)
			require.NotNil(t, m.Layers[0][model.SharedRouter])
		}},
		{"qwen3moe-*.gguf", 4, func(t *testing.T, m *model.Model) {
			require.True(t, m.Experts.Norm)
			require.Zero(t, m.Experts.Shared)
		}},
		{"gpt-oss-*.gguf", 3, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.ClampedSwiGLU, m.Activation)
			require.Equal(t, model.RouteChosen, m.Experts.Routing)
			require.Equal(t, "blk.0.post_attention_norm.weight", m.Layers[0][model.FFNNorm].Name)
			require.Nil(t, m.Layers[0][model.AttnPostNorm])
			require.Equal(t, []int{16, 0}, []int{m.WindowOf(0), m.WindowOf(1)})
			require.Equal(t, 0, m.Layers[0][model.ExpertUpBias].Block, "streamed: a vector for each expert")
		}},
		{"deepseek2-*.gguf", 3, func(t *testing.T, m *model.Model) {
			require.Equal(t, []bool{false, true, true}, []bool{m.HasExperts(0), m.HasExperts(1), m.HasExperts(2)})
			require.NotNil(t, m.Layers[0][model.FFNUp])
			require.NotNil(t, m.Layers[1][model.SharedUp])
			require.Equal(t, m.Experts.FFN, m.Experts.Shared)
			require.Equal(t, m.HeadDim-m.Rope.Dim, m.Rope.First)
			require.Equal(t, 64, m.QRank)
			require.True(t, m.Rope.InScores)
		}},
	} {
		paths, err := filepath.Glob(filepath.Join(dir, tc.pattern))
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(paths), tc.least, tc.pattern)
		for _, path := range paths {
			t.Run(filepath.Base(path), func(t *testing.T) {
				f, err := gguf.Open(path)
				require.NoError(t, err)
				m, err := model.New(f)
				require.NoError(t, err)
				checkBlocks(t, m)
				tc.check(t, m)
			})
		}
	}
}

func TestNewTiny(t *testing.T) {
	m, err := model.New(tiny().parse(t))
	require.NoError(t, err)
	rope := model.Rope{Dim: 8, Base: 10000, Scaling: model.ScalingLinear, Factor: 1, OrigContext: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	require.Equal(t, model.Params{
		Arch: "llama", Name: "tiny", Context: 128, Vocab: 48, Dim: 32, Layers: 2, FFN: 64,
		Heads: 4, KVHeads: 2, HeadDim: 8, VDim: 8, QueryDim: 8, OutDim: 8, NormEps: 1e-5, Rope: rope, RopeWindow: rope,
		Activation: model.SiLU, EmbedScale: 1, AttnScale: float32(1 / math.Sqrt(8)),
	}, m.Params)
	checkBlocks(t, m)
	// The norm between the matrices of a layer is read along.
	for _, b := range m.Blocks {
		require.Len(t, b.Extents, 1)
	}
}

// A model can be cut anew, into smaller blocks and back.
func TestCut(t *testing.T) {
	m, err := model.New(tiny().parse(t))
	require.NoError(t, err)
	layers := m.Blocks

	m.Cut(model.UnitTensor)
	require.Len(t, m.Blocks, 2*7+1)
	require.Equal(t, "layer 0 attn_q.weight", m.Blocks[0].Name)
	require.Equal(t, "layer 1 ffn_down.weight", m.Blocks[13].Name)
	require.Equal(t, "output", m.Blocks[14].Name)
	last := -1
	for i, layer := range m.Layers {
		for r, ten := range layer {
			if ten == nil || ten.Block < 0 {
				continue
			}
			require.Equal(t, last+1, ten.Block, "layer %d, role %d: the blocks are in the order of use", i, r)
			last = ten.Block
			b := m.Blocks[ten.Block]
			require.Equal(t, []model.Placed{{Tensor: ten.Tensor}}, b.Tensors)
			require.Equal(t, []model.Extent{{File: ten.File, Off: ten.Offset, Size: ten.Size}}, b.Extents)
		}
	}
	require.Equal(t, last+1, m.Global.Output.Block)

	m.Cut(model.UnitLayer)
	require.Equal(t, layers, m.Blocks)
	checkBlocks(t, m)
}

// Shapes at the edge of what makes sense: what is a matrix stays one.
func TestNewShapes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(r *recipe)
		check  func(t *testing.T, m *model.Model)
	}{
		{"tied", func(r *recipe) { r.remove("output.weight") }, func(t *testing.T, m *model.Model) {
			require.Equal(t, m.Global.Embedding.Tensor, m.Global.Output.Tensor)
		}},
		{"no key heads stated: as many as query heads", func(r *recipe) {
			r.set("attention.head_count_kv", nil)
			for i := range 2 {
				r.tensor(fmt.Sprintf("blk.%d.attn_k.weight", i)).Dims = []int{32, 32}
				r.tensor(fmt.Sprintf("blk.%d.attn_v.weight", i)).Dims = []int{32, 32}
			}
		}, func(t *testing.T, m *model.Model) { require.Equal(t, 4, m.KVHeads) }},
		{"feed-forward network of width 1", func(r *recipe) {
			r.set("feed_forward_length", uint32(1))
			for i := range 2 {
				for _, part := range []string{"gate", "up"} {
					r.tensor(fmt.Sprintf("blk.%d.ffn_%s.weight", i, part)).Dims = []int{32, 1}
				}
				*r.tensor(fmt.Sprintf("blk.%d.ffn_down.weight", i)) = gguf.TensorSpec{Name: fmt.Sprintf("blk.%d.ffn_down.weight", i), Type: gguf.F32, Dims: []int{1, 32}}
			}
		}, nil},
		{"values of width 1 in one head", func(r *recipe) {
			r.set("attention.head_count_kv", uint32(1))
			r.set("attention.value_length", uint32(1))
			for i := range 2 {
				r.tensor(fmt.Sprintf("blk.%d.attn_k.weight", i)).Dims = []int{32, 8}
				r.tensor(fmt.Sprintf("blk.%d.attn_v.weight", i)).Dims = []int{32, 1}
				r.tensor(fmt.Sprintf("blk.%d.attn_output.weight", i)).Dims = []int{4, 32}
			}
		}, func(t *testing.T, m *model.Model) { require.Equal(t, 1, m.VDim) }},
		{"vocabulary of one", func(r *recipe) {
			r.tensor("token_embd.weight").Dims = []int{32, 1}
			r.tensor("output.weight").Dims = []int{32, 1}
		}, func(t *testing.T, m *model.Model) { require.Equal(t, 1, m.Vocab) }},
		{"vectors that nobody reads", func(r *recipe) {
			r.add("blk.0.attn_rot_embd.weight", gguf.F32, 8)
		}, func(t *testing.T, m *model.Model) {
			for _, v := range m.Vectors() {
				require.NotContains(t, v.Name, "rot_embd")
			}
		}},
		{"tensors in reverse order", func(r *recipe) { slices.Reverse(r.tensors) }, func(t *testing.T, m *model.Model) {
			require.Equal(t, "layer 0", m.Blocks[0].Name)
		}},
		{"the layers far apart", func(r *recipe) {
			// A tensor of layer 1 of more than a gap stands between two of layer 0.
			r.tensor("blk.1.ffn_up.weight").Dims = []int{32, 1 << 12}
			for i := range 2 {
				for _, part := range []string{"gate", "up"} {
					r.tensor(fmt.Sprintf("blk.%d.ffn_%s.weight", i, part)).Dims = []int{32, 1 << 12}
				}
				r.tensor(fmt.Sprintf("blk.%d.ffn_down.weight", i)).Dims = []int{1 << 12, 32}
			}
			r.set("feed_forward_length", uint32(1<<12))
			up := *r.tensor("blk.1.ffn_up.weight")
			r.remove(up.Name)
			r.tensors = slices.Insert(r.tensors, 3, up)
		}, func(t *testing.T, m *model.Model) {
			require.Len(t, m.Blocks[0].Extents, 2)
			require.Len(t, m.Blocks[1].Extents, 2)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tiny()
			tc.change(r)
			f := r.parse(t)
			m, err := model.New(f)
			require.NoError(t, err)
			for b, block := range m.Blocks[:len(m.Blocks)-1] {
				require.Len(t, block.Tensors, 7, "block %d", b)
			}
			for i := range m.Layers {
				for _, role := range []model.Role{model.AttnQ, model.AttnK, model.AttnV, model.AttnOut, model.FFNGate, model.FFNUp, model.FFNDown} {
					require.Equal(t, i, m.Layers[i][role].Block)
				}
			}
			require.Len(t, m.Vectors(), 5)
			if tc.name != "vectors that nobody reads" {
				checkBlocks(t, m)
			}
			if tc.check != nil {
				tc.check(t, m)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	set := func(key string, v any) func(*recipe) { return func(r *recipe) { r.set(key, v) } }
	for _, tc := range []struct {
		name   string
		change func(r *recipe)
		is     error
		says   string
	}{
		{"no architecture", func(r *recipe) { delete(r.keys, "general.architecture") }, model.ErrModel, `"general.architecture" is missing`},
		{"architecture of another type", func(r *recipe) { r.keys["general.architecture"] = uint32(1) }, gguf.ErrFormat, `"general.architecture"`},
		{"unknown architecture", func(r *recipe) { r.keys["general.architecture"] = "mamba" }, model.ErrUnsupported, `architecture "mamba"; supported: `},

		{"unknown tensor in a layer", func(r *recipe) { r.add("blk.1.attn_q_norm.weight", gguf.F32, 8) }, model.ErrUnsupported, `tensor "blk.1.attn_q_norm.weight" has no place`},
		{"unknown global tensor", func(r *recipe) { r.add("cls.weight", gguf.F32, 8) }, model.ErrUnsupported, `tensor "cls.weight"`},
		{"layer beyond the last", func(r *recipe) { r.add("blk.2.attn_norm.weight", gguf.F32, 32) }, model.ErrUnsupported, `tensor "blk.2.attn_norm.weight"`},
		{"layer number written otherwise", func(r *recipe) { r.add("blk.01.attn_norm.weight", gguf.F32, 32) }, model.ErrUnsupported, `tensor "blk.01.attn_norm.weight"`},

		{"embedding missing", func(r *recipe) { r.remove("token_embd.weight") }, model.ErrModel, `tensor "token_embd.weight" is missing`},
		{"output norm missing", func(r *recipe) { r.remove("output_norm.weight") }, model.ErrModel, `tensor "output_norm.weight" is missing`},
		{"matrix missing in the last layer", func(r *recipe) { r.remove("blk.1.ffn_up.weight") }, model.ErrModel, `tensor "blk.1.ffn_up.weight" is missing`},
		{"more layers than tensors", set("block_count", uint32(3)), model.ErrModel, `"blk.2.`},
		{"no tensors at all", func(r *recipe) { r.tensors = nil }, model.ErrModel, `"token_embd.weight" is missing`},

		{"too few rows", func(r *recipe) { r.tensor("blk.0.attn_q.weight").Dims = []int{32, 31} }, model.ErrModel, `tensor "blk.0.attn_q.weight" is [32 31], not [32 32]`},
		{"rows too long", func(r *recipe) { r.tensor("blk.1.ffn_down.weight").Dims = []int{96, 32} }, model.ErrModel, `tensor "blk.1.ffn_down.weight" is [96 32], not [64 32]`},
		{"transposed", func(r *recipe) { r.tensor("blk.1.ffn_down.weight").Dims = []int{32, 64} }, model.ErrModel, `tensor "blk.1.ffn_down.weight"`},
		{"norm too short", func(r *recipe) { r.tensor("blk.0.ffn_norm.weight").Dims = []int{31} }, model.ErrModel, `tensor "blk.0.ffn_norm.weight"`},
		{"norm of several rows", func(r *recipe) { r.tensor("output_norm.weight").Dims = []int{32, 2} }, model.ErrModel, `tensor "output_norm.weight"`},
		{"embedding too narrow", func(r *recipe) { r.tensor("token_embd.weight").Dims = []int{64, 48} }, model.ErrModel, `tensor "token_embd.weight"`},
		{"head of another vocabulary", func(r *recipe) { r.tensor("output.weight").Dims = []int{32, 47} }, model.ErrModel, `tensor "output.weight"`},
		{"too few rope factors", func(r *recipe) { r.add("rope_freqs.weight", gguf.F32, 3) }, model.ErrModel, `tensor "rope_freqs.weight" is [3], not [4]`},
		{"quantized norm", func(r *recipe) { r.tensor("blk.0.attn_norm.weight").Type = gguf.Q8_0 }, model.ErrUnsupported, `tensor "blk.0.attn_norm.weight": a vector of type Q8_0`},

		{"context missing", set("context_length", nil), model.ErrModel, `"llama.context_length" is missing`},
		{"width missing", set("embedding_length", nil), model.ErrModel, `"llama.embedding_length" is missing`},
		{"layers missing", set("block_count", nil), model.ErrModel, `"llama.block_count" is missing`},
		{"heads missing", set("attention.head_count", nil), model.ErrModel, `"llama.attention.head_count" is missing`},
		{"eps missing", set("attention.layer_norm_rms_epsilon", nil), model.ErrModel, `"llama.attention.layer_norm_rms_epsilon" is missing`},
		{"no layers", set("block_count", uint32(0)), model.ErrModel, `"llama.block_count" is 0`},
		{"negative layers", set("block_count", int32(-1)), model.ErrModel, `"llama.block_count" is -1`},
		{"absurd layers", set("block_count", uint64(1<<62)), model.ErrModel, `"llama.block_count" is 4611686018427387904`},
		{"many layers", set("block_count", uint32(1<<24)), model.ErrModel, `16777216 layers in a file of 21 tensors`},
		{"layers that fit no int", set("block_count", uint64(1<<63)), gguf.ErrFormat, `"llama.block_count"`},
		{"layers as a string", set("block_count", "2"), gguf.ErrFormat, `"llama.block_count"`},
		{"width 0", set("embedding_length", uint32(0)), model.ErrModel, `"llama.embedding_length" is 0`},
		{"other width", set("embedding_length", uint32(64)), model.ErrModel, `is [32`},
		{"huge width", set("embedding_length", uint32(1<<31)), model.ErrModel, `"llama.embedding_length" is 2147483648`},
		{"feed-forward width -5", set("feed_forward_length", int64(-5)), model.ErrModel, `"llama.feed_forward_length" is -5`},
		{"no heads", set("attention.head_count", uint32(0)), model.ErrModel, `"llama.attention.head_count" is 0`},
		{"more heads than elements", set("attention.head_count", uint32(33)), model.ErrModel, `"llama.attention.key_length"`},
		{"heads do not divide", set("attention.head_count_kv", uint32(3)), model.ErrModel, `4 query heads do not divide among 3 key heads`},
		{"more key heads than query heads", set("attention.head_count_kv", uint32(8)), model.ErrModel, `4 query heads do not divide among 8 key heads`},
		{"no key heads", set("attention.head_count_kv", uint32(0)), model.ErrModel, `"llama.attention.head_count_kv" is 0`},
		{"key heads a layer", set("attention.head_count_kv", []int32{2, 2}), gguf.ErrFormat, `"llama.attention.head_count_kv"`},
		{"context 0", set("context_length", uint32(0)), model.ErrModel, `"llama.context_length" is 0`},
		{"eps NaN", set("attention.layer_norm_rms_epsilon", nan), model.ErrModel, `"llama.attention.layer_norm_rms_epsilon" is NaN`},
		{"eps negative", set("attention.layer_norm_rms_epsilon", float32(-1e-9)), model.ErrModel, `layer_norm_rms_epsilon`},
		{"eps 1", set("attention.layer_norm_rms_epsilon", float32(1)), model.ErrModel, `layer_norm_rms_epsilon`},

		{"odd rope width", set("rope.dimension_count", uint32(7)), model.ErrModel, `7 of 8 elements`},
		{"rope wider than a head", set("rope.dimension_count", uint32(10)), model.ErrModel, `10 of 8 elements`},
		{"rope width 0", set("rope.dimension_count", uint32(0)), model.ErrModel, `"llama.rope.dimension_count" is 0`},
		{"rope base NaN", set("rope.freq_base", nan), model.ErrModel, `"llama.rope.freq_base" is NaN`},
		{"rope base 0", set("rope.freq_base", float32(0)), model.ErrModel, `"llama.rope.freq_base" is 0`},
		{"rope base infinite", set("rope.freq_base", inf), model.ErrModel, `"llama.rope.freq_base" is +Inf`},
		{"rope factor negative", set("rope.scaling.factor", float32(-2)), model.ErrModel, `"llama.rope.scaling.factor" is -2`},
		{"rope factor NaN", set("rope.scaling.factor", nan), model.ErrModel, `"llama.rope.scaling.factor" is NaN`},
		{"rope attention factor NaN", set("rope.scaling.attn_factor", nan), model.ErrModel, `"llama.rope.scaling.attn_factor" is NaN`},
		{"rope betas the wrong way round", set("rope.scaling.yarn_beta_slow", float32(40)), model.ErrModel, `yarn_beta_fast`},
		{"rope beta NaN", set("rope.scaling.yarn_beta_fast", nan), model.ErrModel, `"llama.rope.scaling.yarn_beta_fast" is NaN`},
		{"rope original context 0", set("rope.scaling.original_context_length", uint32(0)), model.ErrModel, `original_context_length" is 0`},
		{"unknown rope scaling", set("rope.scaling.type", "dynamic"), model.ErrUnsupported, `"llama.rope.scaling.type" is "dynamic"; supported are [none linear yarn longrope]`},
		{"rope scaling without its factors", set("rope.scaling.type", "longrope"), model.ErrModel, `"llama.rope.scaling.type" is "longrope", and tensor "rope_factors_long.weight" is missing`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := tiny()
			tc.change(r)
			m, err := model.New(r.parse(t))
			require.ErrorIs(t, err, tc.is)
			require.ErrorContains(t, err, tc.says)
			require.Nil(t, m)
		})
	}
}

// What a model of another architecture lacks, or has and cannot use.
func TestNewRefusesArchitectures(t *testing.T) {
	set := func(key string, v any) func(*recipe) { return func(r *recipe) { r.set(key, v) } }
	remove := func(name string) func(*recipe) { return func(r *recipe) { r.remove(name) } }
	for _, tc := range []struct {
		file   string
		name   string
		change func(r *recipe)
		is     error
		says   string
	}{
		{"qwen2-Q8_0", "bias missing", remove("blk.1.attn_q.bias"), model.ErrModel, `tensor "blk.1.attn_q.bias" is missing`},
		{"qwen3-Q8_0", "head norm missing", remove("blk.0.attn_k_norm.weight"), model.ErrModel, `tensor "blk.0.attn_k_norm.weight" is missing`},
		{"qwen3-Q8_0", "head norm too wide", func(r *recipe) { r.tensor("blk.0.attn_k_norm.weight").Dims = []int{64} }, model.ErrModel, `is [64], not [32]`},
		{"gemma3-Q8_0", "no window", set("attention.sliding_window", nil), model.ErrModel, `"gemma3.attention.sliding_window" is missing`},
		{"gemma3-Q8_0", "negative window", set("attention.sliding_window", int32(-1)), model.ErrModel, `"gemma3.attention.sliding_window" is -1`},
		{"gemma3-Q8_0", "NaN cap", set("final_logit_softcapping", nan), model.ErrModel, `"gemma3.final_logit_softcapping" is NaN`},
		{"gemma3-Q8_0", "base of windowed layers", set("rope.freq_base_swa", float32(0)), model.ErrModel, `"gemma3.rope.freq_base_swa" is 0`},
		{"phi3-Q8_0", "queries by themselves", func(r *recipe) { r.add("blk.0.attn_q.weight", gguf.Q8_0, 64, 64) }, model.ErrUnsupported, `tensor "blk.0.attn_q.weight" has no place`},
		{"phi3-Q8_0", "not fused", func(r *recipe) { r.tensor("blk.2.ffn_up.weight").Dims = []int{64, 128} }, model.ErrModel, `is [64 128], not [64 256]`},
		{"phi3-Q8_0", "only long factors", func(r *recipe) { r.add("rope_factors_long.weight", gguf.F32, 16) }, model.ErrModel, `"rope_factors_short.weight" is missing`},
		{"mixtral-Q4_0", "one tensor an expert", func(r *recipe) {
			for i := range 4 {
				r.add(fmt.Sprintf("blk.0.ffn_up.%d.weight", i), gguf.Q4_0, 64, 64)
			}
			r.remove("blk.0.ffn_up_exps.weight")
		}, model.ErrUnsupported, `tensor "blk.0.ffn_up.0.weight" is one expert alone, as in files from before April 2024: convert the model again`},
		{"mixtral-Q4_0", "more used than there are", set("expert_used_count", uint32(5)), model.ErrModel, `"llama.expert_used_count" is 5`},
		{"mixtral-Q4_0", "none used", set("expert_used_count", nil), model.ErrModel, `"llama.expert_used_count" is 0`},
		{"mixtral-Q4_0", "another number of experts", set("expert_count", uint32(8)), model.ErrModel, `is [64 4], not [64 8]`},
		{"mixtral-Q4_0", "experts that nobody counts", set("expert_count", nil), model.ErrUnsupported, `_exps.weight" has no place`},
		{"qwen2moe-Q4_0", "no experts", set("expert_count", nil), model.ErrModel, `"qwen2moe.expert_count" is 0`},
		{"qwen2moe-Q4_0", "shared expert's width", set("expert_shared_feed_forward_length", uint32(32)), model.ErrModel, `_shexp.weight" is`},
		{"qwen3moe-Q4_0", "experts' width", set("expert_feed_forward_length", uint32(64)), model.ErrModel, `_exps.weight" is`},
		{"gpt-oss-MXFP4", "sinks missing", remove("blk.0.attn_sinks.weight"), model.ErrModel, `tensor "blk.0.attn_sinks.weight" is missing`},
		{"gpt-oss-MXFP4", "quantized biases", func(r *recipe) { r.tensor("blk.0.ffn_up_exps.bias").Type = gguf.Q8_0 }, model.ErrUnsupported, `tensor "blk.0.ffn_up_exps.bias": a vector of type Q8_0`},
		{"deepseek2-Q4_0", "unknown gate", set("expert_gating_func", uint32(4)), model.ErrUnsupported, `"deepseek2.expert_gating_func" is 4; supported`},
		{"deepseek2-Q4_0", "no latent", set("attention.kv_lora_rank", nil), model.ErrModel, `"deepseek2.attention.kv_lora_rank" is missing`},
		{"deepseek2-Q4_0", "huge shared expert", set("expert_shared_count", uint32(1<<24)), model.ErrModel, `"deepseek2.expert_shared_count" is`},
		{"deepseek2-Q4_0", "keys and values by themselves", func(r *recipe) { r.add("blk.0.attn_k_b.weight", gguf.F32, 32, 32, 2) }, model.ErrUnsupported, `tensor "blk.0.attn_k_b.weight" has no place`},
		{"deepseek2-Q4_0", "cached keys of another width", func(r *recipe) {
			r.set("attention.key_length_mla", uint32(64))
			r.set("attention.value_length_mla", uint32(32))
			r.set("attention.key_length", uint32(65))
		}, model.ErrModel, `"deepseek2.attention.key_length" is 65`},
		{"deepseek2-Q4_0", "groups of different sizes", set("expert_group_count", uint32(4)), model.ErrModel, `"deepseek2.expert_group_used_count" is missing`},
		{"deepseek2-Q4_0", "more groups used than there are", func(r *recipe) {
			r.set("expert_group_count", uint32(2))
			r.set("expert_group_used_count", uint32(3))
		}, model.ErrModel, `"deepseek2.expert_group_used_count" is 3`},
		{"deepseek2-Q4_0", "queries in one step", set("attention.q_lora_rank", nil), model.ErrUnsupported, `attn_q_a`},
		{"deepseek2-Q4_0", "NaN multiplier", set("rope.scaling.yarn_log_multiplier", nan), model.ErrModel, `yarn_log_multiplier" is NaN`},
	} {
		t.Run(tc.file+" "+tc.name, func(t *testing.T) {
			r := recipeOf(t, tc.file)
			_, err := model.New(r.parse(t))
			require.NoError(t, err)
			tc.change(r)
			m, err := model.New(r.parse(t))
			require.ErrorIs(t, err, tc.is)
			require.ErrorContains(t, err, tc.says)
			require.Nil(t, m)
		})
	}
}

// The defaults of keys that files of the architectures lack.
func TestDefaults(t *testing.T) {
	for _, tc := range []struct {
		file  string
		drop  []string
		set   map[string]any
		check func(t *testing.T, m *model.Model)
	}{
		{"mixtral-Q4_0", []string{"rope.freq_base", "rope.dimension_count"}, nil, func(t *testing.T, m *model.Model) {
			require.Equal(t, float32(10000), m.Rope.Base)
			require.Equal(t, m.HeadDim, m.Rope.Dim)
		}},
		{"qwen2moe-Q4_0", []string{"expert_feed_forward_length", "expert_shared_feed_forward_length"}, nil, func(t *testing.T, m *model.Model) {
			require.Equal(t, m.FFN/2, m.Experts.FFN)
			require.Equal(t, m.FFN, m.Experts.Shared)
		}},
		{"qwen2moe-Q4_0", nil, map[string]any{"expert_weights_norm": true, "expert_weights_scale": float32(2)}, func(t *testing.T, m *model.Model) {
			require.True(t, m.Experts.Norm)
			require.Equal(t, float32(2), m.Experts.Scale)
		}},
		{"phi3-Q8_0", []string{"attention.sliding_window"}, nil, func(t *testing.T, m *model.Model) { require.Zero(t, m.Window) }},
		{"gemma3-Q8_0", nil, map[string]any{"attention.sliding_window_pattern": uint32(2), "rope.freq_base_swa": float32(20000)}, func(t *testing.T, m *model.Model) {
			require.Equal(t, []int{16, 0}, []int{m.WindowOf(0), m.WindowOf(1)})
			require.Equal(t, float32(20000), m.RopeWindow.Base)
		}},
		{"deepseek2-Q4_0", []string{"expert_gating_func", "expert_weights_norm", "expert_weights_scale", "rope.scaling.yarn_log_multiplier"}, nil, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.RouteSoftmax, m.Experts.Routing)
			require.False(t, m.Experts.Norm)
			require.Equal(t, float32(1), m.Experts.Scale)
			require.Zero(t, m.Rope.LogMultiplier)
		}},
		{"deepseek2-Q4_0", nil, map[string]any{"expert_gating_func": uint32(2)}, func(t *testing.T, m *model.Model) {
			require.Equal(t, model.RouteSigmoid, m.Experts.Routing)
		}},
	} {
		r := recipeOf(t, tc.file)
		for _, key := range tc.drop {
			r.set(key, nil)
		}
		for key, v := range tc.set {
			r.set(key, v)
		}
		m, err := model.New(r.parse(t))
		require.NoError(t, err)
		tc.check(t, m)
	}
}

// A user whose model is not supported is told what is.
func TestArchitectures(t *testing.T) {
	names := model.Architectures()
	require.Contains(t, names, "llama")
	require.True(t, slices.IsSorted(names))
	r := tiny()
	r.keys["general.architecture"] = "no such"
	_, err := model.New(r.parse(t))
	for _, name := range names {
		require.ErrorContains(t, err, name)
	}
}

func TestNewBigEndian(t *testing.T) {
	order := binary.BigEndian
	b := []byte("GGUF")
	b = order.AppendUint32(b, 3)
	b = order.AppendUint64(b, 0)
	b = order.AppendUint64(b, 1)
	for _, s := range []string{"general.architecture", "llama"} {
		b = order.AppendUint64(b, uint64(len(s)))
		b = append(b, s...)
		if s != "llama" {
			b = order.AppendUint32(b, 8)
		}
	}
	f, err := gguf.Parse("big.gguf", bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	_, err = model.New(f)
	require.ErrorIs(t, err, model.ErrUnsupported)
	require.ErrorContains(t, err, "big-endian")
}

func TestRope(t *testing.T) {
	// What the defaults are, for the keys that a row does not set.
	base := model.Rope{Dim: 8, Base: 10000, Scaling: model.ScalingLinear, Factor: 1, OrigContext: 128, AttnFactor: 1, BetaFast: 32, BetaSlow: 1}
	for _, tc := range []struct {
		name string
		keys map[string]any
		want func(r *model.Rope)
	}{
		{"defaults", nil, func(*model.Rope) {}},
		{"half a head is rotated", map[string]any{"dimension_count": uint32(4)}, func(r *model.Rope) { r.Dim = 4 }},
		{"base", map[string]any{"freq_base": float32(500000)}, func(r *model.Rope) { r.Base = 500000 }},
		{"base as an integer", map[string]any{"freq_base": uint32(500000)}, func(r *model.Rope) { r.Base = 500000 }},
		{"factor without a kind is linear", map[string]any{"scaling.factor": float32(4)}, func(r *model.Rope) { r.Factor = 4 }},
		{"factor 0 is none", map[string]any{"scaling.factor": float32(0)}, func(*model.Rope) {}},
		{"the old key", map[string]any{"scale_linear": float32(2)}, func(r *model.Rope) { r.Factor = 2 }},
		{"the new key wins", map[string]any{"scale_linear": float32(2), "scaling.factor": float32(8)}, func(r *model.Rope) { r.Factor = 8 }},
		{"none has no factor", map[string]any{"scaling.type": "none", "scaling.factor": float32(8)}, func(r *model.Rope) { r.Scaling = model.ScalingNone }},
		{"linear", map[string]any{"scaling.type": "linear", "scaling.factor": float32(8)}, func(r *model.Rope) { r.Factor = 8 }},
		{"yarn", map[string]any{"scaling.type": "yarn", "scaling.factor": float32(4), "scaling.original_context_length": uint32(32), "scaling.attn_factor": float32(0.5)}, func(r *model.Rope) {
			r.Scaling, r.Factor, r.OrigContext, r.AttnFactor = model.ScalingYarn, 4, 32, 0.5
		}},
		{"yarn with betas of its own", map[string]any{"scaling.type": "yarn", "scaling.yarn_beta_fast": float32(48), "scaling.yarn_beta_slow": float32(2)}, func(r *model.Rope) {
			r.Scaling, r.BetaFast, r.BetaSlow = model.ScalingYarn, 48, 2
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, want := tiny(), base
			for k, v := range tc.keys {
				r.set("rope."+k, v)
			}
			tc.want(&want)
			m, err := model.New(r.parse(t))
			require.NoError(t, err)
			require.Equal(t, want, m.Rope)
		})
	}

	// A head is as wide as key_length says, and all of it is rotated.
	r := tiny()
	r.set("attention.key_length", uint32(16))
	for i := range 2 {
		r.tensor("blk." + strconv.Itoa(i) + ".attn_q.weight").Dims = []int{32, 64}
		r.tensor("blk." + strconv.Itoa(i) + ".attn_k.weight").Dims = []int{32, 32}
	}
	m, err := model.New(r.parse(t))
	require.NoError(t, err)
	require.Equal(t, 16, m.Rope.Dim)
	require.Equal(t, 8, m.VDim)
}
