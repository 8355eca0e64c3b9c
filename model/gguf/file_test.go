package gguf_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// good returns files that must be read, for the tests and as fuzz seeds.
func good() map[string]*raw {
	plain := func(b *raw, version uint32) *raw {
		return b.head(version, 2, 2).
			key("general.name", tString).str("x").
			key("n", tU32).u32(7).
			tensor("a", gguf.F32, 0, 32, 2).tensor("b", gguf.F32, 256, 3).data(32, 256+12)
	}
	exact := little().head(3, 1, 1).key("k", tString).str(strings.Repeat("x", 18)).tensor("a", gguf.F32, 0, 32)
	return map[string]*raw{
		"version 2":           plain(little(), 2),
		"version 3":           plain(little(), 3),
		"big-endian":          plain(big(), 3),
		"big-endian v2":       plain(big(), 2),
		"nothing in it":       little().head(3, 0, 0),
		"no padding needed":   exact.zeros(128),
		"no tensors, no pad":  little().head(3, 0, 1).key("k", tU8).u8(1),
		"alignment 8":         little().head(3, 2, 1).key("general.alignment", tU32).u32(8).tensor("a", gguf.F32, 0, 2).tensor("b", gguf.F32, 8, 2).data(8, 16),
		"alignment 4096":      little().head(3, 2, 1).key("general.alignment", tU32).u32(4096).tensor("a", gguf.F32, 0, 2).tensor("b", gguf.F32, 4096, 2).data(4096, 4104),
		"MXFP4":               little().head(3, 1, 0).tensor("a", gguf.MXFP4, 0, 64, 2, 3).data(32, 2*17*6),
		"four dimensions":     little().head(3, 1, 0).tensor("a", gguf.Q8_0, 0, 32, 2, 3, 4).data(32, 34*24),
		"data out of order":   little().head(3, 2, 0).tensor("a", gguf.F32, 32, 8).tensor("b", gguf.F32, 0, 8).data(32, 64),
		"gap between tensors": little().head(3, 2, 0).tensor("a", gguf.F32, 0, 8).tensor("b", gguf.F32, 96, 8).data(32, 128),
		"bytes at the end":    little().head(3, 1, 0).tensor("a", gguf.F32, 0, 8).data(32, 777),
		"nested arrays":       little().head(3, 0, 1).key("k", tArray).array(tArray, 2).array(tU8, 2).u8(1).u8(2).array(tString, 1).str("s"),
		"merged split model":  little().head(3, 1, 3).key("split.no", tU16).u8(0).u8(0).key("split.count", tU16).u8(0).u8(0).key("split.tensors.count", tI32).u32(1).tensor("a", gguf.F32, 0, 8).data(32, 32),
	}
}

func TestParse(t *testing.T) {
	for name, b := range good() {
		t.Run(name, func(t *testing.T) {
			f, err := parse(b)
			require.NoError(t, err)
			require.Equal(t, []string{"x.gguf"}, f.Paths)
			require.Equal(t, []int64{int64(b.Len())}, f.Sizes)
			for i := range f.Tensors {
				got, ok := f.Tensor(f.Tensors[i].Name)
				require.True(t, ok)
				require.Same(t, &f.Tensors[i], got)
				require.Zero(t, got.Offset%f.Alignment)
			}
			_, ok := f.Tensor("absent")
			require.False(t, ok)
		})
	}
}

// Both byte orders and versions describe the same model.
func TestParseOrder(t *testing.T) {
	for name, version := range map[string]int{"version 2": 2, "version 3": 3, "big-endian": 3, "big-endian v2": 2} {
		f, err := parse(good()[name])
		require.NoError(t, err)
		require.Equal(t, version, f.Version)
		require.Equal(t, strings.HasPrefix(name, "big"), f.BigEndian)
		require.EqualValues(t, 32, f.Alignment)
		require.Equal(t, []string{"general.name", "n"}, f.Metadata.Keys())
		n, err := gguf.GetOr(f.Metadata, "n", 0)
		require.NoError(t, err)
		require.Equal(t, 7, n)
		require.Equal(t, []gguf.Tensor{
			{Name: "a", Type: gguf.F32, Dims: []int{32, 2}, Offset: 160, Size: 256},
			{Name: "b", Type: gguf.F32, Dims: []int{3}, Offset: 416, Size: 12},
		}, f.Tensors)
		require.Equal(t, 2, f.Tensors[0].Rows())
		require.Equal(t, 1, f.Tensors[1].Rows())
	}
}

func TestParseLayout(t *testing.T) {
	for name, want := range map[string]struct {
		tensor                string
		dims                  []int
		rows                  int
		offset, size, aligned int64
	}{
		"no padding needed": {tensor: "a", dims: []int{32}, rows: 1, offset: 96, size: 128, aligned: 32},
		"alignment 8":       {tensor: "b", dims: []int{2}, rows: 1, offset: 136, size: 8, aligned: 8},
		"alignment 4096":    {tensor: "b", dims: []int{2}, rows: 1, offset: 8192, size: 8, aligned: 4096},
		"MXFP4":             {tensor: "a", dims: []int{64, 2, 3}, rows: 6, offset: 96, size: 204, aligned: 32},
		"four dimensions":   {tensor: "a", dims: []int{32, 2, 3, 4}, rows: 24, offset: 96, size: 816, aligned: 32},
		"data out of order": {tensor: "a", dims: []int{8}, rows: 1, offset: 96 + 32, size: 32, aligned: 32},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := parse(good()[name])
			require.NoError(t, err)
			require.Equal(t, want.aligned, f.Alignment)
			ten, ok := f.Tensor(want.tensor)
			require.True(t, ok)
			require.Equal(t, want.dims, ten.Dims)
			require.Equal(t, want.rows, ten.Rows())
			require.Equal(t, want.offset, ten.Offset)
			require.Equal(t, want.size, ten.Size)
		})
	}
}

// A reader that fails is not a malformed file.
func TestParseReadError(t *testing.T) {
	b := good()["version 3"]
	for n := range b.Len() {
		_, err := gguf.Parse("x.gguf", failing{bytes.NewReader(b.Bytes()), int64(n)}, int64(b.Len()))
		require.ErrorIs(t, err, os.ErrPermission, "failing from byte %d", n)
		require.NotErrorIs(t, err, gguf.ErrFormat)
	}
	// A file that is shorter than it was said to be.
	_, err := gguf.Parse("x.gguf", bytes.NewReader(b.Bytes()[:40]), int64(b.Len()))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

// failing fails every read that reaches byte from.
type failing struct {
	r    io.ReaderAt
	from int64
}

func (f failing) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) > f.from {
		return 0, os.ErrPermission
	}
	return f.r.ReadAt(p, off)
}

func TestOpenNotAFile(t *testing.T) {
	dir := t.TempDir()
	_, err := gguf.Open(filepath.Join(dir, "absent.gguf"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "absent.gguf")
	_, err = gguf.Open(dir)
	require.ErrorIs(t, err, gguf.ErrFormat)
	require.ErrorContains(t, err, dir)
}

// The data of a tight file follows the header without gaps, so that the
// offsets in it prove the sizes that we compute.
func requireTight(t *testing.T, f *gguf.File) {
	t.Helper()
	for i, ten := range f.Tensors {
		end := f.Sizes[ten.File]
		if i+1 < len(f.Tensors) && f.Tensors[i+1].File == ten.File {
			end = f.Tensors[i+1].Offset
		}
		gap := end - ten.Offset - ten.Size
		require.True(t, 0 <= gap && gap < f.Alignment, "%s: gap of %d bytes behind %s %s", f.Paths[ten.File], gap, ten.Type, ten.Name)
	}
}

func TestOpenDemo(t *testing.T) {
	f, err := gguf.Open(filepath.Join("..", "demo", "demo.gguf"))
	require.NoError(t, err)
	require.Len(t, f.Tensors, 74)
	requireTight(t, f)
	arch, err := gguf.GetOr(f.Metadata, "general.architecture", "")
	require.NoError(t, err)
	require.Equal(t, "llama", arch)
	tokens, ok, err := gguf.Array[string](f.Metadata, "tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.True(t, ok)
	require.Len(t, tokens, 1024)
	embd, ok := f.Tensor("token_embd.weight")
	require.True(t, ok)
	require.Equal(t, []int{256, 1024}, embd.Dims)
}

// Files that llama.cpp wrote, in every type that it quantizes to.
func TestOpenReferences(t *testing.T) {
	dir := refs(t)
	paths, err := filepath.Glob(filepath.Join(dir, "models", "*.gguf"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	seen := map[gguf.Type]bool{}
	for _, path := range paths {
		f, err := gguf.Open(path)
		require.NoError(t, err)
		require.NotEmpty(t, f.Tensors)
		requireTight(t, f)
		for _, ten := range f.Tensors {
			seen[ten.Type] = true
		}
	}
	for _, typ := range []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q4_0, gguf.Q4_1, gguf.Q5_0, gguf.Q5_1, gguf.Q8_0,
		gguf.Q2_K, gguf.Q3_K, gguf.Q4_K, gguf.Q5_K, gguf.Q6_K, gguf.IQ3_S, gguf.IQ4_NL, gguf.IQ4_XS, gguf.TQ1_0, gguf.TQ2_0, gguf.MXFP4} {
		require.True(t, seen[typ], "no reference file holds %s", typ)
	}
}

// The offsets lead to the data: bfloat16 is the upper half of the float32 that
// llama.cpp dequantized it to.
func TestTensorData(t *testing.T) {
	dir := refs(t)
	f, err := gguf.Open(filepath.Join(dir, "models", "llama-BF16.gguf"))
	require.NoError(t, err)
	data, err := os.ReadFile(f.Paths[0])
	require.NoError(t, err)
	for _, name := range []string{"blk.0.attn_q.weight", "blk.0.ffn_down.weight"} {
		want, err := os.ReadFile(filepath.Join(dir, "dequant", "files", "llama-BF16."+name+".f32.bin"))
		require.NoError(t, err)
		require.NotEmpty(t, want)
		ten, ok := f.Tensor(name)
		require.True(t, ok)
		require.Equal(t, gguf.BF16, ten.Type)
		for i := range len(want) / 4 {
			got := uint32(binary.LittleEndian.Uint16(data[ten.Offset+2*int64(i):])) << 16
			require.Equal(t, binary.LittleEndian.Uint32(want[4*i:]), got, "%s: element %d", name, i)
		}
	}
}

func TestTypeBlocks(t *testing.T) {
	var index struct {
		Types []struct {
			Type        string
			BlockValues int `json:"block_values"`
			BlockBytes  int `json:"block_bytes"`
		}
	}
	js, err := os.ReadFile(filepath.Join(refs(t), "dequant", "index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(js, &index))
	require.NotEmpty(t, index.Types)
	names := map[string]gguf.Type{}
	for typ := range gguf.Type(64) {
		names[strings.ToLower(typ.String())] = typ
	}
	for _, want := range index.Types {
		typ, ok := names[strings.ToLower(want.Type)]
		require.True(t, ok, want.Type)
		require.Equal(t, want.BlockValues, typ.BlockValues(), want.Type)
		require.Equal(t, want.BlockBytes, typ.BlockBytes(), want.Type)
		require.Equal(t, 3*want.BlockBytes, typ.RowBytes(3*want.BlockValues), want.Type)
	}
}

func TestTypeUnknown(t *testing.T) {
	for _, typ := range []gguf.Type{4, 5, 31, 36, 1000, math.MaxUint32} {
		require.False(t, typ.Known())
		require.Equal(t, fmt.Sprintf("type %d", uint32(typ)), typ.String())
		require.Zero(t, typ.BlockValues())
		require.Zero(t, typ.BlockBytes())
	}
	require.True(t, gguf.MXFP4.Known())
	require.Equal(t, "MXFP4", gguf.MXFP4.String())
}

// vocabulary is a header as large as the largest in use: 262,144 tokens with
// scores and types, and 400 tensors.
func vocabulary(t testing.TB) []byte {
	const n = 1 << 18
	tokens := make([]string, n)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("▁tok%06d", i)
	}
	m := &gguf.Metadata{}
	m.Set("tokenizer.ggml.tokens", tokens)
	m.Set("tokenizer.ggml.scores", make([]float32, n))
	m.Set("tokenizer.ggml.token_type", make([]int32, n))
	specs := make([]gguf.TensorSpec, 400)
	for i := range specs {
		specs[i] = gguf.TensorSpec{Name: fmt.Sprintf("blk.%d.ffn_%d.weight", i/9, i%9), Type: gguf.F32, Dims: []int{32, 4}}
	}
	return write(t, m, specs...)
}

func TestVocabulary(t *testing.T) {
	data := vocabulary(t)
	f, err := gguf.Parse("v", bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	tokens, _, err := gguf.Array[string](f.Metadata, "tokenizer.ggml.tokens")
	require.NoError(t, err)
	require.Len(t, tokens, 1<<18)
	for _, i := range []int{0, 1, 1 << 12, 1<<18 - 1} {
		require.Equal(t, fmt.Sprintf("▁tok%06d", i), tokens[i])
	}
	require.True(t, slices.IsSorted(tokens))
}

// BenchmarkOpen bounds what a model costs before its first byte of weights.
func BenchmarkOpen(b *testing.B) {
	data := vocabulary(b)
	path := writeFile(b, b.TempDir(), "v.gguf", data)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := gguf.Open(path); err != nil {
			b.Fatal(err)
		}
	}
}
