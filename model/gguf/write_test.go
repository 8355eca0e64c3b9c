package gguf_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// zeros fills a tensor with n zeros, in pieces.
func zeros(n int64) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.CopyN(w, zeroReader{}, n)
		return err
	}
}

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestRoundTrip(t *testing.T) {
	for _, align := range []uint32{0, 8, 32, 4096} {
		m := everyValue()
		want := int64(32)
		if align != 0 {
			m.Set("general.alignment", align)
			want = int64(align)
		}
		specs := []gguf.TensorSpec{
			{"a", gguf.F32, []int{3}},
			{"b", gguf.Q4_K, []int{512, 3}},
			{"c", gguf.MXFP4, []int{32, 5, 2, 3}},
		}
		var b bytes.Buffer
		w, err := gguf.NewWriter(&b, m, specs)
		require.NoError(t, err)
		for i, ten := range w.Tensors() {
			require.NoError(t, w.WriteTensor(ten.Name, func(w io.Writer) error {
				_, err := w.Write(bytes.Repeat([]byte{byte(i + 1)}, int(ten.Size)))
				return err
			}))
		}
		require.NoError(t, w.Close())

		f, err := gguf.Parse("x", bytes.NewReader(b.Bytes()), int64(b.Len()))
		require.NoError(t, err)
		require.Equal(t, want, f.Alignment)
		require.Equal(t, m, f.Metadata)
		require.Equal(t, w.Tensors(), f.Tensors)
		require.Len(t, f.Tensors, len(specs))
		for i, ten := range f.Tensors {
			require.Equal(t, specs[i], gguf.TensorSpec{Name: ten.Name, Type: ten.Type, Dims: ten.Dims})
			data := b.Bytes()[ten.Offset : ten.Offset+ten.Size]
			require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, len(data)), data)
		}
		requireTight(t, f)
		require.Zero(t, b.Len()%int(want), "the end is padded")
	}
}

// The layout, byte for byte, against one made by hand.
func TestWriterBytes(t *testing.T) {
	m := &gguf.Metadata{}
	m.Set("n", uint32(7))
	m.Set("l", []any{[]string{"s"}, []int8{-1}})
	want := little().head(3, 1, 2).
		key("n", tU32).u32(7).
		key("l", tArray).array(tArray, 2).array(tString, 1).str("s").array(tI8, 1).u8(255).
		tensor("t", gguf.F32, 0, 4, 1).data(32, 32)
	require.Equal(t, want.Bytes(), write(t, m, gguf.TensorSpec{Name: "t", Type: gguf.F32, Dims: []int{4, 1}}))
}

func TestWriterRefuses(t *testing.T) {
	pair := func(k string, v any) *gguf.Metadata {
		m := &gguf.Metadata{}
		m.Set(k, v)
		return m
	}
	none := &gguf.Metadata{}
	for _, tc := range []struct {
		name  string
		m     *gguf.Metadata
		specs []gguf.TensorSpec
		says  string
	}{
		{"int", pair("k", 1), nil, `"k"`},
		{"nil", pair("k", nil), nil, `"k"`},
		{"array of int", pair("k", []int{1}), nil, `"k"`},
		{"number among arrays", pair("k", []any{uint8(1)}), nil, `"k"`},
		{"nil among arrays", pair("k", []any{nil}), nil, `"k"`},
		{"arrays too deep", pair("k", []any{[]any{[]any{[]any{[]any{}}}}}), nil, `"k"`},
		{"long key", pair(strings.Repeat("k", 1<<16), uint8(1)), nil, "65536"},
		{"long string", pair("k", strings.Repeat("k", gguf.MaxStringBytes+1)), nil, `"k"`},
		{"alignment of another type", pair("general.alignment", uint64(32)), nil, "general.alignment"},
		{"alignment 24", pair("general.alignment", uint32(24)), nil, "general.alignment"},
		{"tensor twice", none, []gguf.TensorSpec{{"t", gguf.F32, []int{1}}, {"t", gguf.F32, []int{1}}}, `"t"`},
		{"no dimensions", none, []gguf.TensorSpec{{"t", gguf.F32, nil}}, `"t"`},
		{"dimension 0", none, []gguf.TensorSpec{{"t", gguf.F32, []int{0}}}, `"t"`},
		{"negative dimension", none, []gguf.TensorSpec{{"t", gguf.F32, []int{-8}}}, `"t"`},
		{"part of a block", none, []gguf.TensorSpec{{"t", gguf.Q8_0, []int{48}}}, `"t"`},
		{"unknown type", none, []gguf.TensorSpec{{"t", 99, []int{8}}}, `"t"`},
		{"long name", none, []gguf.TensorSpec{{strings.Repeat("t", 1<<16), gguf.F32, []int{8}}}, "65536"},
		{"size overflows", none, []gguf.TensorSpec{{"t", gguf.F32, []int{1 << 62}}}, `"t"`},
		{"padded size overflows", none, []gguf.TensorSpec{{"t", gguf.I8, []int{math.MaxInt}}}, "overflow"},
		{"sum of sizes overflows", none, []gguf.TensorSpec{{"t", gguf.I8, []int{1 << 62}}, {"u", gguf.I8, []int{1 << 62}}}, "overflow"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b bytes.Buffer
			_, err := gguf.NewWriter(&b, tc.m, tc.specs)
			require.ErrorContains(t, err, tc.says)
			require.Zero(t, b.Len(), "something was written")
		})
	}
}

func TestWriterData(t *testing.T) {
	boom := errors.New("boom")
	fill := func(n int) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(make([]byte, n)); return err }
	}
	for _, tc := range []struct {
		name  string
		steps func(w *gguf.Writer) error
		says  string
	}{
		{"too little", func(w *gguf.Writer) error { return w.WriteTensor("a", fill(11)) }, `"a": 11 bytes`},
		{"too much", func(w *gguf.Writer) error { return w.WriteTensor("a", fill(13)) }, `"a": 1 bytes more`},
		{"wrong order", func(w *gguf.Writer) error { return w.WriteTensor("b", fill(12)) }, `"a" is the next`},
		{"fill fails", func(w *gguf.Writer) error { return w.WriteTensor("a", func(io.Writer) error { return boom }) }, "boom"},
		{"closed early", func(w *gguf.Writer) error {
			if err := w.WriteTensor("a", fill(12)); err != nil {
				return err
			}
			return w.Close()
		}, `before tensor "b"`},
		{"one tensor more", func(w *gguf.Writer) error {
			return errors.Join(w.WriteTensor("a", fill(12)), w.WriteTensor("b", fill(12)), w.WriteTensor("c", fill(12)))
		}, `"c"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := gguf.NewWriter(io.Discard, &gguf.Metadata{}, []gguf.TensorSpec{{"a", gguf.F32, []int{3}}, {"b", gguf.F32, []int{3}}})
			require.NoError(t, err)
			err = tc.steps(w)
			require.ErrorContains(t, err, tc.says)
			require.Error(t, w.WriteTensor("b", fill(12)), "the writer went on after an error")
			require.Error(t, w.Close())
		})
	}
}

// The writer reports every failure of what it writes to.
func TestWriterFails(t *testing.T) {
	whole := write(t, everyValue(), gguf.TensorSpec{Name: "a", Type: gguf.F32, Dims: []int{3}})
	for n := range len(whole) {
		w, err := gguf.NewWriter(&fullAt{n}, everyValue(), []gguf.TensorSpec{{"a", gguf.F32, []int{3}}})
		if err == nil {
			err = w.WriteTensor("a", zeros(12))
		}
		require.ErrorIs(t, err, errFull, "room for %d of %d bytes", n, len(whole))
	}
}

var errFull = errors.New("disk full")

type fullAt struct{ room int }

func (f *fullAt) Write(p []byte) (int, error) {
	if len(p) > f.room {
		return 0, errFull
	}
	f.room -= len(p)
	return len(p), nil
}
