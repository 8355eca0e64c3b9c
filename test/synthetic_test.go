package test

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// shape is the size of a made-up llama model.
type shape struct {
	layers, dim, ffn, heads, kvHeads, vocab int
	kind                                    gguf.Type // of the matrices
}

// write makes a GGUF file of random weights without a tokenizer.
func (s shape) write(t testing.TB) string {
	var m gguf.Metadata
	m.Set("general.architecture", "llama")
	for key, v := range map[string]int{
		"context_length": 512, "embedding_length": s.dim, "block_count": s.layers, "feed_forward_length": s.ffn,
		"attention.head_count": s.heads, "attention.head_count_kv": s.kvHeads,
	} {
		m.Set("llama."+key, uint32(v))
	}
	m.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	vector := func(name string) gguf.TensorSpec {
		return gguf.TensorSpec{Name: name, Type: gguf.F32, Dims: []int{s.dim}}
	}
	matrix := func(name string, cols, rows int) gguf.TensorSpec {
		return gguf.TensorSpec{Name: name, Type: s.kind, Dims: []int{cols, rows}}
	}
	kv := s.dim / s.heads * s.kvHeads
	specs := []gguf.TensorSpec{matrix("token_embd.weight", s.dim, s.vocab)}
	for l := range s.layers {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", l, name) }
		specs = append(specs, vector(blk("attn_norm")), matrix(blk("attn_q"), s.dim, s.dim), matrix(blk("attn_k"), s.dim, kv),
			matrix(blk("attn_v"), s.dim, kv), matrix(blk("attn_output"), s.dim, s.dim), vector(blk("ffn_norm")),
			matrix(blk("ffn_gate"), s.dim, s.ffn), matrix(blk("ffn_up"), s.dim, s.ffn), matrix(blk("ffn_down"), s.ffn, s.dim))
	}
	specs = append(specs, vector("output_norm.weight"), matrix("output.weight", s.dim, s.vocab))

	path := filepath.Join(t.TempDir(), "synthetic.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	buf := bufio.NewWriterSize(f, 1<<20)
	w, err := gguf.NewWriter(buf, &m, specs)
	require.NoError(t, err)
	rng := rand.New(rand.NewPCG(1, 2))
	for _, spec := range specs {
		require.NoError(t, w.WriteTensor(spec.Name, func(w io.Writer) error { return writeRandom(w, rng, spec) }))
	}
	require.NoError(t, w.Close())
	require.NoError(t, buf.Flush())
	return path
}

// writeRandom writes values of about 0.05 as Q8_0, and ones as F32.
func writeRandom(w io.Writer, rng *rand.Rand, spec gguf.TensorSpec) error {
	n := 1
	for _, d := range spec.Dims {
		n *= d
	}
	var block [34]byte
	switch spec.Type {
	case gguf.F32:
		for range n {
			if _, err := w.Write([]byte{0, 0, 0x80, 0x3f}); err != nil {
				return err
			}
		}
	case gguf.Q8_0:
		for range n / 32 {
			block[0], block[1] = 0x00, 0x10 // a scale of 2^-11
			for i := 2; i < len(block); i += 8 {
				for b, r := 0, rng.Uint64(); b < 8; b++ {
					block[i+b] = byte(r >> (8 * b))
				}
			}
			if _, err := w.Write(block[:]); err != nil {
				return err
			}
		}
	default:
		return fmt.Errorf("no random values of type %v", spec.Type)
	}
	return nil
}
