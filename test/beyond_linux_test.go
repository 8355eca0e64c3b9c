package test

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/pipeline"
	"github.com/layerpipe/layerpipe/ring"
)

// BenchmarkBeyondMemory tells how fast a model is decoded that is larger than
// its memory: 4.08 GB in control groups of 75, 50 and 25 % of that, with the
// device as it is and, where that may be set, limited to a constant 500 MB/s.
//
// Decoding is judged by a bound that is measured in turns with it, in the same
// process: what is streamed for a token, at the rate of the best loop that only
// reads the same file directly, into huge pages. The device of a virtual machine
// can be several times slower a minute later, so each turn is compared with
// its own bound, and the median of the shares is reported.
func BenchmarkBeyondMemory(b *testing.B) {
	if testing.Short() {
		b.Skip("the model takes 4 GB")
	}
	path := benchModel(b, sevenB, "Q4_K_M")
	file, err := os.Stat(path)
	require.NoError(b, err)
	for _, limit := range []int64{0, 500e6} {
		device := "free"
		if limit > 0 {
			device = fmt.Sprintf("%dMBps", limit/1e6)
		}
		for _, percent := range []int64{75, 50, 25} {
			b.Run(fmt.Sprintf("device=%s/memory=%d%%", device, percent), func(b *testing.B) {
				c := beyondChild{Path: path, Ceiling: file.Size() * percent / 100, Turns: 8}
				c.Groups = append(c.Groups, controlGroup(b, c.Ceiling+rawBytes)) // the loop that only reads has room of its own
				if limit > 0 {
					c.Turns = 3 // there is no noise
					c.Groups = append(c.Groups, throttle(b, path, limit))
				}
				var all beyondReport
				for b.Loop() {
					r := c.run(b)
					all.Turns = append(all.Turns, r.Turns...)
					all.Streamed, all.Peak = r.Streamed, max(all.Peak, r.Peak)
				}
				b.ReportMetric(1/all.median(func(t beyondTurn) float64 { return t.Decode }), "tokens/s")
				b.ReportMetric(100*all.median(func(t beyondTurn) float64 { return t.Bound / t.Decode }), "%-of-bound")
				b.ReportMetric(100*all.least(func(t beyondTurn) float64 { return t.Bound / t.Decode }), "%-of-bound-least")
				b.ReportMetric(all.median(func(t beyondTurn) float64 { return float64(all.Streamed) / t.Bound / 1e9 }), "GB/s-device")
				b.ReportMetric(float64(all.Streamed)/1e9, "GB/token")
				b.ReportMetric(float64(c.Ceiling-all.Peak)/(1<<20), "MiB-below-limit")
				require.LessOrEqual(b, all.Peak, c.Ceiling)
			})
		}
	}
}

// A beyondChild is what a child process of the benchmark does: it joins the
// groups, opens the model and decodes, in turns with reading alone.
type beyondChild struct {
	Path    string
	Ceiling int64
	Turns   int
	Groups  []string
}

type beyondReport struct {
	Turns    []beyondTurn
	Streamed int64 // bytes for a token
	Peak     int64
}

// A beyondTurn is how many seconds a token took, and what is streamed for it with
// nothing but reads.
type beyondTurn struct{ Decode, Bound float64 }

func (r *beyondReport) all(of func(beyondTurn) float64) []float64 {
	var v []float64
	for _, t := range r.Turns {
		v = append(v, of(t))
	}
	return v
}

func (r *beyondReport) median(of func(beyondTurn) float64) float64 { return middle(r.all(of)) }

func (r *beyondReport) least(of func(beyondTurn) float64) float64 { return slices.Min(r.all(of)) }

const beyondChildEnv = "LAYERPIPE_TEST_BEYOND_CHILD"

func (c beyondChild) run(b *testing.B) (r beyondReport) {
	runChild(b, "TestBeyondChild", beyondChildEnv, c, &r)
	return r
}

// TestBeyondChild is no test by itself but what the benchmark's child processes
// run.
func TestBeyondChild(t *testing.T) {
	var c beyondChild
	childSpec(t, beyondChildEnv, &c)
	for _, group := range c.Groups {
		joinGroup(t, group)
	}
	runtime.GOMAXPROCS(benchThreads + 1) // as the command does
	raw := newRawLoop(t, c.Path)
	e, err := pipeline.Open(c.Path, pipeline.WithMemory(pipeline.MemoryBytes(c.Ceiling)), pipeline.WithThreads(benchThreads),
		pipeline.WithBackend(pipeline.Direct), pipeline.WithContext(4*c.Turns), pipeline.WithoutTokenizer())
	require.NoError(t, err)
	debug.SetMemoryLimit(e.Plan().GoBytes())
	s, err := e.NewSession(0)
	require.NoError(t, err)
	decode := func(tokens int) time.Duration {
		began := time.Now()
		for range tokens {
			_, err := s.Feed(t.Context(), benchTokens[:1], 1)
			require.NoError(t, err)
		}
		return time.Since(began)
	}
	decode(1) // what is pinned comes with the first pass
	r := beyondReport{Streamed: e.Plan().StreamedBytes}
	raw.choose(t)
	for range c.Turns {
		decode(1) // begins with slots that were filled while nobody decoded
		took := decode(2)
		r.Turns = append(r.Turns, beyondTurn{Decode: took.Seconds() / 2, Bound: float64(r.Streamed) / raw.rate(t, r.Streamed)})
	}
	s.Close()
	var stats pipeline.GenStats
	for _, err := range e.Generate(t.Context(), pipeline.GenConfig{Tokens: benchTokens[:1], MaxTokens: 1, Stats: &stats}) {
		require.NoError(t, err)
	}
	r.Peak = stats.PeakRSSBytes - rawBytes
	require.NoError(t, e.Close())
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(r))
}

// rawBytes is the memory that a rawLoop takes.
const rawBytes = 32 << 20

// A rawLoop reads a file directly and does nothing with it.
type rawLoop struct {
	fd       int
	size     int64
	off      int64
	buffer   []byte
	chunk    int64
	inFlight int
}

func newRawLoop(t *testing.T, path string) *rawLoop {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECT, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Close(fd)) })
	var st unix.Stat_t
	require.NoError(t, unix.Fstat(fd, &st))
	m, err := ring.Alloc(rawBytes)
	require.NoError(t, err)
	t.Cleanup(m.Free)
	return &rawLoop{fd: fd, size: st.Size, buffer: m.Bytes()}
}

// choose finds the best way to read, in turns.
func (l *rawLoop) choose(t *testing.T) {
	best := 0.0
	for range 2 {
		for _, way := range []rawLoop{
			{chunk: 32 << 20, inFlight: 1}, {chunk: 16 << 20, inFlight: 1}, {chunk: 16 << 20, inFlight: 2},
			{chunk: 4 << 20, inFlight: 1}, {chunk: 4 << 20, inFlight: 4}, {chunk: 1 << 20, inFlight: 4},
		} {
			try := *l
			try.chunk, try.inFlight = way.chunk, way.inFlight
			if rate := try.rate(t, 128<<20); rate > best {
				best, l.chunk, l.inFlight = rate, way.chunk, way.inFlight
			}
		}
	}
}

// rate reads so many bytes, on from where it stopped, and returns how many a
// second.
func (l *rawLoop) rate(t *testing.T, bytes int64) float64 {
	todo, errs := make(chan int64), make(chan error, l.inFlight)
	for i := range l.inFlight {
		at := int64(i) * l.chunk
		go func() {
			var err error
			for off := range todo {
				if _, readErr := unix.Pread(l.fd, l.buffer[at:at+l.chunk], off); readErr != nil {
					err = readErr
				}
			}
			errs <- err
		}()
	}
	began, n := time.Now(), int64(0)
	for ; n < bytes; n += l.chunk {
		if l.off+l.chunk > l.size {
			l.off = 0
		}
		todo <- l.off
		l.off += l.chunk
	}
	close(todo)
	for range l.inFlight {
		require.NoError(t, <-errs)
	}
	return float64(n) / time.Since(began).Seconds()
}

// throttle makes a control group that reads from the device of path at so many
// bytes a second, and returns the file that a process joins it by.
func throttle(b *testing.B, path string, bytesPerSecond int64) string {
	info, err := os.Stat(path)
	require.NoError(b, err)
	dev := uint64(info.Sys().(*syscall.Stat_t).Dev)
	device, rate := fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)), strconv.FormatInt(bytesPerSecond, 10)
	return makeGroup(b, "a device",
		limit{"/sys/fs/cgroup/blkio", "blkio.throttle.read_bps_device", device + " " + rate},
		limit{"/sys/fs/cgroup", "io.max", device + " rbps=" + rate})
}

var sevenB = parseShape("7b")
