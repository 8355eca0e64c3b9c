package gguf_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A raw builds a file by hand, right or wrong: what the Writer refuses to
// write, and what it can't, such as big-endian files.
type raw struct {
	bytes.Buffer
	order binary.AppendByteOrder
}

func little() *raw { return &raw{order: binary.LittleEndian} }
func big() *raw    { return &raw{order: binary.BigEndian} }

func (b *raw) u8(x uint8) *raw    { b.WriteByte(x); return b }
func (b *raw) u32(x uint32) *raw  { b.Write(b.order.AppendUint32(nil, x)); return b }
func (b *raw) u64(x uint64) *raw  { b.Write(b.order.AppendUint64(nil, x)); return b }
func (b *raw) zeros(n int) *raw   { b.Write(make([]byte, n)); return b }
func (b *raw) text(s string) *raw { b.WriteString(s); return b }
func (b *raw) str(s string) *raw  { return b.u64(uint64(len(s))).text(s) }

func (b *raw) head(version uint32, tensors, pairs uint64) *raw {
	return b.text("GGUF").u32(version).u64(tensors).u64(pairs)
}

// Value types, as the specification numbers them.
const (
	tU8 = iota
	tI8
	tU16
	tI16
	tU32
	tI32
	tF32
	tBool
	tString
	tArray
	tU64
	tI64
	tF64
)

func (b *raw) key(k string, valueType uint32) *raw { return b.str(k).u32(valueType) }

func (b *raw) array(elem uint32, n uint64) *raw { return b.u32(elem).u64(n) }

// tensor adds an entry to the table; off is relative to the data.
func (b *raw) tensor(name string, typ gguf.Type, off uint64, dims ...uint64) *raw {
	b.str(name).u32(uint32(len(dims)))
	for _, d := range dims {
		b.u64(d)
	}
	return b.u32(uint32(typ)).u64(off)
}

// data pads to the alignment and adds n bytes.
func (b *raw) data(align, n int) *raw { return b.zeros((align - b.Len()%align) % align).zeros(n) }

func parse(b *raw) (*gguf.File, error) {
	return gguf.Parse("x.gguf", bytes.NewReader(b.Bytes()), int64(b.Len()))
}

// everyValue is one pair of every value type, and an array of every type.
func everyValue() *gguf.Metadata {
	m := &gguf.Metadata{}
	m.Set("u8", uint8(200))
	m.Set("i8", int8(-100))
	m.Set("u16", uint16(60000))
	m.Set("i16", int16(-30000))
	m.Set("u32", uint32(4e9))
	m.Set("i32", int32(-2e9))
	m.Set("f32", float32(math.Pi))
	m.Set("true", true)
	m.Set("false", false)
	m.Set("string", "Ġ\n\t \x00\xff")
	m.Set("empty string", "")
	m.Set("u64", uint64(math.MaxUint64))
	m.Set("i64", int64(math.MinInt64))
	m.Set("f64", math.Pi)
	m.Set("u8s", []uint8{1, 255})
	m.Set("i8s", []int8{-1, 127})
	m.Set("u16s", []uint16{1, 65535})
	m.Set("i16s", []int16{-1, 32767})
	m.Set("u32s", []uint32{1, math.MaxUint32})
	m.Set("i32s", []int32{-1, math.MaxInt32})
	m.Set("f32s", []float32{-0.5, float32(math.Inf(1))})
	m.Set("bools", []bool{true, false, true})
	// White space must survive: tokens are made of it.
	m.Set("strings", []string{"", "\n", "\n\n", " ", "  ", "\t", "a ", " a"})
	m.Set("u64s", []uint64{1, math.MaxUint64})
	m.Set("i64s", []int64{-1, math.MaxInt64})
	m.Set("f64s", []float64{-0.5, math.Inf(-1)})
	m.Set("empty", []int32{})
	m.Set("nested", []any{[]int32{1, 2}, []string{"a"}, []any{[]uint8{}, []any{}}})
	return m
}

// write makes a file of the given tensors, whose data is all zeros.
func write(t testing.TB, m *gguf.Metadata, specs ...gguf.TensorSpec) []byte {
	var b bytes.Buffer
	w, err := gguf.NewWriter(&b, m, specs)
	require.NoError(t, err)
	for _, ten := range w.Tensors() {
		require.NoError(t, w.WriteTensor(ten.Name, zeros(ten.Size)))
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

func writeFile(t testing.TB, dir, name string, data []byte) string {
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, data, 0o644))
	return path
}

// refs returns the directory of reference data, or skips the test.
func refs(t *testing.T) string {
	dir := os.Getenv("LAYERPIPE_REFS")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "refs")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no reference data: %v", err)
	}
	return dir
}
