package dequant_test

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// checkReferences compares every TYPE.*.raw.bin of dir with its .f32.bin, as
// bits, and demands that each type but F32, which needs none, has some.
func checkReferences(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.raw.bin"))
	require.NoError(t, err)
	seen := map[string]bool{gguf.F32.String(): true}
	byName := map[string]gguf.Type{}
	for _, typ := range dequant.Types() {
		byName[typ.String()] = typ
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".raw.bin")
		prefix, _, _ := strings.Cut(name, ".")
		prefix = strings.ToUpper(prefix)
		t.Run(name, func(t *testing.T) {
			require.Contains(t, byName, prefix)
			src, err := os.ReadFile(file)
			require.NoError(t, err)
			requireExpands(t, byName[prefix], src, strings.TrimSuffix(file, ".raw.bin")+".f32.bin")
		})
		seen[prefix] = true
	}
	for name := range byName {
		require.True(t, seen[name], "no reference for %s in %s", name, dir)
	}
}

// requireExpands demands that the blocks in src expand to the little-endian
// float32 values in the file want, as bits.
func requireExpands(t *testing.T, typ gguf.Type, src []byte, want string) {
	t.Helper()
	b, err := os.ReadFile(want)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(b), 4*1024, want)
	got := make([]float32, len(b)/4)
	require.NoError(t, dequant.Float32(typ, got, src))
	for i, v := range got {
		w := binary.LittleEndian.Uint32(b[4*i:])
		require.Equal(t, w, math.Float32bits(v), "value %d: got %v, want %v", i, v, math.Float32frombits(w))
	}
}

// testdata holds 8 rows of 256 values of each type, made of random bytes with
// sane scales, and the values that ggml gives for them.
func TestFloat32(t *testing.T) { checkReferences(t, "testdata") }

// references returns the directory of the full reference data, or skips.
func references(t *testing.T) string {
	t.Helper()
	root := os.Getenv("LAYERPIPE_REFS")
	if root == "" {
		root = "../../shared/refs"
	}
	if _, err := os.Stat(filepath.Join(root, "dequant")); err != nil {
		t.Skipf("no reference data (set LAYERPIPE_REFS): %v", err)
	}
	return root
}

// The full references also have blocks that ggml quantized itself.
func TestFloat32AllReferences(t *testing.T) {
	checkReferences(t, filepath.Join(references(t), "dequant", "types"))
}

// Rows of whole model files, found through their headers.
func TestFloat32ModelFiles(t *testing.T) {
	root := references(t)
	var index struct {
		Files []struct {
			File, Tensor, Bin string
			Rows, Cols        int
		}
	}
	b, err := os.ReadFile(filepath.Join(root, "dequant", "index.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &index))
	require.NotEmpty(t, index.Files)
	for _, ref := range index.Files {
		t.Run(ref.File+"/"+ref.Tensor, func(t *testing.T) {
			path := filepath.Join(root, "models", ref.File)
			f, err := gguf.Open(path)
			require.NoError(t, err)
			tensor, ok := f.Tensor(ref.Tensor)
			require.True(t, ok)
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			src := data[tensor.Offset:][:tensor.Type.RowBytes(ref.Rows*ref.Cols)]
			requireExpands(t, tensor.Type, src, filepath.Join(root, "dequant", ref.Bin))
		})
	}
}

func TestFloat32CopiesF32(t *testing.T) {
	want := []float32{0, float32(math.Copysign(0, -1)), 1.5, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(-1))}
	var src []byte
	for _, v := range want {
		src = binary.LittleEndian.AppendUint32(src, math.Float32bits(v))
	}
	got := make([]float32, len(want))
	require.NoError(t, dequant.Float32(gguf.F32, got, src))
	require.Equal(t, want, got)
	require.True(t, math.Signbit(float64(got[1])))
}

func TestFloat32Errors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		typ    gguf.Type
		n, src int
		err    error
		text   string
	}{
		{"part of a block", gguf.Q4_K, 255, 144, dequant.ErrSize, "255 elements of Q4_K, whose blocks hold 256"},
		{"a byte missing", gguf.Q8_0, 64, 67, dequant.ErrSize, "67 bytes for 64 elements of Q8_0, which take 68"},
		{"a block too many", gguf.Q8_0, 64, 102, dequant.ErrSize, "102 bytes for 64 elements of Q8_0, which take 68"},
		{"bytes for no element", gguf.F16, 0, 2, dequant.ErrSize, "2 bytes for 0 elements"},
		{"an integer type", gguf.I32, 4, 16, dequant.ErrUnsupported, "I32 (supported: F32, F16, Q4_0,"},
		{"an activation type", gguf.Q8_K, 256, 292, dequant.ErrUnsupported, "Q8_K"},
		{"a removed type", 4, 32, 20, dequant.ErrUnsupported, "type 4"},
		{"a type beyond the table", math.MaxUint32, 32, 20, dequant.ErrUnsupported, "type 4294967295"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dst := make([]float32, tc.n)
			for i := range dst {
				dst[i] = 7
			}
			err := dequant.Float32(tc.typ, dst, make([]byte, tc.src))
			require.ErrorIs(t, err, tc.err)
			require.ErrorContains(t, err, tc.text)
			require.NotContains(t, dst, float32(0), "dst was written to")
		})
	}
}

func TestTypes(t *testing.T) {
	types := dequant.Types()
	require.IsIncreasing(t, types)
	for _, typ := range types {
		require.True(t, typ.Known(), typ)
		require.True(t, dequant.Supported(typ), typ)
		require.NoError(t, dequant.Float32(typ, nil, nil), "no elements of %v", typ)
	}
	for _, typ := range []gguf.Type{gguf.I8, gguf.F64, gguf.Q8_1, gguf.Q8_K, 4, 36, 1000, math.MaxUint32} {
		require.False(t, dequant.Supported(typ), typ)
		require.NotContains(t, types, typ)
	}
}

func TestFloat32AllocatesNothing(t *testing.T) {
	for _, typ := range dequant.Types() {
		dst := make([]float32, 512)
		src := make([]byte, typ.RowBytes(len(dst)))
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if err := dequant.Float32(typ, dst, src); err != nil {
				t.Fatal(err)
			}
		}), typ)
	}
}

// Any bytes expand, and only sizes and types decide between value and error.
func FuzzFloat32(f *testing.F) {
	for _, typ := range dequant.Types() {
		n := max(32, typ.BlockValues())
		src := make([]byte, typ.RowBytes(n))
		for i := range src {
			src[i] = byte(37*i + 255)
		}
		f.Add(uint32(typ), uint16(n), src)
		f.Add(uint32(typ), uint16(n-1), src)
		f.Add(uint32(typ), uint16(n), src[1:])
	}
	f.Add(uint32(4), uint16(32), make([]byte, 20))
	f.Add(uint32(math.MaxUint32), uint16(0), []byte(nil))
	f.Fuzz(func(t *testing.T, number uint32, n uint16, src []byte) {
		typ := gguf.Type(number)
		err := dequant.Float32(typ, make([]float32, n), src)
		switch {
		case !dequant.Supported(typ):
			require.ErrorIs(t, err, dequant.ErrUnsupported)
		case int(n)%typ.BlockValues() != 0 || len(src) != typ.RowBytes(int(n)):
			require.ErrorIs(t, err, dequant.ErrSize)
		default:
			require.NoError(t, err)
		}
	})
}

// BenchmarkFloat32 counts bytes of float32 output. A dequantizer must keep ahead
// of storage, which delivers a quarter to an eighth of that.
func BenchmarkFloat32(b *testing.B) {
	for _, typ := range dequant.Types() {
		b.Run(typ.String(), func(b *testing.B) {
			dst := make([]float32, 4096) // in the first-level cache, as rows are
			src := make([]byte, typ.RowBytes(len(dst)))
			for i := range src {
				src[i] = byte(i*i>>3) & 0x3f
			}
			b.SetBytes(int64(4 * len(dst)))
			for b.Loop() {
				if err := dequant.Float32(typ, dst, src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
