package test

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
)

// A head that is larger than a layer is streamed in bands, in both units. Its
// logits are those of models that have only a part of its rows, which need no
// bands: more of them at once than fit in a tile, and one by one.
func TestHeadInBands(t *testing.T) {
	const vocab, part = 20_000, 7_500
	path := synthetic(t, synth.Config{Shape: synth.Shape{Layers: 2, Dim: 1024, FFN: 512, Heads: 8, KVHeads: 4, Vocab: vocab}, Type: "Q8_0"})
	tokens := make([]int32, 150)
	for i := range tokens {
		tokens[i] = int32(i*i*7) % part
	}
	parts := map[int][]float32{} // by the first row
	for _, first := range []int{0, (vocab - part) / 2, vocab - part} {
		e, err := pipeline.Open(partOfHead(t, path, first, part), pipeline.WithoutTokenizer())
		require.NoError(t, err)
		require.Len(t, e.Model().Blocks, 2+1)
		parts[first] = waysToFeed(t, e, tokens)["one pass"]
		require.NoError(t, e.Close())
	}
	for _, unit := range []model.Unit{model.UnitLayer, model.UnitTensor} {
		for _, pinned := range []int{0, 2} {
			e, err := pipeline.Open(path, pipeline.WithUnit(unit), pipeline.WithPinned(pinned), pipeline.WithoutTokenizer())
			require.NoError(t, err)
			require.Greater(t, e.Model().Global.Output.Bands, 1)
			for _, b := range e.Plan().Items {
				if b.Name == "slots" {
					require.Less(t, b.Bytes, int64(2*18<<20), "two slots, each for a band of at most 16 MiB")
				}
			}
			for way, logits := range waysToFeed(t, e, tokens) {
				for first, want := range parts {
					for i := range tokens {
						same(t, want[i*part:][:part], logits[i*vocab+first:][:part], way)
					}
				}
			}
			require.NoError(t, e.Close())
		}
	}
}

// partOfHead copies the model at path with so many rows of its embedding, from
// the first on, and of its head, from another on.
func partOfHead(t *testing.T, path string, first, rows int) string {
	f, err := gguf.Open(path)
	require.NoError(t, err)
	from, err := os.Open(path)
	require.NoError(t, err)
	defer from.Close()
	copied := filepath.Join(t.TempDir(), "part.gguf")
	to, err := os.Create(copied)
	require.NoError(t, err)
	defer func() { require.NoError(t, to.Close()) }()

	var specs []gguf.TensorSpec
	skip := map[string]int64{} // bytes of a tensor that are left out before the part
	for _, tensor := range f.Tensors {
		spec := gguf.TensorSpec{Name: tensor.Name, Type: tensor.Type, Dims: tensor.Dims}
		switch tensor.Name {
		case "output.weight":
			skip[tensor.Name] = int64(first * tensor.Type.RowBytes(tensor.Dims[0]))
			fallthrough
		case "token_embd.weight":
			spec.Dims = []int{tensor.Dims[0], rows}
		}
		specs = append(specs, spec)
	}
	w, err := gguf.NewWriter(to, f.Metadata, specs)
	require.NoError(t, err)
	for _, out := range w.Tensors() {
		in, ok := f.Tensor(out.Name)
		require.True(t, ok)
		require.NoError(t, w.WriteTensor(out.Name, func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(from, in.Offset+skip[out.Name], out.Size))
			return err
		}))
	}
	require.NoError(t, w.Close())
	return copied
}
