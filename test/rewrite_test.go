package test

import (
	"bufio"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// A rewrite is a model file to be made of another.
type rewrite struct {
	f     *gguf.File
	meta  gguf.Metadata
	specs []gguf.TensorSpec
	data  map[string][]byte
}

func newRewrite(t *testing.T, path string) *rewrite {
	f, err := gguf.Open(path)
	require.NoError(t, err)
	r := &rewrite{f: f, data: map[string][]byte{}}
	for _, key := range f.Metadata.Keys() {
		v, _ := f.Metadata.Value(key)
		r.meta.Set(key, v)
	}
	all, err := os.ReadFile(f.Paths[0])
	require.NoError(t, err)
	for i := range f.Tensors {
		ten := &f.Tensors[i]
		r.add(ten.Name, ten.Type, all[ten.Offset:][:ten.Size], ten.Dims...)
	}
	return r
}

func (r *rewrite) add(name string, kind gguf.Type, data []byte, dims ...int) {
	r.specs = append(r.specs, gguf.TensorSpec{Name: name, Type: kind, Dims: dims})
	r.data[name] = data
}

func (r *rewrite) addFloats(name string, x []float32, dims ...int) {
	b, _ := binary.Append(nil, binary.LittleEndian, x) // floats can be written
	r.add(name, gguf.F32, b, dims...)
}

func (r *rewrite) remove(name string) {
	for i, s := range r.specs {
		if s.Name == name {
			r.specs = append(r.specs[:i], r.specs[i+1:]...)
			return
		}
	}
}

func (r *rewrite) write(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "rewritten.gguf")
	f, err := os.Create(path)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	buf := bufio.NewWriter(f)
	w, err := gguf.NewWriter(buf, &r.meta, r.specs)
	require.NoError(t, err)
	for _, s := range r.specs {
		require.NoError(t, w.WriteTensor(s.Name, func(w io.Writer) error { _, err := w.Write(r.data[s.Name]); return err }))
	}
	require.NoError(t, w.Close())
	require.NoError(t, buf.Flush())
	return path
}
