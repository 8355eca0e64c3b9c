package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/ring"
)

// demoBlocks is the number of blocks of the demo model: eight layers and the head.
const demoBlocks = 9

// faultyFile does something else at one of the reads that all files count
// together.
type faultyFile struct {
	ioactor.File
	reads *atomic.Int64
	at    int64
	fault func(f ioactor.File, p []byte, off int64) (int, error)
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if f.reads.Add(1) == f.at {
		return f.fault(f.File, p, off)
	}
	return f.File.ReadAt(p, off)
}

func faultyBackend(at int64, fault func(ioactor.File, []byte, int64) (int, error)) pipeline.Backend {
	return pipeline.NewBackend("faulty", func(paths []string) (ioactor.Backend, error) {
		files, err := ioactor.OpenFiles(paths)
		if err != nil {
			return nil, err
		}
		reads := new(atomic.Int64)
		for i := range files {
			files[i] = &faultyFile{files[i], reads, at, fault}
		}
		return ioactor.NewPread(files), nil
	})
}

// A fault at the k-th read, for every k of two passes: an error that names the
// block, the file and the offset, or the same logits if the fault is one that
// passes. Never a hang, never other logits.
func TestFaults(t *testing.T) {
	tokens := []int32{1, 264, 30}
	want, err := cell{pipeline.Pread, 2, 2, 0, true}.logits(t.Context(), demoModel, tokens)
	require.NoError(t, err)
	for _, f := range []struct {
		name  string
		fault func(f ioactor.File, p []byte, off int64) (int, error)
		want  error // nil: the run succeeds
	}{
		{"short read", func(f ioactor.File, p []byte, off int64) (int, error) { return f.ReadAt(p[:len(p)/2], off) }, nil},
		{"EINTR", func(ioactor.File, []byte, int64) (int, error) { return 0, syscall.EINTR }, nil},
		{"EAGAIN after some bytes", func(f ioactor.File, p []byte, off int64) (int, error) {
			n, _ := f.ReadAt(p[:100], off)
			return n, syscall.EAGAIN
		}, nil},
		{"EIO", func(ioactor.File, []byte, int64) (int, error) { return 0, syscall.EIO }, syscall.EIO},
		{"EIO after some bytes", func(f ioactor.File, p []byte, off int64) (int, error) {
			n, _ := f.ReadAt(p[:100], off)
			return n, syscall.EIO
		}, syscall.EIO},
		{"end of file", func(ioactor.File, []byte, int64) (int, error) { return 0, io.EOF }, io.ErrUnexpectedEOF},
	} {
		t.Run(f.name, func(t *testing.T) {
			for _, buffers := range []int{1, 2, 3} {
				for at := int64(1); at <= 2*demoBlocks; at++ {
					c := cell{faultyBackend(at, f.fault), buffers, 2, 0, true}
					got, err := c.logits(t.Context(), demoModel, tokens)
					if f.want == nil {
						require.NoError(t, err)
						same(t, want, got, fmt.Sprint(c, " read ", at))
						continue
					}
					require.ErrorIs(t, err, f.want)
					var block *ioactor.BlockError
					require.ErrorAs(t, err, &block)
					require.Equal(t, int(at-1)%demoBlocks, block.Block)
					require.ErrorContains(t, err, block.Name)
					require.ErrorContains(t, err, demoModel+": byte ")
				}
			}
		})
	}
}

// After a failure the engine says so to whoever asks next, and at Close.
func TestFaultStays(t *testing.T) {
	e, err := pipeline.Open(demoModel, pipeline.WithBuffers(2), pipeline.WithBackend(faultyBackend(4, func(ioactor.File, []byte, int64) (int, error) { return 0, syscall.EIO })))
	require.NoError(t, err)
	s, err := e.NewSession(0)
	require.NoError(t, err)
	defer s.Close()
	for range 2 {
		_, err = s.Feed(t.Context(), []int32{1}, 1)
		require.ErrorIs(t, err, syscall.EIO)
		require.Zero(t, s.Len())
	}
	require.ErrorIs(t, e.Close(), syscall.EIO)
}

// blockingBackend blocks in the k-th load until it is told to stop.
type blockingBackend struct {
	ioactor.Backend
	loads, at int
	blocked   chan struct{}
}

func (b *blockingBackend) Load(ctx context.Context, block *ioactor.Block, s *ring.Slot) error {
	if b.loads++; b.loads == b.at {
		close(b.blocked)
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return b.Backend.Load(ctx, block, s)
}

// openBlocking opens the demo model with a backend whose load at blocks, and
// returns a channel that is closed when it does.
func openBlocking(t *testing.T, at int, options ...pipeline.Option) (*pipeline.Engine, <-chan struct{}) {
	blocked := make(chan struct{})
	backend := pipeline.NewBackend("blocking", func(paths []string) (ioactor.Backend, error) {
		under, err := ioactor.OpenPread(paths, ioactor.HintNone)
		return &blockingBackend{Backend: under, at: at, blocked: blocked}, err
	})
	options = append([]pipeline.Option{pipeline.WithBuffers(2), pipeline.WithBackend(backend)}, options...)
	e, err := pipeline.Open(demoModel, options...)
	require.NoError(t, err)
	return e, blocked
}

// A storage that hangs: a pass that is cancelled returns, and so does Close.
func TestBlockedReads(t *testing.T) {
	stop := errors.New("enough")
	for _, buffers := range []int{1, 2, 3} {
		for at := 1; at <= 2*demoBlocks; at++ {
			e, blocked := openBlocking(t, at, pipeline.WithBuffers(buffers))
			s, err := e.NewSession(0)
			require.NoError(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				<-blocked
				cancel(stop)
			}()
			for err == nil {
				_, err = s.Feed(ctx, []int32{1}, 1)
			}
			require.ErrorIs(t, err, stop)
			require.NoError(t, e.Close())
			s.Close()
		}
	}
}

// A file that becomes shorter after it was opened is an error that names it,
// with every backend, whatever is made of the weights; under a mapping it is no
// crash.
func TestTruncatedFile(t *testing.T) {
	whole, err := os.ReadFile(demoModel)
	require.NoError(t, err)
	for _, backend := range pipeline.Backends() {
		for name, options := range map[string][]pipeline.Option{
			"streamed": {pipeline.WithBuffers(2)}, "some pinned": {pipeline.WithPinned(3)},
			"expanded": {pipeline.WithBuffers(2), pipeline.WithFloat32()},
		} {
			for _, size := range []int{len(whole) - 1, len(whole) / 2, 0} {
				for _, passes := range []int{0, 1} { // before it is shortened
					t.Run(fmt.Sprintf("%v, %s, to %d after %d passes", backend, name, size, passes), func(t *testing.T) {
						path := filepath.Join(t.TempDir(), "model.gguf")
						require.NoError(t, os.WriteFile(path, whole, 0o600))
						e, err := pipeline.Open(path, append(options, pipeline.WithBackend(backend))...)
						require.NoError(t, err)
						s, err := e.NewSession(0)
						require.NoError(t, err)
						defer s.Close()
						for range passes {
							_, err = s.Feed(t.Context(), []int32{1}, 1)
							require.NoError(t, err)
						}
						require.NoError(t, os.Truncate(path, int64(size)))
						for err == nil && s.Len() < 10 {
							_, err = s.Feed(t.Context(), []int32{1}, 1)
						}
						if !errors.Is(err, ring.ErrFault) { // a view may be in use when it happens
							require.ErrorIs(t, err, io.ErrUnexpectedEOF)
						}
						require.ErrorContains(t, err, path)
						if err := e.Close(); err != nil { // it was no fault in compute, which fails a pass alone
							require.ErrorContains(t, err, path)
						}
					})
				}
			}
		}
	}
}
