package test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/model/synth"
	"github.com/layerpipe/layerpipe/pipeline"
)

const (
	benchThreads = 2
	benchPrompt  = 128
)

// BenchmarkDecode tells how fast one sequence goes on, token by token, when all
// weights are in memory: the bound is how fast memory is read.
func BenchmarkDecode(b *testing.B) {
	bench(b, func(b *testing.B, s *pipeline.Session) (tokens int) {
		feed(b, s, 32)
		return 1
	})
}

// BenchmarkPrefill tells how fast a prompt is computed: the bound is
// arithmetic.
func BenchmarkPrefill(b *testing.B) {
	bench(b, func(_ *testing.B, _ *pipeline.Session) (tokens int) { return benchPrompt })
}

// bench times passes over a model of the size of TinyLlama. start makes what the
// passes go on from and says how many tokens each computes.
//
// It reports the median, which says more than a mean on a machine that others
// use too, and for decoding the rate of a loop that only reads memory, before
// and after: the share of that rate is what decoding is to be judged by.
func bench(b *testing.B, start func(*testing.B, *pipeline.Session) (tokens int)) {
	if testing.Short() {
		b.Skip("the models take gigabytes")
	}
	for _, typ := range []synth.Type{"Q4_0", "Q8_0", "Q4_K_M"} {
		b.Run(string(typ), func(b *testing.B) {
			e, err := pipeline.Open(benchModel(b, benchShape, typ), pipeline.WithThreads(benchThreads), pipeline.WithContext(512),
				pipeline.WithPinned(benchShape.Layers+1))
			require.NoError(b, err)
			defer func() { require.NoError(b, e.Close()) }()
			var weights int64
			for _, block := range e.Model().Blocks {
				for _, t := range block.Tensors {
					weights += t.Size
				}
			}
			s, err := e.NewSession(0)
			require.NoError(b, err)
			defer s.Close()
			tokens := start(b, s)
			before := s.Len()
			feed(b, s, tokens) // now all weights are in memory, and scratch has its size
			read := readRate()

			var times []time.Duration
			var mem, memBefore runtime.MemStats
			runtime.ReadMemStats(&memBefore)
			for b.Loop() {
				s.Truncate(before)
				began := time.Now()
				feed(b, s, tokens)
				times = append(times, time.Since(began))
			}
			runtime.ReadMemStats(&mem)
			read = max(read, readRate())

			slices.Sort(times)
			median := times[len(times)/2].Seconds()
			rate := float64(weights) / median / 1e9
			b.ReportMetric(float64(tokens)/median, "tokens/s")
			b.ReportMetric(rate, "GB/s")
			if tokens == 1 {
				b.ReportMetric(read, "GB/s-read")
				b.ReportMetric(100*rate/read, "%-of-read")
			}
			b.ReportMetric(float64(mem.Mallocs-memBefore.Mallocs)/float64(tokens*len(times)), "allocs/token")
		})
	}
}

// feed computes n tokens and the logits behind the last.
func feed(b *testing.B, s *pipeline.Session, n int) {
	_, err := s.Feed(b.Context(), benchTokens[:n], 1)
	require.NoError(b, err)
}

var benchTokens = func() []int32 {
	ids := make([]int32, benchPrompt)
	for i := range ids {
		ids[i] = int32(300 + 97*i)
	}
	return ids
}()

var benchShape = parseShape("1b")

func parseShape(name string) synth.Shape {
	s, err := synth.ParseShape(name)
	if err != nil {
		panic(err)
	}
	return s
}

// benchModel returns a model of random weights. The file stays in the directory
// for temporary files, so that it is made once.
func benchModel(b *testing.B, shape synth.Shape, t synth.Type) string {
	c := synth.Config{Shape: shape, Type: t, Seed: 1}
	size, err := synth.Size(c)
	require.NoError(b, err)
	dir := filepath.Join(os.TempDir(), "layerpipe-bench")
	path := filepath.Join(dir, fmt.Sprintf("%d-%d-%d-%s.gguf", shape.Layers, shape.Dim, shape.Vocab, t))
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return path
	}
	require.NoError(b, os.MkdirAll(dir, 0o777))
	writeSynthetic(b, path+".part", c)
	require.NoError(b, os.Rename(path+".part", path))
	return path
}

var readSink [benchThreads]uint64

// readRate returns how many GB/s as many goroutines as the engine has threads
// read together, when they do nothing else: the best of a few tries, each over
// more than any cache holds.
func readRate() float64 {
	const each = 256 << 20
	var parts [benchThreads][]uint64
	for i := range parts {
		parts[i] = make([]uint64, each/8)
		for j := range parts[i] {
			parts[i][j] = uint64(j) // else all pages are the same one
		}
	}
	best := 0.0
	for range 5 {
		var wait sync.WaitGroup
		began := time.Now()
		for i, p := range parts {
			wait.Go(func() { readSink[i] = sum(p) })
		}
		wait.Wait()
		best = max(best, benchThreads*each/1e9/time.Since(began).Seconds())
	}
	return best
}

// sum is as fast as Go reads memory.
func sum(p []uint64) (s uint64) {
	for ; len(p) >= 8; p = p[8:] {
		v := (*[8]uint64)(p)
		s += v[0] ^ v[1] ^ v[2] ^ v[3] ^ v[4] ^ v[5] ^ v[6] ^ v[7]
	}
	return s
}
