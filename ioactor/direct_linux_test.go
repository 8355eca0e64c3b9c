package ioactor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
)

// A file system that refuses direct reads, at whatever moment, changes what is
// told and not what is read.
func TestDirectRefused(t *testing.T) {
	for _, tc := range []struct {
		name string
		f    ioactor.DirectFaults
		note string
	}{
		{"at open", ioactor.DirectFaults{AtOpen: unix.EINVAL}, "(at open)"},
		{"by what it says", ioactor.DirectFaults{Align: ioactor.NoDirect}, "(it has none)"},
		{"by an alignment that slots do not have", ioactor.DirectFaults{Align: 65536}, "(it wants them aligned to 65536 bytes)"},
		{"at the first read", ioactor.DirectFaults{AtRead: unix.EINVAL}, "(at the first read)"},
		{"in other words", ioactor.DirectFaults{AtRead: unix.EOPNOTSUPP}, "(at the first read)"},
		{"at open, on an older kernel", ioactor.DirectFaults{AtOpen: unix.EINVAL, Uncached: unix.EOPNOTSUPP}, "(at open)"},
		{"at the first read, on an old kernel", ioactor.DirectFaults{AtRead: unix.EINVAL, Uncached: unix.ENOSYS}, "(at the first read)"},
	} {
		for _, o := range []ioactor.DirectOptions{{}, {Chunk: 64 << 10}} {
			t.Run(fmt.Sprintf("%s, chunks of %d", tc.name, o.Chunk), func(t *testing.T) {
				const size = 3 << 20
				path := writePattern(t, size)
				d, err := ioactor.OpenFaultyDirect([]string{path, path}, o, tc.f)
				require.NoError(t, err)
				defer func() { require.NoError(t, d.Close()) }()
				loadPattern(t, d, ioactor.Extent{Off: 5, Size: size - 5}, ioactor.Extent{File: 1, Off: 0, Size: 10})
				require.Contains(t, d.Note(), tc.note)
				require.Contains(t, d.Note(), path)
				note := d.Note()
				loadPattern(t, d, ioactor.Extent{File: 1, Off: 77, Size: 10})
				require.Equal(t, note, d.Note(), "it is said once")
			})
		}
	}
}

func TestDirectBuffered(t *testing.T) {
	for _, tc := range []struct {
		name string
		o    ioactor.DirectOptions
		f    ioactor.DirectFaults
	}{
		{"uncached", ioactor.DirectOptions{Chunk: 64 << 10}, ioactor.DirectFaults{AtOpen: unix.EINVAL}},
		{"refused at the first read, uncached", ioactor.DirectOptions{Chunk: 64 << 10}, ioactor.DirectFaults{AtRead: unix.EINVAL}},
		{"refused at the first read, dropping", ioactor.DirectOptions{}, ioactor.DirectFaults{AtRead: unix.EINVAL, Uncached: unix.EOPNOTSUPP}},
		{"dropping", ioactor.DirectOptions{Chunk: 64 << 10}, ioactor.DirectFaults{AtOpen: unix.EINVAL, Uncached: unix.EOPNOTSUPP}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			readertest.Run(t, func(paths []string) (ioactor.Backend, error) {
				return backend(ioactor.OpenFaultyDirect(paths, tc.o, tc.f))
			})
		})
	}
}

func backend(d *ioactor.Direct, err error) (ioactor.Backend, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Errors other than a refusal are errors of the open.
func TestDirectOpenError(t *testing.T) {
	path := writePattern(t, 100)
	_, err := ioactor.OpenFaultyDirect([]string{path}, ioactor.DirectOptions{}, ioactor.DirectFaults{AtOpen: unix.EACCES})
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, path)
}

func TestDirectNote(t *testing.T) {
	path := writePattern(t, 10000)
	needDirect(t, path)
	d, err := ioactor.OpenDirect([]string{path}, ioactor.DirectOptions{})
	require.NoError(t, err)
	loadPattern(t, d, ioactor.Extent{Off: 100, Size: 9900})
	require.Empty(t, d.Note())
	require.NoError(t, d.Close())
}

// What a read may do short of failing: the block is whole, and every request
// is for whole pages of the file into whole pages of the slot, even after a
// read that ended within one.
func TestDirectReads(t *testing.T) {
	const size = 2<<20 + 777
	extents := []ioactor.Extent{{Off: 0, Size: 1}, {Off: 5000, Size: 1<<20 + 9}, {Off: 1<<20 + 8000, Size: size - 1<<20 - 8000}}
	type read = func(p []byte, off int64) (int, error)
	for _, tc := range []struct {
		name string
		do   func(call int64, p []byte, off int64, read read) (int, error)
		want error
		says string
	}{
		{name: "whole", do: func(_ int64, p []byte, off int64, read read) (int, error) { return read(p, off) }},
		{name: "short, to whole pages", do: func(_ int64, p []byte, off int64, read read) (int, error) { return read(p[:4096], off) }},
		{name: "short, within a page", do: func(call int64, p []byte, off int64, read read) (int, error) {
			n, err := read(p, off)
			if call%3 != 0 {
				n = min(n, 10000)
			}
			if call%3 == 1 {
				n = min(n, 5000)
			}
			return n, err
		}},
		{name: "EINTR and EAGAIN", do: func(call int64, p []byte, off int64, read read) (int, error) {
			switch call % 7 {
			case 0:
				return read(p, off)
			case 1, 2, 3:
				return -1, syscall.EINTR
			}
			return -1, syscall.EAGAIN
		}},
		{name: "EINTR for ever", do: func(int64, []byte, int64, read) (int, error) { return -1, syscall.EINTR }, want: io.ErrNoProgress, says: ": byte "},
		{name: "EIO", do: func(int64, []byte, int64, read) (int, error) { return -1, syscall.EIO }, want: syscall.EIO, says: ": byte "},
		{name: "EIO of one page", do: func(_ int64, p []byte, off int64, read read) (int, error) {
			const bad = 300 * 4096
			if off <= bad && off+int64(len(p)) > bad {
				if off == bad {
					return -1, syscall.EIO
				}
				return read(p[:bad-off], off) // a kernel brings what comes before
			}
			return read(p, off)
		}, want: syscall.EIO, says: ": byte 1228800 of a range to "},
		{name: "end of file", do: func(_ int64, p []byte, off int64, read read) (int, error) {
			n, err := read(p, off)
			return min(n, int(max(0, 1<<20+100-off))), err
		}, want: io.ErrUnexpectedEOF, says: ": byte 1048676 of a range to "},
		{name: "end of file within the first page", do: func(_ int64, p []byte, off int64, read read) (int, error) {
			n, err := read(p, off)
			return min(n, int(max(0, 5100-off))), err
		}, want: io.ErrUnexpectedEOF, says: ": byte "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const chunk = 256 << 10
			path := writePattern(t, size)
			var calls int64
			d, err := ioactor.OpenFaultyDirect([]string{path}, ioactor.DirectOptions{Chunk: chunk}, ioactor.DirectFaults{Pread: func(p []byte, off int64, read func([]byte, int64) (int, error)) (int, error) {
				if off%4096 != 0 || len(p)%4096 != 0 || uintptr(unsafe.Pointer(&p[0]))%4096 != 0 || len(p) > chunk {
					return -1, fmt.Errorf("read of %d bytes from %d into %p", len(p), off, p)
				}
				calls++
				return tc.do(calls, p, off, read)
			}})
			require.NoError(t, err)
			defer func() { require.NoError(t, d.Close()) }()
			if tc.want == nil {
				loadPattern(t, d, extents...)
				require.NotZero(t, calls)
				return
			}
			s := slotFor(t, extents)
			err = d.Load(t.Context(), &ioactor.Block{Extents: extents}, s)
			require.ErrorIs(t, err, tc.want)
			require.ErrorContains(t, err, "read "+path+tc.says)
		})
	}
}

// A load that is told to stop ends with the read that is under way.
func TestDirectCancelled(t *testing.T) {
	const size, chunk = 1 << 20, 64 << 10
	boom := errors.New("boom")
	path := writePattern(t, size)
	for at := 1; at <= size/chunk; at++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		d, err := ioactor.OpenFaultyDirect([]string{path}, ioactor.DirectOptions{Chunk: chunk}, ioactor.DirectFaults{Pread: func(p []byte, off int64, read func([]byte, int64) (int, error)) (int, error) {
			if calls++; calls == at {
				cancel(boom)
			}
			return read(p, off)
		}})
		require.NoError(t, err)
		extents := []ioactor.Extent{{Off: 0, Size: size}}
		err = d.Load(ctx, &ioactor.Block{Extents: extents}, slotFor(t, extents))
		require.Equal(t, at, calls)
		if at < size/chunk {
			require.ErrorIs(t, err, boom)
		}
		require.NoError(t, d.Close())
		cancel(nil)
	}
}

// The steady state of a pass makes no garbage.
func TestDirectAllocates(t *testing.T) {
	const size = 1 << 20
	path := writePattern(t, size)
	for name, f := range map[string]ioactor.DirectFaults{
		"direct": {}, "uncached": {AtOpen: unix.EINVAL}, "dropping": {AtOpen: unix.EINVAL, Uncached: unix.EOPNOTSUPP},
	} {
		d, err := ioactor.OpenFaultyDirect([]string{path}, ioactor.DirectOptions{Chunk: 128 << 10}, f)
		require.NoError(t, err)
		b := &ioactor.Block{Extents: []ioactor.Extent{{Off: 10, Size: size / 2}, {Off: size/2 + 9000, Size: 4000}}}
		s := slotFor(t, b.Extents)
		require.Zero(t, testing.AllocsPerRun(10, func() {
			if err := d.Load(t.Context(), b, s); err != nil {
				t.Error(err)
			}
		}), name)
		require.NoError(t, d.Close())
	}
}

// Neither direct reads nor what replaces them fill the page cache.
func TestDirectLeavesNoCache(t *testing.T) {
	const size = 16 << 20
	path := writePattern(t, size)
	needDirect(t, path)
	for name, f := range map[string]ioactor.DirectFaults{
		"direct": {}, "uncached": {AtOpen: unix.EINVAL}, "dropping": {AtOpen: unix.EINVAL, Uncached: unix.EOPNOTSUPP},
	} {
		t.Run(name, func(t *testing.T) {
			dropCache(t, path)
			d, err := ioactor.OpenFaultyDirect([]string{path}, ioactor.DirectOptions{Chunk: 1 << 20}, f)
			require.NoError(t, err)
			loadPattern(t, d, ioactor.Extent{Off: 0, Size: size})
			require.NoError(t, d.Close())
			require.Less(t, cached(t, path), int64(size/4))
		})
	}
	pread, err := ioactor.OpenPread([]string{path}, ioactor.HintNone)
	require.NoError(t, err)
	loadPattern(t, pread, ioactor.Extent{Off: 0, Size: size})
	require.NoError(t, pread.Close())
	require.Greater(t, cached(t, path), int64(size/2), "the test does not see the page cache")
}

// needDirect skips the test where files have no direct reads or no device.
func needDirect(t testing.TB, path string) {
	var st unix.Statfs_t
	require.NoError(t, unix.Statfs(path, &st))
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	if st.Type == unix.TMPFS_MAGIC || err != nil {
		t.Skipf("no direct reads of files in %s: set TMPDIR to a directory on a disk", filepath.Dir(path))
	}
	require.NoError(t, f.Close())
}

// dropCache takes the file out of the page cache.
func dropCache(t testing.TB, path string) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
	require.NoError(t, f.Close())
}

// cached is how many bytes of the file are in the page cache.
func cached(t testing.TB, path string) int64 {
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	fi, err := f.Stat()
	require.NoError(t, err)
	m, err := unix.Mmap(int(f.Fd()), 0, int(fi.Size()), unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(m)) }()
	pages := make([]byte, (len(m)+os.Getpagesize()-1)/os.Getpagesize())
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(len(m)), uintptr(unsafe.Pointer(&pages[0])))
	require.Zero(t, errno)
	var n int64
	for _, p := range pages {
		n += int64(p&1) * int64(os.Getpagesize())
	}
	return n
}
