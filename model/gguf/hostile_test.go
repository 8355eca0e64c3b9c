package gguf_test

import (
	"bytes"
	"io"
	"math"
	"runtime"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

type hostile struct {
	name string
	file *raw
	kind error
	says []string // what the message must name
}

// hostiles returns files that must be refused, for the tests and as fuzz
// seeds.
func hostiles() []hostile {
	whole := good()["version 3"].Bytes()
	cut := func(n int) *raw { return little().text(string(whole[:n])) }
	one := func() *raw { return little().head(3, 0, 1) } // one pair
	ten := func() *raw { return little().head(3, 1, 0) } // one tensor
	align := func() *raw { return little().head(3, 1, 1).key("general.alignment", tU32) }
	tail := func(b *raw) *raw { return b.tensor("t", gguf.F32, 0, 32).data(32, 256) }
	nest := func(depth int) *raw {
		b := one().key("k", tArray)
		for range depth - 1 {
			b.array(tArray, 1)
		}
		return b.array(tU8, 1).u8(1)
	}
	const huge = math.MaxUint64
	return []hostile{
		{"empty", little(), gguf.ErrFormat, []string{"byte 0"}},
		{"wrong magic", little().text("GGUX").zeros(60), gguf.ErrFormat, []string{"byte 0", "GGUX"}},
		{"zip", little().text("PK\x03\x04").zeros(60), gguf.ErrFormat, []string{"byte 0", `PK\x03\x04`}},
		{"version 0", little().head(0, 0, 0), gguf.ErrUnsupported, []string{"byte 4", "version 0"}},
		{"version 1", little().head(1, 0, 0), gguf.ErrUnsupported, []string{"version 1"}},
		{"version 4", little().head(4, 0, 0), gguf.ErrUnsupported, []string{"version 4"}},
		{"version 99, big-endian", big().head(99, 0, 0), gguf.ErrUnsupported, []string{"version 99"}},

		{"cut in the magic", cut(3), gguf.ErrFormat, []string{"byte 0"}},
		{"cut in the version", cut(6), gguf.ErrFormat, []string{"byte 4"}},
		{"cut in the counts", cut(20), gguf.ErrFormat, []string{"byte 16"}},
		{"cut in a key", little().head(3, 0, 2).key("k", tU64).u64(1).u64(9).text("gen").u8(0), gguf.ErrFormat, []string{"metadata 1", "byte 53"}},
		{"cut in a number", little().head(3, 0, 2).key("k", tU64).u64(1).key("last", tU64).u32(1), gguf.ErrFormat, []string{`"last"`, "byte 61"}},
		{"cut in the tensor table", ten().str("w").u32(2).u64(32).u64(2).u32(0).u32(0), gguf.ErrFormat, []string{`tensor "w"`, "byte 57"}},
		{"cut in the data", cut(len(whole) - 1), gguf.ErrFormat, []string{`tensor "b"`, "byte 160", "12 bytes at offset 256"}},
		{"cut before the data", cut(100), gguf.ErrFormat, nil},

		{"2^64-1 pairs", little().head(3, 0, huge), gguf.ErrFormat, []string{"byte 24", "pairs"}},
		{"2^64-1 tensors", little().head(3, huge, 0), gguf.ErrFormat, []string{"byte 16", "tensors"}},
		{"2^40 tensors", little().head(3, 1<<40, 0), gguf.ErrFormat, []string{"tensors"}},
		{"key of 2^64-1 bytes", one().u64(huge).zeros(64), gguf.ErrFormat, []string{"metadata 0", "byte 32"}},
		{"key of 2^63 bytes", one().u64(1 << 63).zeros(64), gguf.ErrFormat, []string{"metadata 0", "byte 32"}},
		{"key of 8 GiB", one().u64(8 << 30).zeros(64), gguf.ErrFormat, []string{"metadata 0", "byte 32"}},
		{"key of 64 KiB", one().u64(1 << 16).zeros(1 << 17), gguf.ErrUnsupported, []string{"metadata 0", "65536"}},
		{"string of 16 GiB", one().key("k", tString).u64(16 << 30).zeros(2), gguf.ErrFormat, []string{`metadata "k"`, "byte 45"}},
		{"value type 77", one().key("k", 77).zeros(9), gguf.ErrFormat, []string{`metadata "k"`, "type 77"}},
		{"bool that is 2", one().key("k", tBool).u8(2), gguf.ErrFormat, []string{`metadata "k"`, "byte 37", "bool"}},
		{"bool in an array that is 255", one().key("k", tArray).array(tBool, 3).u8(1).u8(255).u8(0), gguf.ErrFormat, []string{`metadata "k"`, "byte 50"}},
		{"key twice", little().head(3, 0, 2).key("k", tU8).u8(1).key("k", tU8).u8(1), gguf.ErrFormat, []string{`metadata "k"`, "byte 38", "twice"}},

		{"array of 2^64-1", one().key("k", tArray).array(tU32, huge).zeros(64), gguf.ErrFormat, []string{`metadata "k"`, "byte 49"}},
		{"array of 2^31 strings", one().key("k", tArray).array(tString, 1<<31).zeros(64), gguf.ErrFormat, []string{`metadata "k"`}},
		{"array of 8 GiB", one().key("k", tArray).array(tU8, 8<<30).zeros(64), gguf.ErrFormat, []string{`metadata "k"`}},
		{"array one longer than the file", one().key("k", tArray).array(tI64, 9).zeros(71), gguf.ErrFormat, []string{`metadata "k"`, "9 array elements"}},
		{"array of type 77", one().key("k", tArray).array(77, 3).zeros(64), gguf.ErrFormat, []string{`metadata "k"`, "type 77"}},
		{"string in an array too long", one().key("k", tArray).array(tString, 2).str("a").u64(99).zeros(3), gguf.ErrFormat, []string{`metadata "k"`, "99 bytes"}},
		{"arrays nested 5 deep", nest(5), gguf.ErrUnsupported, []string{`metadata "k"`, "nested"}},
		{"arrays nested 100000 deep", nest(100_000), gguf.ErrUnsupported, []string{`metadata "k"`, "nested"}},

		{"no dimensions", ten().tensor("t", gguf.F32, 0).data(32, 64), gguf.ErrFormat, []string{`tensor "t"`, "byte 33", "0 dimensions"}},
		{"5 dimensions", ten().tensor("t", gguf.F32, 0, 1, 1, 1, 1, 1).data(32, 64), gguf.ErrFormat, []string{`tensor "t"`, "5 dimensions"}},
		{"2^32-1 dimensions", ten().str("t").u32(math.MaxUint32).zeros(64), gguf.ErrFormat, []string{`tensor "t"`, "byte 33"}},
		{"dimension 0", ten().tensor("t", gguf.Q4_K, 0, 0, 7).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "dimension 0 is 0"}},
		{"last dimension 0", ten().tensor("t", gguf.F32, 0, 8, 7, 0).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "dimension 2 is 0"}},
		{"dimension 2^63", ten().tensor("t", gguf.F32, 0, 1<<63).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "dimension 0"}},
		{"product of dimensions wraps to 0", ten().tensor("t", gguf.F32, 0, 1<<32, 1<<32, 4).data(32, 64), gguf.ErrFormat, []string{`tensor "t"`, "overflow"}},
		{"product of dimensions is 2^63", ten().tensor("t", gguf.I8, 0, 1<<62, 2).data(32, 64), gguf.ErrFormat, []string{`tensor "t"`, "overflow"}},
		{"size wraps to 0", ten().tensor("t", gguf.F32, 0, 1<<62).data(32, 64), gguf.ErrFormat, []string{`tensor "t"`, "overflow"}},
		{"row is no multiple of the block", ten().tensor("t", gguf.Q4_K, 0, 100).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "100", "256"}},
		{"rows make up a block only together", ten().tensor("t", gguf.Q8_0, 0, 16, 2).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "16"}},
		{"tensor type 9999", ten().tensor("t", 9999, 0, 32).data(32, 256), gguf.ErrUnsupported, []string{`tensor "t"`, "type 9999"}},
		{"removed tensor type", ten().tensor("t", 4, 0, 32).data(32, 256), gguf.ErrUnsupported, []string{`tensor "t"`, "type 4"}},
		{"tensor name of 64 KiB", ten().u64(1 << 16).zeros(1 << 17), gguf.ErrUnsupported, []string{"tensor 0"}},

		{"offset that wraps", ten().tensor("t", gguf.F32, huge-31, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "byte 49"}},
		{"offset 2^63-32", ten().tensor("t", gguf.F32, 1<<63-32, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`}},
		{"offset 2^40", ten().tensor("t", gguf.F32, 1<<40, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`}},
		{"offset just beyond the data", ten().tensor("t", gguf.F32, 160, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "byte 64", "128 bytes at offset 160"}},
		{"offset 7", ten().tensor("t", gguf.F32, 7, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "byte 49", "alignment"}},
		{"offset 32 where 64 is the alignment", align().u32(64).tensor("t", gguf.F32, 32, 32).data(64, 256), gguf.ErrFormat, []string{`tensor "t"`, "alignment 64"}},

		{"alignment 0", tail(align().u32(0)), gguf.ErrFormat, []string{"general.alignment", "byte 53"}},
		{"alignment 7", tail(align().u32(7)), gguf.ErrFormat, []string{"general.alignment", "byte 53"}},
		{"alignment 2^31", tail(align().u32(1 << 31)), gguf.ErrUnsupported, []string{"general.alignment"}},
		{"alignment is a string", tail(little().head(3, 1, 1).key("general.alignment", tString).str("32")), gguf.ErrFormat, []string{"general.alignment", "string"}},

		{"tensor twice", little().head(3, 2, 0).tensor("t", gguf.F32, 0, 32).tensor("t", gguf.F32, 128, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, "byte 57", "twice"}},
		{"tensors overlap", little().head(3, 2, 0).tensor("t", gguf.F32, 0, 32).tensor("u", gguf.F32, 96, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "u"`, `"t"`, "byte 192"}},
		{"tensors overlap, in the other order", little().head(3, 2, 0).tensor("t", gguf.F32, 96, 32).tensor("u", gguf.F32, 0, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "t"`, `"u"`}},
		{"tensors at one place", little().head(3, 2, 0).tensor("t", gguf.F32, 0, 32).tensor("u", gguf.F32, 0, 32).data(32, 256), gguf.ErrFormat, []string{`tensor "`, "overlaps"}},

		{"split.tensors.count -5", one().key("split.tensors.count", tI32).u32(math.MaxUint32 - 4), gguf.ErrFormat, []string{"split.tensors.count", "-5"}},
		{"split.tensors.count 2e9", one().key("split.tensors.count", tI32).u32(2e9), gguf.ErrFormat, []string{"split.tensors.count", "2000000000"}},
		{"split.tensors.count is a string", one().key("split.tensors.count", tString).str("x"), gguf.ErrFormat, []string{"split.tensors.count"}},
		{"split.count is a float", one().key("split.count", tF32).u32(0), gguf.ErrFormat, []string{"split.count"}},
		{"split.count without split.no", one().key("split.count", tU8).u8(3), gguf.ErrFormat, []string{"split.no"}},
		{"split.no beyond split.count", little().head(3, 0, 2).key("split.count", tU8).u8(3).key("split.no", tU8).u8(3), gguf.ErrFormat, []string{"split.no", "3"}},
		{"split without split.tensors.count", little().head(3, 0, 2).key("split.count", tU8).u8(3).key("split.no", tU8).u8(0), gguf.ErrFormat, []string{"split.tensors.count"}},
		{"more tensors in a shard than in all", little().head(3, 1, 3).key("split.count", tU8).u8(3).key("split.no", tU8).u8(0).key("split.tensors.count", tU8).u8(0).tensor("t", gguf.F32, 0, 8).data(32, 32), gguf.ErrFormat, []string{"split.tensors.count"}},
	}
}

func TestHostile(t *testing.T) {
	for _, tc := range hostiles() {
		t.Run(tc.name, func(t *testing.T) {
			size := uint64(tc.file.Len())
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := parse(tc.file)
			runtime.ReadMemStats(&after)

			require.ErrorIs(t, err, tc.kind)
			for _, s := range append(tc.says, "x.gguf") {
				require.ErrorContains(t, err, s)
			}
			require.Less(t, after.TotalAlloc-before.TotalAlloc, 16*size+256<<10, "memory for a file of %d bytes", size)
		})
	}
}

// Every prefix of a good file is refused, with an error and no panic.
func TestTruncated(t *testing.T) {
	m := everyValue()
	data := write(t, m, gguf.TensorSpec{Name: "a", Type: gguf.F32, Dims: []int{8}})
	for n := range data {
		_, err := gguf.Parse("x.gguf", bytes.NewReader(data[:n]), int64(n))
		require.ErrorIs(t, err, gguf.ErrFormat, "the first %d of %d bytes", n, len(data))
	}
	_, err := gguf.Parse("x.gguf", bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	_, err = gguf.Parse("x.gguf", bytes.NewReader(data), -1)
	require.ErrorIs(t, err, gguf.ErrFormat)
}

// sparse is a file whose bytes behind head are zeros, of any length.
type sparse struct{ head []byte }

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	clear(p)
	if off < int64(len(s.head)) {
		copy(p, s.head[off:])
	}
	return len(p), nil
}

var _ io.ReaderAt = sparse{}

// The limits hold where the file is large enough for what it claims.
func TestLimits(t *testing.T) {
	for _, tc := range []struct {
		name string
		head *raw
		says string
	}{
		{"pairs", little().head(3, 0, gguf.MaxKeys+1), "65537 metadata pairs"},
		{"tensors", little().head(3, gguf.MaxTensors+1, 0), "1048577 tensors"},
		{"string", little().head(3, 0, 1).key("k", tString).u64(gguf.MaxStringBytes + 1), `"k"`},
		{"array", little().head(3, 0, 1).key("k", tArray).array(tU8, gguf.MaxArrayLen+1), `"k"`},
		{"array of empty arrays", little().head(3, 0, 1).key("k", tArray).array(tArray, 1<<25), `"k"`},
		{"header", little().head(3, 0, 1).key("k", tArray).array(tF64, 1<<30), `"k"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, size := range []int64{1 << 40, math.MaxInt64} {
				_, err := gguf.Parse("x.gguf", sparse{tc.head.Bytes()}, size)
				require.ErrorIs(t, err, gguf.ErrUnsupported)
				require.ErrorContains(t, err, tc.says)
			}
		})
	}
	// Tensors as large as a file can be.
	b := little().head(3, 2, 0).tensor("a", gguf.I8, 0, 1<<62).tensor("b", gguf.I8, 1<<62, 1<<61)
	f, err := gguf.Parse("x.gguf", sparse{b.Bytes()}, math.MaxInt64)
	require.NoError(t, err)
	require.EqualValues(t, 1<<62, f.Tensors[0].Size)
	b = little().head(3, 2, 0).tensor("a", gguf.I8, 0, 1<<62).tensor("b", gguf.I8, 1<<62, 1<<62)
	_, err = gguf.Parse("x.gguf", sparse{b.Bytes()}, math.MaxInt64)
	require.ErrorIs(t, err, gguf.ErrFormat)
	require.ErrorContains(t, err, `tensor "b"`)
}
