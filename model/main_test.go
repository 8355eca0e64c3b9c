package model_test

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/model/gguf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// refs returns the directory of reference data, or skips the test.
func refs(t *testing.T) string {
	dir := os.Getenv("LAYERPIPE_REFS")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared", "refs")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no reference data: %v", err)
	}
	return dir
}

// A recipe is a GGUF file to be made: metadata, and tensors in file order.
type recipe struct {
	keys    map[string]any
	tensors []gguf.TensorSpec
}

// tiny is a sound llama model: 2 layers, 4 query heads and 2 key heads of 8
// elements, a vocabulary of 48.
func tiny() *recipe {
	r := &recipe{keys: map[string]any{
		"general.architecture":                   "llama",
		"general.name":                           "tiny",
		"llama.context_length":                   uint32(128),
		"llama.embedding_length":                 uint32(32),
		"llama.block_count":                      uint32(2),
		"llama.feed_forward_length":              uint32(64),
		"llama.attention.head_count":             uint32(4),
		"llama.attention.head_count_kv":          uint32(2),
		"llama.attention.layer_norm_rms_epsilon": float32(1e-5),
	}}
	r.add("token_embd.weight", gguf.Q8_0, 32, 48)
	for i := range 2 {
		b := "blk." + strconv.Itoa(i) + "."
		r.add(b+"attn_norm.weight", gguf.F32, 32)
		r.add(b+"attn_q.weight", gguf.Q8_0, 32, 32)
		r.add(b+"attn_k.weight", gguf.Q8_0, 32, 16)
		r.add(b+"attn_v.weight", gguf.F16, 32, 16)
		r.add(b+"attn_output.weight", gguf.F32, 32, 32)
		r.add(b+"ffn_norm.weight", gguf.F32, 32)
		r.add(b+"ffn_gate.weight", gguf.Q8_0, 32, 64)
		r.add(b+"ffn_up.weight", gguf.Q8_0, 32, 64)
		r.add(b+"ffn_down.weight", gguf.Q8_0, 64, 32)
	}
	r.add("output_norm.weight", gguf.F32, 32)
	r.add("output.weight", gguf.Q8_0, 32, 48)
	return r
}

// recipeOf returns the recipe of a reference model that comes with the
// repository.
func recipeOf(t testing.TB, name string) *recipe {
	t.Helper()
	f, err := gguf.Open(filepath.Join("..", "test", "testdata", "refs", "models", name+".gguf"))
	require.NoError(t, err)
	r := &recipe{keys: map[string]any{}}
	for _, k := range f.Metadata.Keys() {
		if v, _ := f.Metadata.Value(k); !strings.HasPrefix(k, "tokenizer.") {
			r.keys[k] = v
		}
	}
	for i := range f.Tensors {
		r.add(f.Tensors[i].Name, f.Tensors[i].Type, f.Tensors[i].Dims...)
	}
	return r
}

func (r *recipe) add(name string, typ gguf.Type, dims ...int) {
	r.tensors = append(r.tensors, gguf.TensorSpec{Name: name, Type: typ, Dims: dims})
}

// set changes a key of the architecture; nil removes it.
func (r *recipe) set(key string, v any) {
	if arch, ok := r.keys["general.architecture"].(string); ok {
		key = arch + "." + key
	}
	if v == nil {
		delete(r.keys, key)
		return
	}
	r.keys[key] = v
}

// tensor returns the tensor of that name, to be changed.
func (r *recipe) tensor(name string) *gguf.TensorSpec {
	for i := range r.tensors {
		if r.tensors[i].Name == name {
			return &r.tensors[i]
		}
	}
	panic("no tensor " + name)
}

func (r *recipe) remove(name string) {
	r.tensors = slices.DeleteFunc(r.tensors, func(t gguf.TensorSpec) bool { return t.Name == name })
}

// write returns the file, its data all zeros, or the error of the writer.
func (r *recipe) write() ([]byte, error) {
	m := &gguf.Metadata{}
	for _, k := range slices.Sorted(maps.Keys(r.keys)) {
		m.Set(k, r.keys[k])
	}
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, m, r.tensors)
	if err != nil {
		return nil, err
	}
	for _, t := range w.Tensors() {
		err := w.WriteTensor(t.Name, func(w io.Writer) error { _, err := w.Write(make([]byte, t.Size)); return err })
		if err != nil {
			return nil, err
		}
	}
	return b.Bytes(), w.Close()
}

func (r *recipe) parse(t testing.TB) *gguf.File {
	t.Helper()
	b, err := r.write()
	require.NoError(t, err)
	f, err := gguf.Parse("tiny.gguf", bytes.NewReader(b), int64(len(b)))
	require.NoError(t, err)
	return f
}
