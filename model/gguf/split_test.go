package gguf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

// A shard is what one file of a split model says.
type shard struct {
	no, count any
	tensors   any
	names     []string
}

// shards returns the three files of a good model of five tensors.
func shards() []shard {
	return []shard{
		{uint16(0), uint16(3), int32(5), []string{"a", "b"}},
		{uint16(1), uint16(3), int32(5), []string{"c"}},
		{uint16(2), uint16(3), int32(5), []string{"d", "e"}},
	}
}

func (s shard) write(t *testing.T) []byte {
	m := &gguf.Metadata{}
	if s.no == uint16(0) {
		m.Set("general.name", "the first")
	}
	for key, v := range map[string]any{"split.no": s.no, "split.count": s.count, "split.tensors.count": s.tensors} {
		if v != nil {
			m.Set(key, v)
		}
	}
	var specs []gguf.TensorSpec
	for _, name := range s.names {
		specs = append(specs, gguf.TensorSpec{Name: name, Type: gguf.F32, Dims: []int{8}})
	}
	return write(t, m, specs...)
}

// writeShards writes all but the nil ones and returns the paths of all.
func writeShards(t *testing.T, list []shard) []string {
	dir := t.TempDir()
	paths := make([]string, len(list))
	for i, s := range list {
		name := fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, len(list))
		paths[i] = filepath.Join(dir, name)
		if s.names != nil {
			writeFile(t, dir, name, s.write(t))
		}
	}
	return paths
}

func TestSplit(t *testing.T) {
	paths := writeShards(t, shards())
	for _, path := range paths {
		f, err := gguf.Open(path)
		require.NoError(t, err)
		require.Equal(t, paths, f.Paths)
		require.Len(t, f.Sizes, 3)
		name, err := gguf.GetOr(f.Metadata, "general.name", "")
		require.NoError(t, err)
		require.Equal(t, "the first", name)
		require.EqualValues(t, 32, f.Alignment)
		require.Equal(t, 3, f.Version)
		var got []string
		for i, ten := range f.Tensors {
			got = append(got, fmt.Sprint(ten.Name, ten.File))
			same, ok := f.Tensor(ten.Name)
			require.True(t, ok)
			require.Same(t, &f.Tensors[i], same)
		}
		require.Equal(t, []string{"a0", "b0", "c1", "d2", "e2"}, got)
		requireTight(t, f)
	}
}

// The first shard may hold nothing but metadata: what is measured is another.
func TestLargest(t *testing.T) {
	list := shards()
	list[0].names = []string{}
	list[1].names = []string{"a", "b", "c", "d"}
	list[2].names = []string{"e"}
	f, err := gguf.Open(writeShards(t, list)[0])
	require.NoError(t, err)
	require.Equal(t, 1, f.Largest())
}

// Relative paths, as users type them.
func TestSplitRelative(t *testing.T) {
	paths := writeShards(t, shards())
	t.Chdir(filepath.Dir(paths[0]))
	f, err := gguf.Open(filepath.Base(paths[1]))
	require.NoError(t, err)
	require.Equal(t, "m-00001-of-00003.gguf", f.Paths[0])
}

// Parse knows one file only.
func TestSplitParse(t *testing.T) {
	path := writeShards(t, shards())[1]
	r, err := os.Open(path)
	require.NoError(t, err)
	defer r.Close()
	info, err := r.Stat()
	require.NoError(t, err)
	f, err := gguf.Parse("m", r, info.Size())
	require.NoError(t, err)
	require.Len(t, f.Tensors, 1)
}

func TestSplitWrong(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(s []shard)
		kind   error
		says   string
	}{
		{"first shard missing", func(s []shard) { s[0].names = nil }, gguf.ErrShard, "no m-00001-of-00003.gguf"},
		{"last shard missing", func(s []shard) { s[2].names = nil }, gguf.ErrShard, "no m-00003-of-00003.gguf"},
		{"split.no wrong", func(s []shard) { s[2].no = uint16(0) }, gguf.ErrFormat, "m-00003-of-00003.gguf"},
		{"split.no absent", func(s []shard) { s[2].no = nil }, gguf.ErrFormat, "split.no"},
		{"split.count of one shard wrong", func(s []shard) { s[2].count = uint16(4) }, gguf.ErrFormat, "m-00003-of-00003.gguf"},
		{"split.count of one shard absent", func(s []shard) { s[2] = shard{nil, nil, nil, s[2].names} }, gguf.ErrFormat, "m-00003-of-00003.gguf"},
		{"split.count of all shards wrong", func(s []shard) { s[0].count, s[1].count, s[2].count = uint16(2), uint16(4), uint16(4) }, gguf.ErrFormat, "split.count"},
		{"split.tensors.count too large", func(s []shard) { s[0].tensors, s[1].tensors, s[2].tensors = 6, 6, 6 }, gguf.ErrFormat, "split.tensors.count"},
		{"split.tensors.count too small", func(s []shard) { s[0].tensors, s[1].tensors, s[2].tensors = 4, 4, 4 }, gguf.ErrFormat, "split.tensors.count"},
		{"split.tensors.count of one shard wrong", func(s []shard) { s[2].tensors = int32(6) }, gguf.ErrFormat, "split.tensors.count"},
		{"tensor in two shards", func(s []shard) { s[2].names[1] = "b" }, gguf.ErrFormat, `tensor "b"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			list := shards()
			tc.change(list)
			for i := range list {
				if n, ok := list[i].tensors.(int); ok {
					list[i].tensors = int32(n)
				}
			}
			paths := writeShards(t, list)
			for i, path := range paths {
				_, err := gguf.Open(path)
				if list[i].names == nil {
					require.ErrorIs(t, err, os.ErrNotExist)
					continue
				}
				if list[i].count == nil {
					continue // nothing in it says that it is a shard
				}
				require.ErrorIs(t, err, tc.kind, path)
				if i == 0 {
					require.ErrorContains(t, err, tc.says)
				}
			}
		})
	}
}

func TestSplitName(t *testing.T) {
	data := shards()[0].write(t)
	for _, name := range []string{"m.gguf", "m-00001-of-00004.gguf", "m-00002-of-00003.gguf", "m-1-of-3.gguf", "m-00009-of-00003.gguf"} {
		_, err := gguf.Open(writeFile(t, t.TempDir(), name, data))
		require.ErrorIs(t, err, gguf.ErrFormat, name)
		require.ErrorContains(t, err, "-00001-of-00003.gguf", name)
		require.ErrorContains(t, err, name)
	}
	// A name alone does not make a shard.
	whole := write(t, everyValue(), gguf.TensorSpec{Name: "a", Type: gguf.F32, Dims: []int{8}})
	f, err := gguf.Open(writeFile(t, t.TempDir(), "m-00001-of-00003.gguf", whole))
	require.NoError(t, err)
	require.Len(t, f.Paths, 1)
}

func TestSplitByteOrder(t *testing.T) {
	dir := t.TempDir()
	for i, b := range []*raw{little(), big()} {
		b.head(3, 1, 3).key("split.no", tU8).u8(uint8(i)).key("split.count", tU8).u8(2).key("split.tensors.count", tU8).u8(2).
			tensor(fmt.Sprint("t", i), gguf.F32, 0, 8).data(32, 32)
		writeFile(t, dir, fmt.Sprintf("m-%05d-of-00002.gguf", i+1), b.Bytes())
	}
	_, err := gguf.Open(filepath.Join(dir, "m-00001-of-00002.gguf"))
	require.ErrorIs(t, err, gguf.ErrFormat)
	require.ErrorContains(t, err, "m-00002-of-00002.gguf")
}
