package gguf_test

import (
	"math"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/stretchr/testify/require"
)

func TestGetInt(t *testing.T) {
	for _, tc := range []struct {
		value any
		want  int
		ok    bool
	}{
		{uint8(200), 200, true},
		{int8(-1), -1, true},
		{uint16(60000), 60000, true},
		{int16(-2), -2, true},
		{uint32(4e9), 4e9, true},
		{int32(-3), -3, true},
		{uint64(5), 5, true},
		{int64(-4), -4, true},
		{uint64(math.MaxInt), math.MaxInt, true},
		{uint64(math.MaxInt + 1), 0, false},
		{float32(1), 0, false},
		{"1", 0, false},
		{true, 0, false},
		{[]int32{1}, 0, false},
	} {
		check(t, tc.value, tc.want, tc.ok)
	}
}

func TestGetOthers(t *testing.T) {
	check(t, float32(0.5), float32(0.5), true)
	check(t, 0.5, float32(0.5), true)
	check(t, int16(-7), float32(-7), true)
	check(t, math.Inf(1), float32(math.Inf(1)), true)
	check(t, 1e300, float32(0), false)
	check(t, "0.5", float32(0), false)
	check(t, true, true, true)
	check(t, uint8(1), false, false)
	check(t, "s", "s", true)
	check(t, []string{"s"}, "", false)
}

// check demands that Get and GetOr make want of value, or refuse it.
func check[T gguf.Scalar](t *testing.T, value any, want T, ok bool) {
	t.Helper()
	var m gguf.Metadata
	m.Set("the key", value)
	got, found, err := gguf.Get[T](&m, "the key")
	_, errOr := gguf.GetOr(&m, "the key", want)
	if !ok {
		require.ErrorIs(t, err, gguf.ErrFormat, "%T %v", value, value)
		require.ErrorContains(t, err, "the key")
		require.ErrorIs(t, errOr, gguf.ErrFormat)
		return
	}
	require.NoError(t, err)
	require.NoError(t, errOr)
	require.True(t, found)
	require.Equal(t, want, got)
}

func TestGetAbsent(t *testing.T) {
	var m gguf.Metadata
	_, ok, err := gguf.Get[int](&m, "k")
	require.NoError(t, err)
	require.False(t, ok)
	v, err := gguf.GetOr(&m, "k", "default")
	require.NoError(t, err)
	require.Equal(t, "default", v)
	_, ok, err = gguf.Array[string](&m, "k")
	require.NoError(t, err)
	require.False(t, ok)
}

func TestArray(t *testing.T) {
	var m gguf.Metadata
	m.Set("k", []int32{1, 2})
	v, ok, err := gguf.Array[int32](&m, "k")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, []int32{1, 2}, v)
	_, ok, err = gguf.Array[uint32](&m, "k")
	require.ErrorIs(t, err, gguf.ErrFormat)
	require.ErrorContains(t, err, `"k"`)
	require.False(t, ok)
}

func TestSet(t *testing.T) {
	var m gguf.Metadata
	m.Set("b", uint8(1))
	m.Set("a", uint8(2))
	m.Set("b", uint8(3))
	require.Equal(t, []string{"b", "a"}, m.Keys())
	v, ok := m.Value("b")
	require.True(t, ok)
	require.Equal(t, uint8(3), v)
}
