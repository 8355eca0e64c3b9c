package ioactor_test

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

// quick bounds a probe by bytes, so that no test waits for a clock.
var quick = ioactor.ProbeOptions{Time: time.Hour, Bytes: 24 << 20}

func TestProbe(t *testing.T) {
	path := writePattern(t, 32<<20)
	needDevice(t, path)
	dropCache(t, path)
	r, err := ioactor.Probe(t.Context(), path, quick)
	require.NoError(t, err)
	require.Positive(t, r.BytesPerSecond)
	require.Positive(t, r.Chunk)
	require.Positive(t, r.InFlight)
	require.Positive(t, r.Time)
	require.Positive(t, r.Bytes)
	require.LessOrEqual(t, r.Bytes, quick.Bytes)
	require.True(t, r.Device)
	require.Empty(t, r.Reason)
	require.Less(t, cached(t, path), int64(4<<20), "it fills the page cache")
	_, err = ioactor.OpenDirect([]string{path}, ioactor.DirectOptions{Chunk: r.Chunk})
	require.NoError(t, err)
}

// needDevice skips the test where direct reads are not counted as a device's: file
// systems of networks, and of hosts of virtual machines.
func needDevice(t *testing.T, path string) {
	needDirect(t, path)
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	defer f.Close()
	m, err := ring.Alloc(64 << 10)
	require.NoError(t, err)
	defer m.Free()
	runtime.LockOSThread() // reads are counted by thread
	defer runtime.UnlockOSThread()
	before, _ := ioactor.StorageReads()
	_, err = unix.Pread(int(f.Fd()), m.Bytes(), 0)
	require.NoError(t, err)
	if after, _ := ioactor.StorageReads(); after == before {
		t.Skipf("direct reads of files in %s are not counted as a device's", filepath.Dir(path))
	}
}

// A probe that does not measure the device says what it measured.
func TestProbeNotTheDevice(t *testing.T) {
	onDisk := writePattern(t, 32<<20)
	needDirect(t, onDisk)
	for _, tc := range []struct {
		name string
		f    ioactor.DirectFaults
		want string
	}{
		{"refused at open", ioactor.DirectFaults{AtOpen: unix.EINVAL, Uncached: unix.EOPNOTSUPP}, "(at open): it is read through the page cache, which takes longer, where most of it was already"},
		{"refused at the first read", ioactor.DirectFaults{AtRead: unix.EINVAL}, "(at the first read)"},
		{"a file system that takes direct reads and caches", ioactor.DirectFaults{Pread: func(p []byte, _ int64, _ func([]byte, int64) (int, error)) (int, error) {
			return len(p), nil
		}}, "0% of the bytes came from storage"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, err := os.ReadFile(onDisk) // into the page cache
			require.NoError(t, err)
			require.NotEmpty(t, f)
			r, err := ioactor.ProbeFaulty(t.Context(), onDisk, quick, tc.f)
			require.NoError(t, err)
			require.False(t, r.Device)
			require.Contains(t, r.Reason, tc.want)
			require.Positive(t, r.BytesPerSecond)
		})
	}
	t.Run("tmpfs", func(t *testing.T) {
		var st unix.Statfs_t
		if unix.Statfs("/dev/shm", &st) != nil || st.Type != unix.TMPFS_MAGIC {
			t.Skip("no tmpfs at /dev/shm")
		}
		f, err := os.CreateTemp("/dev/shm", "layerpipe-test-")
		require.NoError(t, err)
		defer os.Remove(f.Name())
		_, err = f.Write(patternBytes())
		require.NoError(t, err)
		require.NoError(t, f.Close())
		r, err := ioactor.Probe(t.Context(), f.Name(), quick)
		require.NoError(t, err)
		require.False(t, r.Device)
		require.Contains(t, r.Reason, "in memory (tmpfs)")
	})
}

// Every region is read at most once, whole pages, and all within the bounds.
func TestProbeReads(t *testing.T) {
	for _, size := range []int{1, 4096, 100_000, 1 << 20, 32<<20 - 5} {
		path := writePattern(t, size)
		var mu sync.Mutex
		seen := map[int64]int{}
		var bytes int64
		_, err := ioactor.ProbeFaulty(t.Context(), path, quick, ioactor.DirectFaults{Pread: func(p []byte, off int64, _ func([]byte, int64) (int, error)) (int, error) {
			mu.Lock()
			defer mu.Unlock()
			for at := off; at < off+int64(len(p)); at += 4096 {
				seen[at]++
			}
			bytes += int64(len(p))
			return len(p), nil
		}})
		require.NoError(t, err)
		require.LessOrEqual(t, bytes, quick.Bytes+4096)
		again := 0
		for at, n := range seen {
			require.Less(t, at, int64(size))
			if n > 1 {
				again++
			}
		}
		if size > 100_000 {
			require.Zero(t, again)
		}
		require.NotEmpty(t, seen)
	}
}

func TestProbeErrors(t *testing.T) {
	dir := t.TempDir()
	absent, empty := filepath.Join(dir, "absent"), filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err := ioactor.Probe(t.Context(), absent, quick)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "probe: ")
	_, err = ioactor.Probe(t.Context(), empty, quick)
	require.ErrorContains(t, err, empty)

	path := writePattern(t, 32<<20)
	boom := errors.New("boom")
	for at := range 6 {
		var calls atomic.Int64
		eio := ioactor.DirectFaults{Pread: func(p []byte, _ int64, _ func([]byte, int64) (int, error)) (int, error) {
			if calls.Add(1) > int64(at) {
				return -1, syscall.EIO
			}
			return len(p), nil
		}}
		_, err := ioactor.ProbeFaulty(t.Context(), path, quick, eio)
		require.ErrorIs(t, err, syscall.EIO)
		require.ErrorContains(t, err, path)

		ctx, cancel := context.WithCancelCause(t.Context())
		calls.Store(0)
		_, err = ioactor.ProbeFaulty(ctx, path, quick, ioactor.DirectFaults{Pread: func(p []byte, _ int64, _ func([]byte, int64) (int, error)) (int, error) {
			if calls.Add(1) > int64(at) {
				cancel(boom)
			}
			return len(p), nil
		}})
		require.Equal(t, boom, err)
		cancel(nil)
	}
}

// A quota that is handed out in steps is seen as what it lasts to.
func TestProbeSlope(t *testing.T) {
	const perSecond, step, read = 500e6, 0.1, 16e6
	for _, pause := range []float64{0, 0.03, 0.09} {
		var seconds, bytes []float64
		left, now := perSecond*step-read, pause
		for now < 0.7 {
			if left < 0 {
				now = float64(int(now/step)+1) * step
				left += perSecond * step
			}
			left -= read
			now += 0.002
			seconds, bytes = append(seconds, now), append(bytes, read)
		}
		require.InEpsilon(t, perSecond, ioactor.SlopeOf(seconds, bytes), 0.15)
	}
}

func TestProbePrefers(t *testing.T) {
	noisy := func(speed float64) []float64 {
		random := rand.New(rand.NewPCG(1, 2))
		var v []float64
		for range 11 {
			v = append(v, speed*(1+0.02*random.Float64()))
		}
		return append(v, speed/20, speed/10) // waited for a quota
	}
	for _, tc := range []struct {
		name   string
		speeds [][]float64
		want   int
	}{
		{"all the same", [][]float64{noisy(1e9), noisy(1e9), noisy(1e9)}, 0},
		{"a little faster", [][]float64{noisy(1e9), noisy(1.02e9), noisy(1e9)}, 0},
		{"clearly faster", [][]float64{noisy(1e9), noisy(1.01e9), noisy(2e9)}, 2},
		{"the first that is about as fast as the best", [][]float64{noisy(1e9), noisy(1.98e9), noisy(2e9)}, 1},
		{"only the first had its turn", [][]float64{{5}, nil, nil}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) { require.Equal(t, tc.want, ioactor.Prefer(tc.speeds)) })
	}
}
