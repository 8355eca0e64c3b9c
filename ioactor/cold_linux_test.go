package ioactor_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
	"github.com/layerpipe/layerpipe/ring"
)

// BenchmarkCold reads blocks that are not in the page cache, as a model larger
// than memory is read. Devices change their speed from minute to minute, so
// every pass follows one by a bare loop of direct reads into huge pages: of-raw
// is the backend's speed over the loop's, by the medians. It decides the default
// chunk, and whether hints are worth having.
func BenchmarkCold(b *testing.B) {
	if testing.Short() {
		b.Skip("writes 1.2 GB")
	}
	const (
		block  = 64 << 20
		blocks = 19
	)
	path := filepath.Join(b.TempDir(), "model.gguf")
	f, err := os.Create(path)
	require.NoError(b, err)
	for range (blocks*block + len(patternBytes())) / len(patternBytes()) {
		_, err := f.Write(patternBytes())
		require.NoError(b, err)
	}
	require.NoError(b, f.Close())
	needDirect(b, path)
	dropCache(b, path)
	raw, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(b, err)
	defer raw.Close()
	m, err := ring.Alloc(block)
	require.NoError(b, err)
	defer m.Free()
	// rawPass reads all blocks, in the largest requests that one read makes.
	rawPass := func() time.Duration {
		const chunk = 16 << 20
		start := time.Now()
		for at := 0; at < blocks*block; at += chunk {
			if got, err := unix.Pread(int(raw.Fd()), m.Bytes()[at%block:][:chunk], int64(at)); err != nil || got != chunk {
				b.Fatal(got, err)
			}
		}
		return time.Since(start)
	}
	rawPass()

	direct := func(chunk int64) readertest.Opener { return openDirect(ioactor.DirectOptions{Chunk: chunk}) }
	faulty := func(f ioactor.DirectFaults) readertest.Opener {
		return func(paths []string) (ioactor.Backend, error) {
			return backend(ioactor.OpenFaultyDirect(paths, ioactor.DirectOptions{}, f))
		}
	}
	for _, c := range []struct {
		name     string
		open     readertest.Opener
		ordinary bool // pages
	}{
		{name: "direct", open: direct(0)},
		{name: "direct/1 MiB", open: direct(1 << 20)},
		{name: "direct/4 MiB", open: direct(4 << 20)},
		{name: "direct/8 MiB", open: direct(8 << 20)},
		{name: "direct/ordinary pages", open: direct(0), ordinary: true},
		{name: "refused/uncached", open: faulty(ioactor.DirectFaults{AtOpen: unix.EINVAL})},
		{name: "refused/dropping", open: faulty(ioactor.DirectFaults{AtOpen: unix.EINVAL, Uncached: unix.EOPNOTSUPP})},
		{name: "pread/none", open: openPread(ioactor.HintNone)},
		{name: "pread/fadvise", open: openPread(ioactor.HintFadvise)},
		{name: "pread/willneed", open: openPread(ioactor.HintWillNeed)},
		{name: "mmap/none", open: openMmap(ioactor.HintNone)},
		{name: "mmap/fadvise", open: openMmap(ioactor.HintFadvise)},
		{name: "mmap/willneed", open: openMmap(ioactor.HintWillNeed)},
		{name: "view", open: openView},
	} {
		b.Run(c.name, func(b *testing.B) {
			backend, err := c.open([]string{path})
			require.NoError(b, err)
			defer backend.Close()
			load := ioactor.Block{Name: "layer", Extents: []ioactor.Extent{{Off: 32, Size: block - 4096}}}
			s := slotFor(b, load.Extents)
			if c.ordinary {
				require.NoError(b, unix.Madvise(s.Load()[:len(s.Load())/4096*4096], unix.MADV_NOHUGEPAGE))
			}
			for i := 0; i < len(s.Load()); i += 4096 {
				s.Load()[i] = 1
			}
			var ours, theirs []time.Duration
			for b.Loop() {
				b.StopTimer()
				theirs = append(theirs, rawPass())
				dropCache(b, path)
				b.StartTimer()
				start := time.Now()
				for n := range blocks {
					load.Extents[0].Off = int64(n*block + 32) // tensors are aligned to 32 bytes
					if err := backend.Load(b.Context(), &load, s); err != nil {
						b.Fatal(err)
					}
				}
				ours = append(ours, time.Since(start))
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			median := ours[len(ours)/2].Seconds()
			b.ReportMetric(blocks*block/median/1e9, "GB/s")
			b.ReportMetric(theirs[len(theirs)/2].Seconds()/median, "of-raw")
			b.ReportMetric(0, "ns/op")
			if d, ok := backend.(*ioactor.Direct); ok && c.name[:6] == "direct" && d.Note() != "" {
				b.Fatal(d.Note())
			}
		})
	}
}
