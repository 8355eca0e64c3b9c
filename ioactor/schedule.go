package ioactor

// A Demand names the block that is wanted instead of the next in order.
type Demand struct {
	Block int
	After uint64 // the last load that has arrived: what was issued later is still to come
}

// A Schedule decides which block is loaded next: the blocks in cyclic order,
// without those that are loaded only once and have been. It is a value without
// goroutines or I/O.
type Schedule struct {
	once   []bool // by block: it is issued a single time
	done   []bool // by block: it is one of those, and has been
	left   int    // how many are not done
	next   int    // the block to issue unless it is done
	issued []load // the latest loads, as many as can be under way
	at     int    // where in issued the next goes: the oldest
	seq    uint64 // of the latest load
}

type load struct {
	block int
	seq   uint64
}

// NewSchedule returns the schedule of the blocks 0 to n-1. Those for which
// once reports true are issued a single time, because they stay in memory.
// depth, at least 1, is how many loads can be under way at a time.
func NewSchedule(n, depth int, once func(block int) bool) *Schedule {
	s := &Schedule{once: make([]bool, n), done: make([]bool, n), left: n, issued: make([]load, depth)}
	for i := range n {
		s.once[i] = once(i)
	}
	return s
}

// Next issues the next load. ok is false when nothing is left to load, ever.
func (s *Schedule) Next() (block int, seq uint64, ok bool) {
	if s.left == 0 {
		return 0, 0, false
	}
	for s.done[s.next] {
		s.step()
	}
	block = s.next
	s.step()
	if s.once[block] {
		s.done[block] = true
		s.left--
	}
	s.seq++
	s.issued[s.at] = load{block, s.seq}
	s.at = (s.at + 1) % len(s.issued)
	return block, s.seq, true
}

func (s *Schedule) step() { s.next = (s.next + 1) % len(s.done) }

// Demand makes d's block, which must be one of the schedule's, the next, unless
// a load of it is still under way: it is then waited for and not read twice. The
// order goes on behind it. A block that is loaded once and has been is not
// loaded again: who asked for it keeps it.
func (s *Schedule) Demand(d Demand) {
	for _, l := range s.issued {
		if l.block == d.Block && l.seq > d.After {
			return
		}
	}
	if !s.done[d.Block] {
		s.next = d.Block
	}
}
