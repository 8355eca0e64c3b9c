package test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/pipeline"
)

// Experts whose rows are no multiple of eight: a panel of eight rows would hold
// rows of two of them.
func TestExpertsOfOddHeight(t *testing.T) {
	const width = 36
	file := newRewrite(t, committed+"/models/mixtral-Q4_0.gguf")
	m, err := model.New(file.f)
	require.NoError(t, err)
	for i := range m.File.Tensors {
		ten := &m.File.Tensors[i]
		if !strings.Contains(ten.Name, "_exps") {
			continue
		}
		data := file.data[ten.Name]
		file.remove(ten.Name)
		if !strings.Contains(ten.Name, "down") { // the first rows of each expert
			var rows []byte
			row := ten.Type.RowBytes(m.Dim)
			for expert := range slices.Chunk(data, m.FFN*row) {
				rows = append(rows, expert[:width*row]...)
			}
			file.add(ten.Name, ten.Type, rows, m.Dim, width, m.Experts.Count)
			continue
		}
		x := make([]float32, len(data)/ten.Type.RowBytes(m.FFN)*m.FFN)
		require.NoError(t, dequant.Float32(ten.Type, x, data))
		var columns []float32
		for row := range slices.Chunk(x, m.FFN) {
			columns = append(columns, row[:width]...)
		}
		file.addFloats(ten.Name, columns, width, m.Dim, m.Experts.Count)
	}
	file.meta.Set("llama.feed_forward_length", uint32(width))
	path := file.write(t)

	tokens := make([]int32, identityTokens)
	for i := range tokens {
		tokens[i] = int32(3 + (i*i*7)%280)
	}
	var want []float32
	for _, options := range [][]pipeline.Option{{pipeline.WithThreads(1)}, {pipeline.WithUnit(model.UnitTensor)}, {pipeline.WithPinned(4)}} {
		e, err := pipeline.Open(path, append(options, pipeline.WithoutTokenizer())...)
		require.NoError(t, err)
		require.Equal(t, gguf.Q4_0, e.Model().Layers[0][model.ExpertUp].Type)
		for name, logits := range waysToFeed(t, e, tokens) {
			if want == nil {
				want = logits
			}
			same(t, want, logits, name)
		}
		require.NoError(t, e.Close())
	}
	// As rows that were mixed up would not be, they are near those of the same
	// weights in float.
	e, err := pipeline.Open(path, pipeline.WithFloat32(), pipeline.WithoutTokenizer())
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Close()) }()
	r := reference{Vocab: m.Vocab, Tokens: tokens}
	d := r.compare(want, waysToFeed(t, e, tokens)["one pass"])
	require.Less(t, d.median, 0.6)
	require.Greater(t, d.top1, 0.8)
}

// Of a tensor that holds all experts, one token is multiplied with those that it
// chooses, however the model is cut.
func TestExpertsUsed(t *testing.T) {
	for _, name := range []string{"mixtral-Q4_0", "qwen2moe-Q4_0", "deepseek2-Q4_0", "llama-tied-Q8_0"} {
		f, err := gguf.Open(committed + "/models/" + name + ".gguf")
		require.NoError(t, err)
		m, err := model.New(f)
		require.NoError(t, err)
		for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
			m.Cut(unit)
			experts := 0
			for _, b := range m.Blocks {
				for _, ten := range b.Tensors {
					want := ten.Size
					if strings.HasSuffix(ten.Name, "_exps.weight") {
						experts++
						want = ten.Size * int64(m.Experts.Used) / int64(m.Experts.Count)
						require.Less(t, want, ten.Size)
					}
					require.Equal(t, want, m.UsedBytes(ten.Tensor), ten.Name)
				}
			}
			require.Equal(t, m.Experts.Count > 0, experts > 0, name)
		}
	}
}
