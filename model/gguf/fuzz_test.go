package gguf_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// FuzzParse: whatever the bytes are, they are refused with one of the two
// errors, or make a model that keeps the promises of File and that the Writer
// writes again.
func FuzzParse(f *testing.F) {
	for _, b := range good() {
		f.Add(b.Bytes())
	}
	for _, h := range hostiles() {
		if h.file.Len() < 4096 {
			f.Add(h.file.Bytes())
		}
	}
	f.Add(write(f, everyValue(), gguf.TensorSpec{Name: "a", Type: gguf.Q6_K, Dims: []int{256, 2}}))
	f.Fuzz(func(t *testing.T, data []byte) {
		size := int64(len(data))
		m, err := gguf.Parse("x", bytes.NewReader(data), size)
		if err != nil {
			if !errors.Is(err, gguf.ErrFormat) && !errors.Is(err, gguf.ErrUnsupported) {
				t.Fatalf("error of another kind: %v", err)
			}
			return
		}
		owner := make([]bool, size)
		for _, ten := range m.Tensors {
			require.Zero(t, ten.Offset%m.Alignment)
			require.EqualValues(t, ten.Type.RowBytes(ten.Dims[0])*ten.Rows(), ten.Size)
			for i := ten.Offset; i < ten.Offset+ten.Size; i++ {
				require.False(t, owner[i], "byte %d has two tensors", i)
				owner[i] = true
			}
		}
		// Compared as bytes, since a NaN is not equal to itself.
		first := rewrite(t, m)
		again, err := gguf.Parse("x", bytes.NewReader(first), int64(len(first)))
		require.NoError(t, err)
		require.Equal(t, m.Metadata.Keys(), again.Metadata.Keys())
		require.Equal(t, first, rewrite(t, again))
	})
}

func rewrite(t *testing.T, f *gguf.File) []byte {
	specs := make([]gguf.TensorSpec, len(f.Tensors))
	for i, ten := range f.Tensors {
		specs[i] = gguf.TensorSpec{Name: ten.Name, Type: ten.Type, Dims: ten.Dims}
	}
	return write(t, f.Metadata, specs...)
}
