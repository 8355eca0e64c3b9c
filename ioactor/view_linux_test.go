package ioactor_test

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ioactor"
)

// A load brings all pages of its block and takes those of the slot's last block
// away: the process never maps more blocks than there are slots.
func TestViewMapped(t *testing.T) {
	const block, blocks, depth = 2 << 20, 8, 2
	path := writePattern(t, block*blocks)
	v, err := ioactor.OpenView([]string{path})
	require.NoError(t, err)
	slots := emptySlots(t, depth)
	for n := range 3 * blocks {
		b := &ioactor.Block{Extents: []ioactor.Extent{{Off: int64(n % blocks * block), Size: block}}}
		if n%5 == 0 {
			dropCache(t, path) // pages that are in the process stay
		}
		require.NoError(t, v.Load(t.Context(), b, slots[n%depth]))
		// The kernel may map some more of what is in the page cache around a page.
		require.InDelta(t, min(n+1, depth)*block, mapped(t, path), block/8)
	}
	require.NoError(t, v.Close())
	require.Zero(t, mapped(t, path))
}

// mapped is how many bytes of the file are in the process.
func mapped(t *testing.T, path string) int64 {
	maps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	var total int64
	ours := false
	for line := range strings.Lines(string(maps)) {
		var kib int64
		if strings.Contains(line, "-") && !strings.Contains(line, " kB") && !strings.HasPrefix(line, "VmFlags") {
			ours = strings.Contains(line, path)
		} else if _, err := fmt.Sscanf(line, "Rss: %d kB", &kib); err == nil && ours {
			total += kib << 10
		}
	}
	return total
}

// Where the kernel does not bring pages in a call, they are touched.
func TestTouch(t *testing.T) {
	const size = 64 << 10
	path := writePattern(t, size)
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(m)) }()
	require.NoError(t, ioactor.Touch(m))
	require.Equal(t, int64(size), mapped(t, path))
	require.NoError(t, os.Truncate(path, size/2))
	require.NoError(t, ioactor.Touch(m[:size/2]))
	require.ErrorIs(t, ioactor.Touch(m), io.ErrUnexpectedEOF)
}
