//go:build unix

package ioactor_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
	"github.com/layerpipe/layerpipe/ring"
)

func openView(paths []string) (ioactor.Backend, error) {
	v, err := ioactor.OpenView(paths)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func TestView(t *testing.T)      { readertest.Run(t, openView) }
func BenchmarkView(b *testing.B) { readertest.Bench(b, openView) }

// What cannot be mapped is refused when it is opened.
func TestOpenView(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	for _, path := range []string{empty, dir} {
		_, err := ioactor.OpenView([]string{path})
		require.ErrorContains(t, err, path)
	}
	_, err := ioactor.OpenView([]string{filepath.Join(dir, "absent")})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// emptySlots are slots without memory, which is all that a view needs.
func emptySlots(t *testing.T, n int) []*ring.Slot {
	r, err := ring.New(n, 0, 0)
	require.NoError(t, err)
	slots := make([]*ring.Slot, n)
	for i := range slots {
		slots[i], err = r.Acquire(t.Context(), nil)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		for _, s := range slots {
			s.Free()
		}
		r.Close()
	})
	return slots
}

// Two slots hold blocks that share a page; loading one again leaves the other
// as it is.
func TestViewSharedPages(t *testing.T) {
	path := writePattern(t, 64<<10)
	v, err := ioactor.OpenView([]string{path})
	require.NoError(t, err)
	slots := emptySlots(t, 2)
	blocks := []ioactor.Block{{Extents: []ioactor.Extent{{Off: 0, Size: 10000}}}, {Extents: []ioactor.Extent{{Off: 10000, Size: 10000}, {Off: 0, Size: 1}}}, {Extents: []ioactor.Extent{{Off: 30000, Size: 1}}}}
	check := func(s *ring.Slot, b *ioactor.Block) {
		for i, e := range b.Extents {
			require.Equal(t, patternBytes()[e.Off:][:e.Size], s.Parts[i])
			require.Equal(t, len(s.Parts[i]), cap(s.Parts[i]), "what follows is not the block's")
		}
	}
	require.NoError(t, v.Load(t.Context(), &blocks[0], slots[0]))
	require.NoError(t, v.Load(t.Context(), &blocks[1], slots[1]))
	require.NoError(t, v.Load(t.Context(), &blocks[2], slots[0]))
	check(slots[1], &blocks[1])
	check(slots[0], &blocks[2])
	require.NoError(t, v.Load(t.Context(), &blocks[0], slots[0]))
	check(slots[0], &blocks[0])
	require.NoError(t, v.Close())
}

// A file that becomes shorter after it was loaded takes the pages away: who
// reads them can recover.
func TestViewTruncatedLater(t *testing.T) {
	const size, kept = 64 << 10, 16 << 10
	path := writePattern(t, size)
	v, err := ioactor.OpenView([]string{path})
	require.NoError(t, err)
	s := emptySlots(t, 1)[0]
	require.NoError(t, v.Load(t.Context(), &ioactor.Block{Extents: []ioactor.Extent{{Off: 0, Size: size}}}, s))
	require.NoError(t, os.Truncate(path, kept))

	read := func(p []byte) (fault any) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { fault = recover() }()
		require.Equal(t, string(patternBytes()[:len(p)]), string(p))
		return nil
	}
	require.Nil(t, read(s.Parts[0][:kept]), "what is left")
	fault, ok := read(s.Parts[0]).(interface {
		runtime.Error
		Addr() uintptr
	})
	require.True(t, ok)
	at := fault.Addr() - uintptr(unsafe.Pointer(&s.Parts[0][0]))
	require.True(t, at >= kept && at < size, "at byte %d of the block", at)
	require.NoError(t, v.Close())
}
