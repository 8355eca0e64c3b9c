// Package team divides the rows of a product among a few goroutines that stay.
//
// A pass through a model makes some 200 products of some 100 µs. Starting
// goroutines for each, or waking them by a channel, costs as much as the second
// core brings. The workers of a [Team] therefore wait for the next product by
// spinning, for about a millisecond, and only then sleep. [Team.Park] sends them
// to sleep at once, when the caller knows that it is about to wait itself.
//
// Rows are handed out in pieces that grow smaller towards the end, and a worker
// that is late, asleep, or without a core is not waited for, unless it holds a
// piece. So a core that is taken away costs one piece, not a share.
//
// Goroutines that must run beside a team, such as a reader that sends off its
// next read, need hardly any time on a core, but one of Go's processors at once.
// GOMAXPROCS should therefore be the team's size and one. Without the one, they
// wait until the scheduler interrupts a member: a reader that made 1,500 reads a
// second alone made 500 beside a busy team of two, and 1,300 with the one. With
// GOMAXPROCS below the team's size, no member spins.
package team

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// idleSpin is how long a worker spins after its last piece: longer than what
	// a pass does between products on one core, shorter than a wait for storage.
	idleSpin = time.Millisecond
	// endSpin is how long Run spins for a worker's last piece. A piece takes less,
	// if its worker has a core; if not, that core may be the one Run spins on.
	endSpin = 100 * time.Microsecond
	// pausesPerLook is some 1 to 4 µs: about what a look at the clock may cost.
	pausesPerLook = 64
	// pieces is into how many pieces a member's fair share of the rows that are
	// left is divided.
	pieces = 2
)

// The state of a team is one word, so that joining a run and ending it cannot
// cross.
const (
	activeMask = 1<<16 - 1 // how many workers are in the run
	open       = 1 << 16   // workers may join the run
	quiet      = 1 << 17   // idle workers sleep instead of spinning
	closed     = 1 << 18   // workers end
	runShift   = 32        // above: the number of the run
)

// A Team is a caller and its workers. Its methods are for one goroutine at a
// time.
type Team struct {
	state   atomic.Uint64
	_       [56]byte // the words that all members write have a cache line each
	next    atomic.Int64
	_       [56]byte
	waiting atomic.Bool   // Run sleeps until done
	done    chan struct{} // capacity 1: a worker that leaves last wakes Run
	workers []*worker
	ended   sync.WaitGroup

	// The run. Written while no worker is in one.
	f        func(worker, lo, hi int)
	n, grain int
}

type worker struct {
	id     int
	asleep atomic.Bool   // whoever sets it to false owes, or saves, one wake
	wake   chan struct{} // capacity 1
	_      [64]byte
}

// New returns a team of n >= 1: the goroutine that calls Run, and n-1 workers
// that are started now and end in [Team.Close].
func New(n int) *Team {
	if n < 1 || n > activeMask {
		panic("team: size out of range")
	}
	t := &Team{done: make(chan struct{}, 1)}
	for id := 1; id < n; id++ {
		t.workers = append(t.workers, &worker{id: id, wake: make(chan struct{}, 1)})
	}
	for _, w := range t.workers {
		t.ended.Go(func() { t.work(w) })
	}
	return t
}

// Size returns the number of members, the caller included.
func (t *Team) Size() int { return len(t.workers) + 1 }

// Run calls f(worker, lo, hi) for consecutive ranges that cover [0, n), each a
// multiple of grain long but the last, and returns when all calls have. Calls
// run at the same time on different members; worker is the member's number,
// from 0, the caller, to Size()-1, so that each may have scratch of its own.
// Which member gets which range, and how many it gets, differs from run to run.
//
// What happened before Run is seen by f, and what f did is seen after Run. Run
// allocates nothing, but a func literal that captures variables does where it
// is evaluated: make it once and keep it. A panic in f ends the program, or
// unwinds the caller past a team that is then unusable.
func (t *Team) Run(n, grain int, f func(worker, lo, hi int)) {
	if grain < 1 {
		panic("team: grain below 1")
	}
	s := t.state.Load()
	if s&(open|closed) != 0 {
		panic("team: Run in a Run or after Close")
	}
	if n <= 0 {
		return
	}
	if n <= grain || len(t.workers) == 0 {
		f(0, 0, n)
		return
	}
	t.f, t.n, t.grain = f, n, grain
	t.next.Store(0)
	t.state.Store((s>>runShift+1)<<runShift | open)
	for _, w := range t.workers {
		w.rouse()
	}
	t.share(0)
	// All rows are given out. From here on nobody joins, and who is in has at
	// most one piece to finish.
	if s = t.state.And(^uint64(open)); s&activeMask != 0 {
		t.awaitWorkers()
	}
	t.f = nil
}

// Park tells the workers to stop spinning now. It is for when the caller is
// about to wait for something else, such as storage, that wants the cores. The
// next Run wakes the workers, which takes some tens of microseconds.
func (t *Team) Park() { t.state.Or(quiet) }

// Close ends the workers and returns when they have ended. Closing again does
// nothing; Run after Close panics.
func (t *Team) Close() {
	t.state.Or(closed)
	for _, w := range t.workers {
		w.rouse()
	}
	t.ended.Wait()
}

// share works on pieces of the run until there are none.
func (t *Team) share(id int) {
	for {
		lo := t.next.Load()
		left := int64(t.n) - lo
		if left <= 0 {
			return
		}
		grain := int64(t.grain)
		piece := left / int64(pieces*t.Size())
		piece = min(max(piece-piece%grain, grain), left)
		if t.next.CompareAndSwap(lo, lo+piece) {
			t.f(id, int(lo), int(lo+piece))
		}
	}
}

// awaitWorkers returns when no worker is in the run.
func (t *Team) awaitWorkers() {
	gone := func(s uint64) bool { return s&activeMask == 0 }
	if _, ok := t.spin(endSpin, 0, gone); ok {
		return
	}
	for {
		t.waiting.Store(true)
		if gone(t.state.Load()) && t.waiting.CompareAndSwap(true, false) {
			return
		}
		// Whoever took waiting back sends. It may be one that left an earlier run
		// and was held up before it looked: so look again.
		<-t.done
		if gone(t.state.Load()) {
			return
		}
	}
}

// work is the life of a worker.
func (t *Team) work(w *worker) {
	for last := uint64(0); ; {
		s := t.await(w, last)
		switch {
		case s&closed != 0:
			return
		case s&open == 0:
			last = s >> runShift // over before this worker came
		case t.state.CompareAndSwap(s, s+1):
			last = s >> runShift
			t.share(w.id)
			if t.state.Add(^uint64(0))&activeMask == 0 && t.waiting.CompareAndSwap(true, false) {
				t.done <- struct{}{}
			}
		}
	}
}

// await returns the state when it shows another run than the last, or the end.
func (t *Team) await(w *worker, last uint64) uint64 {
	isNew := func(s uint64) bool { return s>>runShift != last || s&closed != 0 }
	if s, ok := t.spin(idleSpin, quiet, isNew); ok {
		return s
	}
	for {
		w.asleep.Store(true)
		// A run that was opened before that did not see it. If one saw it and took
		// it back, its wake is on the way.
		if s := t.state.Load(); isNew(s) && w.asleep.CompareAndSwap(true, false) {
			return s
		}
		<-w.wake
		if s := t.state.Load(); isNew(s) {
			return s
		}
	}
}

// spin waits for a state that fits, up to limit, or until the state has one of
// the bits of stop.
func (t *Team) spin(limit time.Duration, stop uint64, fits func(uint64) bool) (uint64, bool) {
	// Without a processor for each member, the one that spins may hold the
	// processor that the one that it waits for needs.
	if runtime.GOMAXPROCS(0) < t.Size() {
		return 0, false
	}
	for start := time.Now(); time.Since(start) < limit; {
		for range pausesPerLook {
			s := t.state.Load()
			if fits(s) {
				return s, true
			}
			if s&stop != 0 {
				return s, false
			}
			pause()
		}
		yield()
	}
	return 0, false
}

// rouse wakes the worker if it sleeps.
func (w *worker) rouse() {
	if w.asleep.Load() && w.asleep.CompareAndSwap(true, false) {
		w.wake <- struct{}{}
	}
}
