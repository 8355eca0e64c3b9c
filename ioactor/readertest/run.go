package readertest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

const (
	page = ioactor.Align
	// large is more than a backend will read at once, and no multiple of
	// anything.
	large = 9<<20 + 4321
)

// Run tests the backends that open returns.
func Run(t *testing.T, open Opener) {
	t.Run("loads", func(t *testing.T) { loads(t, open) })
	t.Run("reuses a slot", func(t *testing.T) { reuse(t, open) })
	t.Run("past the end", func(t *testing.T) { pastEnd(t, open) })
	t.Run("cancelled", func(t *testing.T) { cancelled(t, open) })
	t.Run("truncated", func(t *testing.T) { truncated(t, open) })
	t.Run("missing file", func(t *testing.T) { missing(t, open) })
	t.Run("close", func(t *testing.T) { closes(t, open) })
}

// A bench is a backend over files of known contents, and a slot.
type bench struct {
	backend ioactor.Backend
	paths   []string
	data    [][]byte
	ring    *ring.Ring
	slot    *ring.Slot
}

// guard is room behind what a block needs, that a backend must leave alone.
const guard = 3 * page

// setUp opens a backend over files of the given sizes, and a slot that holds
// room bytes.
func setUp(t testing.TB, open Opener, room int64, sizes ...int) *bench {
	b := &bench{}
	dir := t.TempDir()
	for i, size := range sizes {
		b.data = append(b.data, contents(size, uint64(i)))
		b.paths = append(b.paths, filepath.Join(dir, fmt.Sprintf("part-%d.bin", i)))
		require.NoError(t, os.WriteFile(b.paths[i], b.data[i], 0o600))
	}
	var err error
	b.backend, err = open(b.paths)
	require.NoError(t, err)
	b.ring, err = ring.New(1, room+guard, 0)
	require.NoError(t, err)
	b.slot, err = b.ring.Acquire(t.Context(), nil)
	require.NoError(t, err)
	// Before the files go, which a cleanup of TempDir does.
	t.Cleanup(func() {
		b.slot.Free()
		require.NoError(t, b.backend.Close())
		b.ring.Close()
	})
	return b
}

// contents returns bytes that are different everywhere, so that a shift shows.
func contents(n int, seed uint64) []byte {
	p := make([]byte, n)
	random := rand.NewPCG(seed, 1)
	for i := 0; i < n; i += 8 {
		x := random.Uint64()
		for j := i; j < min(n, i+8); j++ {
			p[j] = byte(x)
			x >>= 8
		}
	}
	return p
}

// load loads block and checks what came.
func (b *bench) load(t testing.TB, block *ioactor.Block) {
	t.Helper()
	area := b.slot.Load()
	offs, size := block.Place(nil)
	const mark = 0xa5
	behind := area[size:][:guard]
	for i := range behind {
		behind[i] = mark
	}
	require.NoError(t, b.backend.Load(t.Context(), block, b.slot))
	require.Len(t, b.slot.Parts, len(block.Extents))
	for i, e := range block.Extents {
		part := b.slot.Parts[i]
		require.Len(t, part, int(e.Size), "extent %d", i)
		require.True(t, string(part) == string(b.data[e.File][e.Off:][:e.Size]), "extent %d: other bytes than in the file", i)
		if at := int64(address(part)) - int64(address(area)); at >= 0 && at < int64(len(area)) {
			require.Equal(t, offs[i], at, "extent %d is not where Place says", i)
		}
	}
	for i := range behind {
		if behind[i] != mark {
			require.Failf(t, "written behind the block", "byte %d of an area of %d", size+int64(i), size)
		}
	}
}

func address(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

func loads(t *testing.T, open Opener) {
	const a, b, c = 16*page + 123, large, 2 * page
	bench := setUp(t, open, b+2*page, a, b, c)
	for _, tc := range []struct {
		name    string
		extents []ioactor.Extent
	}{
		{"nothing", nil},
		{"a whole file", []ioactor.Extent{{File: 0, Off: 0, Size: a}}},
		{"whole pages", []ioactor.Extent{{File: 0, Off: page, Size: 2 * page}}},
		{"first byte", []ioactor.Extent{{File: 0, Off: 0, Size: 1}}},
		{"last byte", []ioactor.Extent{{File: 0, Off: a - 1, Size: 1}}},
		{"last byte of a file that ends with a page", []ioactor.Extent{{File: 2, Off: c - 1, Size: 1}}},
		{"unaligned within a page", []ioactor.Extent{{File: 0, Off: page + 1, Size: 333}}},
		{"unaligned over pages", []ioactor.Extent{{File: 0, Off: page - 1, Size: page + 2}}},
		{"several extents", []ioactor.Extent{{File: 0, Off: 32, Size: 5000}, {File: 0, Off: 7*page + 7, Size: 1}, {File: 0, Off: 9 * page, Size: a - 9*page}}},
		{"backwards", []ioactor.Extent{{File: 0, Off: 9 * page, Size: 100}, {File: 0, Off: 100, Size: 100}}},
		{"the same twice", []ioactor.Extent{{File: 0, Off: 77, Size: 777}, {File: 0, Off: 77, Size: 777}}},
		{"several files", []ioactor.Extent{{File: 2, Off: 5, Size: c - 5}, {File: 0, Off: 0, Size: 10}, {File: 1, Off: page, Size: 10}, {File: 2, Off: 0, Size: 6}}},
		{"large", []ioactor.Extent{{File: 1, Off: 0, Size: b}}},
		{"large and unaligned", []ioactor.Extent{{File: 0, Off: 3, Size: 9}, {File: 1, Off: 4097, Size: b - 4097 - 11}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bench.load(t, &ioactor.Block{Name: tc.name, Extents: tc.extents})
		})
	}
}

// A slot is loaded over and over, with more and with fewer extents than before.
func reuse(t *testing.T, open Opener) {
	b := setUp(t, open, 64*page, 40*page+17, 3*page)
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		block := ioactor.Block{Name: "random"}
		for range random.IntN(5) {
			file := random.IntN(2)
			off := random.Int64N(int64(len(b.data[file])))
			size := 1 + random.Int64N(min(int64(len(b.data[file]))-off, 12*page))
			block.Extents = append(block.Extents, ioactor.Extent{File: file, Off: off, Size: size})
		}
		b.load(t, &block)
	}
}

// pastEnd: extents that reach over the end of their file are errors that name
// file and offset, whatever the plan said of the file's size.
func pastEnd(t *testing.T, open Opener) {
	const size = 4*page + 100
	for _, tc := range []struct {
		name      string
		off, size int64
	}{
		{"by one byte", size - 10, 11},
		{"by pages", page, 10 * page},
		{"from the end", size, 1},
		{"far behind", 100 * page, 5},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := setUp(t, open, 16*page, page, size)
			block := ioactor.Block{Name: "broken", Extents: []ioactor.Extent{{File: 0, Off: 0, Size: 10}, {File: 1, Off: tc.off, Size: tc.size}}}
			b.fails(t, &block, b.paths[1])
			b.load(t, &ioactor.Block{Name: "sound", Extents: []ioactor.Extent{{File: 1, Off: 1, Size: size - 1}}})
		})
	}
}

// fails loads block, of which file is too short.
func (b *bench) fails(t *testing.T, block *ioactor.Block, file string) {
	t.Helper()
	err := b.backend.Load(t.Context(), block, b.slot)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, file)
	require.Regexp(t, `byte`, strings.ReplaceAll(err.Error(), file, ""), "the error names no offset")
	require.Regexp(t, `[0-9]`, strings.ReplaceAll(err.Error(), file, ""), "the error names no offset")
}

func cancelled(t *testing.T, open Opener) {
	b := setUp(t, open, large+2*page, large)
	boom := errors.New("boom")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	for _, e := range []ioactor.Extent{{Off: 0, Size: 1}, {Off: 4097, Size: large - 4097}} {
		block := ioactor.Block{Name: "unwanted", Extents: []ioactor.Extent{e}}
		require.ErrorIs(t, b.backend.Load(ctx, &block, b.slot), boom)
		b.load(t, &block) // it works afterwards
	}
}

// truncated: a file that becomes shorter under the backend is an error, no
// crash, and no zeros in place of what is gone. What is left can be loaded.
func truncated(t *testing.T, open Opener) {
	const before = 64 * page
	for _, tc := range []struct {
		name string
		to   int64
	}{
		{"to whole pages", 8 * page},
		{"within a page", 8*page + 100},
		{"by one byte", before - 1},
		{"to one byte", 1},
		{"to nothing", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := setUp(t, open, before+page, before)
			all := ioactor.Block{Name: "all", Extents: []ioactor.Extent{{Off: 0, Size: before}}}
			b.load(t, &all)
			require.NoError(t, os.Truncate(b.paths[0], tc.to))

			b.fails(t, &all, b.paths[0])
			last := ioactor.Block{Name: "last byte", Extents: []ioactor.Extent{{Off: before - 1, Size: 1}}}
			b.fails(t, &last, b.paths[0])
			next := ioactor.Block{Name: "first missing byte", Extents: []ioactor.Extent{{Off: tc.to, Size: 1}}}
			b.fails(t, &next, b.paths[0])
			over := ioactor.Block{Name: "over the new end", Extents: []ioactor.Extent{{Off: max(0, tc.to-5), Size: 10}}}
			if tc.to+10 <= before {
				b.fails(t, &over, b.paths[0])
			}
			if tc.to > 0 {
				b.load(t, &ioactor.Block{Name: "the rest", Extents: []ioactor.Extent{{Off: 0, Size: tc.to}}})
			}
		})
	}
}

func missing(t *testing.T, open Opener) {
	dir := t.TempDir()
	there, absent := filepath.Join(dir, "there"), filepath.Join(dir, "absent")
	require.NoError(t, os.WriteFile(there, []byte("x"), 0o600))
	for _, paths := range [][]string{{absent}, {there, absent}, {absent, there}} {
		_, err := open(paths)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, absent)
	}
	require.Empty(t, held(t, dir), "files stay open after a failed open")
}

func closes(t *testing.T, open Opener) {
	dir := t.TempDir()
	path := filepath.Join(dir, "part")
	require.NoError(t, os.WriteFile(path, contents(3*page, 1), 0o600))
	for range 3 {
		b, err := open([]string{path, path})
		require.NoError(t, err)
		if runtime.GOOS == "linux" {
			require.NotEmpty(t, held(t, dir), "the test sees no open file")
		}
		require.NoError(t, b.Close())
		require.Empty(t, held(t, dir), "files stay open or mapped after Close")
	}
}

// held returns what the process holds of the files under dir: open files and
// mappings. Only Linux tells.
func held(t *testing.T, dir string) []string {
	if runtime.GOOS != "linux" {
		return nil
	}
	var found []string
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, fd := range fds {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil && strings.HasPrefix(to, dir) {
			found = append(found, "open: "+to)
		}
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, dir) {
			found = append(found, "mapped: "+line)
		}
	}
	return found
}
