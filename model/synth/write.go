package synth

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// A Config says what model to make.
type Config struct {
	Shape Shape
	Type  Type
	Seed  uint64 // of the weights; any number is a good one
}

// Write writes the model that c describes to w, in pieces of up to 1 MiB.
// progress, if not nil, is called after each with the bytes that are written
// and those of the whole file, on the caller's goroutine. When ctx ends, Write
// returns its cause within a piece. A shape or type that cannot be is refused
// before anything is written.
func Write(ctx context.Context, w io.Writer, c Config, progress func(done, total int64)) error {
	specs, err := c.tensors()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	out := &counter{w: w}
	file, err := gguf.NewWriter(out, c.metadata(), specs)
	if err != nil {
		return err
	}
	if total := end(file); progress != nil {
		out.progress = func(n int64) { progress(n, total) }
	}
	buf := make([]byte, bufBytes)
	for i, s := range specs {
		err := file.WriteTensor(s.Name, func(w io.Writer) error {
			return writeTensor(ctx, w, &file.Tensors()[i], newRandom(c.Seed, i), buf)
		})
		if err != nil {
			return err
		}
	}
	return file.Close()
}

// Size returns the bytes of the file that [Write] makes of c.
func Size(c Config) (int64, error) {
	specs, err := c.tensors()
	if err != nil {
		return 0, err
	}
	file, err := gguf.NewWriter(io.Discard, c.metadata(), specs)
	if err != nil {
		return 0, err
	}
	return end(file), nil
}

// end returns the size of the whole file.
func end(w *gguf.Writer) int64 {
	ts := w.Tensors()
	last := ts[len(ts)-1]
	return last.Offset + (last.Size+alignment-1)&^(alignment-1)
}

// alignment is that of tensors in a file that does not name another.
const alignment = 32

// bufBytes is large enough for the disk not to notice, and small enough for the
// processor's cache.
const bufBytes = 1 << 20

// writeTensor writes random blocks for matrices and ones for vectors.
func writeTensor(ctx context.Context, w io.Writer, t *gguf.Tensor, r random, buf []byte) error {
	fill := func(p []byte) {
		for ; len(p) > 0; p = p[4:] {
			binary.LittleEndian.PutUint32(p, math.Float32bits(1))
		}
	}
	if len(t.Dims) > 1 {
		shape := shaper(t.Type, 1/math.Sqrt(float64(t.Dims[0])))
		fill = func(p []byte) {
			r.fill(p)
			shape(p)
		}
	}
	unit := step * t.Type.BlockBytes()
	buf = buf[:len(buf)/unit*unit]
	for left := t.Size; left > 0; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := int(min(left, int64(len(buf))))
		fill(buf[:(n+step-1)&^(step-1)])
		if _, err := w.Write(buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// A counter tells how much has gone to w.
type counter struct {
	w        io.Writer
	n        int64
	progress func(n int64) // may be nil
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	if n > 0 && c.progress != nil {
		c.progress(c.n)
	}
	return n, err
}

// tensors lists the tensors in the order in which a pass needs them.
func (c *Config) tensors() ([]gguf.TensorSpec, error) {
	s := c.Shape
	if err := s.validate(); err != nil {
		return nil, err
	}
	mix, err := c.Type.mix()
	if err != nil {
		return nil, err
	}
	var specs []gguf.TensorSpec
	vector := func(name string) {
		specs = append(specs, gguf.TensorSpec{Name: name + ".weight", Type: gguf.F32, Dims: []int{s.Dim}})
	}
	add := func(prefix string, m matrix) error {
		t, err := mix.of(m, s)
		specs = append(specs, gguf.TensorSpec{Name: prefix + string(m.role) + ".weight", Type: t, Dims: []int{m.cols, m.rows}})
		return err
	}
	if err := add("", matrix{embedding, -1, s.Vocab, s.Dim}); err != nil {
		return nil, err
	}
	for l := range s.Layers {
		prefix := fmt.Sprintf("blk.%d.", l)
		vector(prefix + "attn_norm")
		vector(prefix + "ffn_norm")
		for _, m := range s.layer(l) {
			if err := add(prefix, m); err != nil {
				return nil, err
			}
		}
	}
	vector("output_norm")
	return specs, add("", matrix{output, -1, s.Vocab, s.Dim})
}

func (c *Config) metadata() *gguf.Metadata {
	s, v := c.Shape, newVocab(c.Shape.Vocab)
	mix, _ := c.Type.mix() // tensors has asked before
	m := new(gguf.Metadata)
	m.Set("general.architecture", "llama")
	m.Set("general.name", fmt.Sprintf("synthetic %v %s", s, c.Type))
	m.Set("general.file_type", mix.file)
	m.Set("general.quantization_version", uint32(2))
	m.Set("llama.context_length", uint32(s.context()))
	m.Set("llama.embedding_length", uint32(s.Dim))
	m.Set("llama.block_count", uint32(s.Layers))
	m.Set("llama.feed_forward_length", uint32(s.FFN))
	m.Set("llama.attention.head_count", uint32(s.Heads))
	m.Set("llama.attention.head_count_kv", uint32(s.KVHeads))
	m.Set("llama.attention.layer_norm_rms_epsilon", float32(1e-5))
	m.Set("llama.rope.dimension_count", uint32(s.Dim/s.Heads))
	m.Set("llama.rope.freq_base", float32(10000))
	m.Set("llama.vocab_size", uint32(s.Vocab))
	m.Set("tokenizer.ggml.model", "llama")
	m.Set("tokenizer.ggml.tokens", v.texts)
	m.Set("tokenizer.ggml.scores", v.scores)
	m.Set("tokenizer.ggml.token_type", v.types)
	m.Set("tokenizer.ggml.unknown_token_id", uint32(0))
	m.Set("tokenizer.ggml.bos_token_id", uint32(1))
	m.Set("tokenizer.ggml.eos_token_id", uint32(2))
	m.Set("tokenizer.ggml.add_bos_token", true)
	m.Set("tokenizer.ggml.add_eos_token", false)
	return m
}
