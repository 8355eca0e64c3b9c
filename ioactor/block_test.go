package ioactor_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
)

func TestPlace(t *testing.T) {
	for _, tc := range []struct {
		name    string
		extents []ioactor.Extent
		offs    []int64
		size    int64
		bytes   int64
	}{
		{"nothing", nil, nil, 0, 0},
		{"a page", []ioactor.Extent{{Off: 8192, Size: 4096}}, []int64{0}, 4096, 4096},
		{"a byte", []ioactor.Extent{{Off: 8192, Size: 1}}, []int64{0}, 4096, 1},
		{"a byte and a page", []ioactor.Extent{{Off: 0, Size: 4097}}, []int64{0}, 8192, 4097},
		{"last byte of a page", []ioactor.Extent{{Off: 4095, Size: 1}}, []int64{4095}, 4096, 1},
		{"over the end of a page", []ioactor.Extent{{Off: 4095, Size: 2}}, []int64{4095}, 8192, 2},
		{"each extent begins in a page of its own", []ioactor.Extent{{Off: 100, Size: 10}, {Off: 200, Size: 10}, {Off: 4096, Size: 5000}, {Off: 1, Size: 1}}, []int64{100, 4096 + 200, 8192, 16384 + 1}, 20480, 5021},
		{"at the end of what a file can be", []ioactor.Extent{{Off: math.MaxInt64 - 1, Size: 1}}, []int64{4094}, 4096, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := ioactor.Block{Extents: tc.extents}
			offs, size := b.Place(nil)
			require.Equal(t, tc.offs, offs)
			require.Equal(t, tc.size, size)
			require.Equal(t, tc.bytes, b.Bytes())
			// What was in the slice does not matter, and it is used again.
			again, _ := b.Place([]int64{9, 9, 9, 9, 9})
			require.Equal(t, len(tc.offs), len(again))
			require.Subset(t, again, tc.offs)
			require.Equal(t, 5, cap(again))

			// The promise to backends that read whole pages: every page of the
			// extent has a place of its own within the area.
			end := int64(0)
			for i, e := range tc.extents {
				require.Equal(t, e.Off%ioactor.Align, offs[i]%ioactor.Align)
				require.GreaterOrEqual(t, offs[i]/ioactor.Align*ioactor.Align, end)
				end = (offs[i] + e.Size + ioactor.Align - 1) / ioactor.Align * ioactor.Align
			}
			require.Equal(t, size, end)
		})
	}
}

func TestLoadBytes(t *testing.T) {
	small := ioactor.Block{Extents: []ioactor.Extent{{Off: 1, Size: 1}}}
	large := ioactor.Block{Extents: []ioactor.Extent{{Off: 1, Size: 4096}, {Off: 4095, Size: 2}}}
	require.Equal(t, int64(0), ioactor.LoadBytes(nil))
	require.Equal(t, int64(0), ioactor.LoadBytes([]ioactor.Block{{}}))
	require.Equal(t, int64(4096), ioactor.LoadBytes([]ioactor.Block{small}))
	require.Equal(t, int64(16384), ioactor.LoadBytes([]ioactor.Block{small, large, small}))
}

func TestCheck(t *testing.T) {
	sizes := []int64{100, 0, math.MaxInt64}
	for _, tc := range []struct {
		name    string
		extents []ioactor.Extent
		want    string // empty: it is good
	}{
		{"no extents", nil, ""},
		{"a whole file", []ioactor.Extent{{File: 0, Off: 0, Size: 100}}, ""},
		{"the last byte", []ioactor.Extent{{File: 0, Off: 99, Size: 1}}, ""},
		{"half of the largest file", []ioactor.Extent{{File: 2, Off: 5, Size: 1 << 61}}, ""},
		{"one byte over", []ioactor.Extent{{File: 0, Off: 0, Size: 101}}, "layer 1: 101 bytes from byte 0 of file 0, which has 100"},
		{"from the end", []ioactor.Extent{{File: 0, Off: 100, Size: 1}}, "layer 1: 1 bytes from byte 100 of file 0, which has 100"},
		{"behind the end", []ioactor.Extent{{File: 0, Off: 101, Size: 1}}, "layer 1: 1 bytes from byte 101"},
		{"of an empty file", []ioactor.Extent{{File: 1, Off: 0, Size: 1}}, "of file 1, which has 0"},
		{"empty", []ioactor.Extent{{File: 0, Off: 5, Size: 0}}, "layer 1: 0 bytes from byte 5"},
		{"negative size", []ioactor.Extent{{File: 0, Off: 5, Size: -1}}, "layer 1: -1 bytes"},
		{"negative offset", []ioactor.Extent{{File: 0, Off: -1, Size: 5}}, "layer 1: 5 bytes from byte -1"},
		{"least offset", []ioactor.Extent{{File: 0, Off: math.MinInt64, Size: math.MaxInt64}}, "layer 1: 9223372036854775807 bytes from byte -9223372036854775808"},
		{"offset and size overflow", []ioactor.Extent{{File: 0, Off: 50, Size: math.MaxInt64}}, "layer 1: 9223372036854775807 bytes from byte 50"},
		{"no such file", []ioactor.Extent{{File: 3, Off: 0, Size: 1}}, "layer 1: file 3 of 3"},
		{"negative file", []ioactor.Extent{{File: -1, Off: 0, Size: 1}}, "layer 1: file -1 of 3"},
		{"the second is bad", []ioactor.Extent{{File: 0, Off: 0, Size: 1}, {File: 0, Off: 99, Size: 2}}, "layer 1: 2 bytes from byte 99"},
		{"one that no memory holds", []ioactor.Extent{{File: 2, Off: 0, Size: math.MaxInt64}}, "layer 1: extents of more than"},
		{"sum overflows", []ioactor.Extent{{File: 2, Off: 0, Size: 1 << 61}, {File: 2, Off: 0, Size: 1 << 61}, {File: 2, Off: 0, Size: 1 << 61}}, "layer 1: extents of more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			blocks := []ioactor.Block{{Name: "layer 0"}, {Name: "layer 1", Extents: tc.extents}}
			err := ioactor.Check(blocks, sizes)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			b := &blocks[1]
			require.GreaterOrEqual(t, ioactor.LoadBytes(blocks), b.Bytes(), "what passes can be placed")
		})
	}
}
