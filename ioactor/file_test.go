package ioactor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

// A faulty is a file of the bytes 0, 1, 2... whose ReadAt does what next says.
type faulty struct {
	size   int64
	next   func(call, n int, off int64) (most int, err error) // how many of n bytes to bring, and the error beside
	calls  int
	sizes  []int
	closed error
	closes int
}

func (f *faulty) Name() string { return "model.gguf" }
func (f *faulty) Close() error { f.closes++; return f.closed }

func (f *faulty) ReadAt(p []byte, off int64) (int, error) {
	f.calls++
	f.sizes = append(f.sizes, len(p))
	most, err := f.next(f.calls, len(p), off)
	n := int(min(int64(min(most, len(p))), max(0, f.size-off)))
	for i := range n {
		p[i] = pattern(off + int64(i))
	}
	if n < most && err == nil {
		err = io.EOF
	}
	return n, err
}

func pattern(off int64) byte { return byte(off ^ off>>8 ^ off>>16) }

const mib = 1 << 20

func TestReadFull(t *testing.T) {
	const size = 9*mib + 100
	interrupted := &fs.PathError{Op: "read", Path: "model.gguf", Err: syscall.EINTR}
	for _, tc := range []struct {
		name   string
		off, n int64
		next   func(call, n int, off int64) (int, error)
		want   error
		says   string
		calls  int
	}{
		{name: "whole", n: 100, next: func(_, n int, _ int64) (int, error) { return n, nil }, calls: 1},
		{name: "nothing", n: 0, next: func(_, n int, _ int64) (int, error) { return n, nil }, calls: 0},
		{name: "in pieces of 4 MiB", n: size, next: func(_, n int, _ int64) (int, error) { return n, nil }, calls: 3},
		{name: "short reads", off: 7, n: 1000, next: func(int, int, int64) (int, error) { return 10, nil }, calls: 100},
		{name: "one byte at a time, EINTR beside each", n: 300, next: func(int, int, int64) (int, error) { return 1, syscall.EINTR }, calls: 300},
		{name: "EINTR first", n: 10, next: func(call, n int, _ int64) (int, error) {
			if call == 1 {
				return 0, syscall.EINTR
			}
			return n, nil
		}, calls: 2},
		{name: "EAGAIN, wrapped EINTR and nothing at all between short reads", n: 20, next: func(call, _ int, _ int64) (int, error) {
			switch call % 4 {
			case 0:
				return 1, nil
			case 1:
				return 0, syscall.EAGAIN
			case 2:
				return 0, interrupted
			}
			return 0, nil
		}, calls: 80},
		{name: "100 EINTR in a row, again and again", n: 3, next: func(call, _ int, _ int64) (int, error) {
			if call%101 == 0 {
				return 1, nil
			}
			return 0, syscall.EINTR
		}, calls: 303},
		{name: "EINTR for ever", off: 50, n: 10, next: func(int, int, int64) (int, error) { return 0, interrupted }, want: io.ErrNoProgress, says: "read model.gguf: byte 50 of a range to 60: multiple Read calls return no data or error: interrupted system call", calls: 101},
		{name: "EAGAIN for ever after a part", off: 50, n: 10, next: func(call, _ int, _ int64) (int, error) {
			if call == 1 {
				return 4, nil
			}
			return 0, syscall.EAGAIN
		}, want: syscall.EAGAIN, says: "read model.gguf: byte 54 of a range to 60", calls: 102},
		{name: "nothing for ever", n: 10, next: func(int, int, int64) (int, error) { return 0, nil }, want: io.ErrNoProgress, says: "read model.gguf: byte 0 of a range to 10", calls: 101},
		{name: "EIO", off: 5, n: 10, next: func(int, int, int64) (int, error) {
			return 0, &fs.PathError{Op: "read", Path: "model.gguf", Err: syscall.EIO}
		}, want: syscall.EIO, says: "read model.gguf: byte 5 of a range to 15: input/output error", calls: 1},
		{name: "EIO after a part", off: 5, n: 10, next: func(int, int, int64) (int, error) { return 3, syscall.EIO }, want: syscall.EIO, says: "read model.gguf: byte 8 of a range to 15", calls: 1},
		{name: "EIO in the second piece", n: 5 * mib, next: func(call, n int, _ int64) (int, error) {
			if call == 2 {
				return 0, syscall.EIO
			}
			return n, nil
		}, want: syscall.EIO, says: "read model.gguf: byte 4194304 of a range to 5242880", calls: 2},
		{name: "EOF with the last bytes", off: size - 10, n: 10, next: func(_, n int, _ int64) (int, error) { return n, io.EOF }, calls: 1},
		{name: "an error with the last bytes, which are all there", n: 10, next: func(_, n int, _ int64) (int, error) { return n, syscall.EIO }, calls: 1},
		{name: "EOF early", off: size - 10, n: 11, next: func(_, n int, _ int64) (int, error) { return n, nil }, want: io.ErrUnexpectedEOF, says: fmt.Sprintf("read model.gguf: byte %d of a range to %d", size, size+1), calls: 1},
		{name: "EOF at once", off: size, n: 1, next: func(_, n int, _ int64) (int, error) { return n, nil }, want: io.ErrUnexpectedEOF, says: fmt.Sprintf("byte %d", size), calls: 1},
		{name: "EOF with the last bytes of a piece that is not the last", n: 5 * mib, next: func(_, n int, _ int64) (int, error) { return n, io.EOF }, want: io.ErrUnexpectedEOF, says: "byte 4194304", calls: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := &faulty{size: size, next: tc.next}
			p := make([]byte, tc.n)
			err := ioactor.ReadFull(t.Context(), f, p, tc.off)
			require.Equal(t, tc.calls, f.calls)
			for _, n := range f.sizes {
				require.LessOrEqual(t, n, 4*mib)
			}
			if tc.want != nil {
				require.ErrorIs(t, err, tc.want)
				require.ErrorContains(t, err, tc.says)
				return
			}
			require.NoError(t, err)
			for i := range p {
				if p[i] != pattern(tc.off+int64(i)) {
					require.Failf(t, "wrong bytes", "byte %d", i)
				}
			}
		})
	}
}

// A read of many pieces ends soon after its context does, with the cause.
func TestReadFullCancelled(t *testing.T) {
	boom := errors.New("boom")
	for at := range 4 {
		ctx, cancel := context.WithCancelCause(t.Context())
		f := &faulty{size: 20 * mib, next: func(call, n int, _ int64) (int, error) {
			if call == at {
				cancel(boom)
			}
			return n, nil
		}}
		if at == 0 {
			cancel(boom)
		}
		require.ErrorIs(t, ioactor.ReadFull(ctx, f, make([]byte, 20*mib), 0), boom)
		require.Equal(t, at, f.calls)
		cancel(nil)
	}

	// An endless EINTR does not hold it up either.
	ctx, cancel := context.WithCancelCause(t.Context())
	f := &faulty{size: 1, next: func(call, _ int, _ int64) (int, error) {
		if call == 50 {
			cancel(boom)
		}
		return 0, syscall.EINTR
	}}
	require.ErrorIs(t, ioactor.ReadFull(ctx, f, make([]byte, 1), 0), boom)
	require.Equal(t, 50, f.calls)
}

// The backend reads through files of the caller's, owns them, and does not use
// what came before an error.
func TestNewPread(t *testing.T) {
	broken := true
	bad := errors.New("bad close")
	files := []*faulty{
		{size: 100, next: func(_, n int, _ int64) (int, error) { return min(n, 7), nil }},
		{size: 100, closed: bad, next: func(_, n int, _ int64) (int, error) {
			if broken {
				return 0, syscall.EIO
			}
			return n, nil
		}},
	}
	p := ioactor.NewPread([]ioactor.File{files[0], files[1]})
	r, err := ring.New(1, 2*ioactor.Align, 0)
	require.NoError(t, err)
	defer r.Close()
	s, err := r.Acquire(t.Context(), nil)
	require.NoError(t, err)
	defer s.Free()
	b := &ioactor.Block{Name: "layer 0", Extents: []ioactor.Extent{{File: 0, Off: 10, Size: 30}, {File: 1, Off: 20, Size: 5}}}
	require.ErrorIs(t, p.Load(t.Context(), b, s), syscall.EIO)
	broken = false
	require.NoError(t, p.Load(t.Context(), b, s))
	require.Len(t, s.Parts, 2)
	for i, e := range b.Extents {
		require.Len(t, s.Parts[i], int(e.Size))
		for j, got := range s.Parts[i] {
			require.Equal(t, pattern(e.Off+int64(j)), got)
		}
	}
	require.ErrorIs(t, p.Close(), bad)
	require.Equal(t, 1, files[0].closes)
	require.Equal(t, 1, files[1].closes)
}

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	a := filepath.Join(dir, "a")
	require.NoError(t, os.WriteFile(a, []byte("abc"), 0o600))
	files, err := ioactor.OpenFiles([]string{a, a})
	require.NoError(t, err)
	p := make([]byte, 2)
	require.NoError(t, ioactor.ReadFull(t.Context(), files[1], p, 1))
	require.Equal(t, "bc", string(p))
	require.ErrorContains(t, ioactor.ReadFull(t.Context(), files[1], p, 2), a)
	require.NoError(t, ioactor.CloseFiles(files))
	require.ErrorIs(t, ioactor.CloseFiles(files), os.ErrClosed)

	files, err = ioactor.OpenFiles(nil)
	require.NoError(t, err)
	require.NoError(t, ioactor.CloseFiles(files))
}
