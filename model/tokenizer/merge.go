package tokenizer

import "slices"

// maxPiece is the most bytes that are merged at once: offsets are 32 bits, so
// that the heap of a long text stays small. No piece of real text is as long.
const maxPiece = 1 << 30

// A symbol is what merging has built of a piece so far: piece[start:end].
type symbol struct {
	id         int32 // its token, or none
	start, end int32
	prev, next int32 // neighbours, -1 at the ends; next is merged for a symbol that is gone
}

const merged = -2

// A candidate is a pair of neighbours that can become one token.
type candidate struct {
	order uint64 // rank, then place of the left one: the least is merged first
	id    int32  // of the token
	end   int32  // of the right one; if it has another now, the candidate is stale
}

// A merger joins neighbouring symbols, the pair of the lowest rank first and
// of equal ranks the leftmost, until no pair is left that makes a token. With
// n symbols it takes O(n log n) steps. Its memory is kept from one piece to
// the next.
type merger struct {
	symbols []symbol
	queue   []candidate // a heap, the least order first

	// join returns the token that two neighbours make, and its rank; none if
	// they make none.
	join func(left, right *symbol) (rank, id int32)
}

// reset makes room for a piece of n bytes.
func (m *merger) reset(n int) {
	m.symbols = slices.Grow(m.symbols[:0], n)
	m.queue = slices.Grow(m.queue[:0], n)
}

// add appends the symbol piece[start:end].
func (m *merger) add(id int32, start, end int) {
	n := int32(len(m.symbols))
	if n > 0 {
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, symbol{id, int32(start), int32(end), n - 1, -1})
}

// run merges the symbols. What is left is the list that starts at symbol 0.
func (m *merger) run() {
	for i := 1; i < len(m.symbols); i++ {
		m.propose(int32(i-1), int32(i))
	}
	for len(m.queue) > 0 {
		c := m.pop()
		at := int32(uint32(c.order))
		left := &m.symbols[at]
		// Symbols grow only over the one after them, so if the next one ends
		// where it did, both are what they were.
		if left.next < 0 || m.symbols[left.next].end != c.end {
			continue
		}
		right := &m.symbols[left.next]
		left.id, left.end, left.next = c.id, right.end, right.next
		right.next = merged
		if left.next >= 0 {
			m.symbols[left.next].prev = at
			m.propose(at, left.next)
		}
		if left.prev >= 0 {
			m.propose(left.prev, at)
		}
	}
}

func (m *merger) propose(left, right int32) {
	r := &m.symbols[right]
	if rank, id := m.join(&m.symbols[left], r); id != none {
		m.push(candidate{uint64(rank)<<32 | uint64(left), id, r.end})
	}
}

func (m *merger) push(c candidate) {
	q := append(m.queue, c)
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if q[parent].order <= c.order {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = c
	m.queue = q
}

func (m *merger) pop() candidate {
	n := len(m.queue) - 1
	top, c, q := m.queue[0], m.queue[n], m.queue[:n]
	i := 0
	for {
		child := 2*i + 1
		if child >= n {
			break
		}
		if child+1 < n && q[child+1].order < q[child].order {
			child++
		}
		if q[child].order >= c.order {
			break
		}
		q[i] = q[child]
		i = child
	}
	if n > 0 {
		q[i] = c
	}
	m.queue = q
	return top
}
