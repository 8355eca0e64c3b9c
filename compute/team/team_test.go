package team_test

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/compute/team"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRunCoversEveryIndexOnce(t *testing.T) {
	for _, size := range []int{1, 2, 3, 8} {
		t.Run(fmt.Sprintf("size %d", size), func(t *testing.T) {
			tm := team.New(size)
			defer tm.Close()
			require.Equal(t, size, tm.Size())
			hits := make([]uint8, 5000)
			for _, n := range []int{-1, 0, 1, 2, 7, 8, 63, 64, 65, 1000, 4096, 5000} {
				for _, grain := range []int{1, 2, 8, 32, 1000, 1 << 40} {
					clear(hits)
					var bad atomic.Int32
					tm.Run(n, grain, func(worker, lo, hi int) {
						if worker < 0 || worker >= size || lo%grain != 0 || hi != n && (hi-lo)%grain != 0 || lo >= hi {
							bad.Add(1)
						}
						for i := lo; i < hi; i++ {
							hits[i]++ // unsynchronized: the race detector sees an index that two get
						}
					})
					require.Zero(t, bad.Load(), "n %d grain %d", n, grain)
					for i, h := range hits {
						want := uint8(0)
						if i < n {
							want = 1
						}
						if h != want {
							t.Fatalf("n %d grain %d: index %d was given out %d times", n, grain, i, h)
						}
					}
				}
			}
		})
	}
}

// Every run must see what the caller wrote before it, and the caller what every
// run wrote, with workers that spin, sleep, are parked, or have no processor.
func TestManyRuns(t *testing.T) {
	for _, c := range []struct {
		name  string
		procs int
		size  int
		park  int // park before every park-th run
	}{
		{"a processor each", 2, 2, 0},
		{"parked before every run", 2, 2, 1},
		{"parked at times", 4, 4, 7},
		{"one processor", 1, 3, 0},
		{"fewer processors than members", 2, 6, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(c.procs))
			tm := team.New(c.size)
			defer tm.Close()
			x := make([]int, 300)
			add := 0
			f := func(_, lo, hi int) {
				for i := lo; i < hi; i++ {
					x[i] += add
				}
			}
			want := 0
			for run := range 2000 {
				if c.park > 0 && run%c.park == 0 {
					tm.Park()
				}
				if run%500 == 0 {
					runtime.GC()
				}
				add = run
				want += run
				tm.Run(len(x), 1+run%5, f)
				if x[0] != want || x[len(x)-1] != want || x[run%len(x)] != want {
					t.Fatalf("run %d was not whole when Run returned", run)
				}
			}
		})
	}
}

// Two pieces that wait for each other end only if two members work at once.
func TestMembersWorkAtTheSameTime(t *testing.T) {
	tm := team.New(2)
	defer tm.Close()
	for _, park := range []bool{false, true} {
		if park {
			tm.Park()
		}
		met := make(chan struct{})
		var seen [2]atomic.Bool
		tm.Run(2, 1, func(worker, lo, _ int) {
			seen[worker].Store(true)
			if lo == 0 {
				met <- struct{}{}
			} else {
				<-met
			}
		})
		require.True(t, seen[0].Load() && seen[1].Load())
	}
}

// A worker that is held up keeps its piece and nothing else.
func TestRestIsDoneWithoutALateWorker(t *testing.T) {
	tm := team.New(2)
	defer tm.Close()
	started, others := make(chan struct{}), make(chan struct{})
	var left atomic.Int32
	left.Store(100)
	var held atomic.Bool
	tm.Run(100, 1, func(worker, lo, hi int) {
		switch {
		case worker == 1 && held.CompareAndSwap(false, true):
			close(started)
			<-others
		case worker == 0:
			<-started
		}
		if left.Add(int32(lo-hi)) <= 25 && held.Load() && worker == 0 {
			select {
			case <-others:
			default:
				close(others)
			}
		}
	})
	require.Zero(t, left.Load())
}

func TestTeamOfOneRunsInline(t *testing.T) {
	before := runtime.NumGoroutine()
	tm := team.New(1)
	require.LessOrEqual(t, runtime.NumGoroutine(), before) // one of an earlier test may be ending
	calls := 0
	tm.Run(10, 3, func(worker, lo, hi int) {
		calls++
		require.Equal(t, [3]int{0, 0, 10}, [3]int{worker, lo, hi})
	})
	require.Equal(t, 1, calls)
	tm.Park()
	tm.Close()
}

func TestMisuse(t *testing.T) {
	tm := team.New(2)
	f := func(_, _, _ int) {}
	require.Panics(t, func() { team.New(0) })
	require.Panics(t, func() { tm.Run(1, 0, f) })
	tm.Park()
	tm.Close()
	tm.Close()
	require.Panics(t, func() { tm.Run(1, 1, f) })
}

func TestRunAllocatesNothing(t *testing.T) {
	tm := team.New(2)
	defer tm.Close()
	var sum atomic.Int64
	f := func(_, lo, hi int) { sum.Add(int64(hi - lo)) }
	require.Zero(t, testing.AllocsPerRun(500, func() { tm.Run(1000, 8, f) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { tm.Park(); tm.Run(1000, 8, f) }))
}

// busy does about d of arithmetic for every call of the function that it returns.
func busy(d time.Duration) func() {
	work := func(n int) float64 {
		x := 1.0
		for range n {
			x = x*0.999 + 0.5
		}
		return x
	}
	const trial = 1 << 20
	start := time.Now()
	keep := work(trial)
	n := int(trial * d / max(1, time.Since(start)))
	var sink atomic.Int64
	sink.Store(int64(keep))
	return func() {
		if work(n) < 0 {
			sink.Add(1)
		}
	}
}

// What a product on two members costs beside the same work in a plain loop. It
// decides whether a team is worth having for the smaller matrices: with 20 µs
// of work the two should take not much more than 10 µs.
func BenchmarkRun(b *testing.B) {
	const rows = 128
	for _, work := range []time.Duration{0, 20 * time.Microsecond, 200 * time.Microsecond} {
		row := busy(work / rows)
		f := func(_, lo, hi int) {
			for range hi - lo {
				row()
			}
		}
		b.Run(fmt.Sprintf("work=%v/loop", work), func(b *testing.B) {
			for b.Loop() {
				f(0, 0, rows)
			}
		})
		for _, park := range []bool{false, true} {
			b.Run(fmt.Sprintf("work=%v/team=2/parked=%t", work, park), func(b *testing.B) {
				tm := team.New(2)
				defer tm.Close()
				for b.Loop() {
					if park {
						tm.Park()
					}
					tm.Run(rows, 4, f)
				}
			})
		}
	}
}
