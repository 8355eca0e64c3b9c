package tokenizer

// A symbol is what merging has built of a text so far: text[start:end].
// A symbol that was merged into the one before it is empty.
type symbol struct {
	id         int32 // its token, or none
	start, end int
	prev, next int // neighbours, -1 at the ends
}

// A candidate is a pair of neighbours that can become one token. It is stale
// once either has changed.
type candidate struct {
	rank, id    int32
	left, right int
	end         int // of right, when the candidate was made
}

// before says which of two candidates is merged first: the one of lower rank,
// and of equal ranks the leftmost.
func (a candidate) before(b candidate) bool {
	return a.rank < b.rank || a.rank == b.rank && a.left < b.left
}

// A merger joins neighbouring symbols, best pair first, until no pair is left
// that makes a token. With n symbols it takes O(n log n) steps. Its memory is
// kept from one text to the next.
type merger struct {
	symbols []symbol
	queue   []candidate // a heap ordered by before

	// join returns the token that two neighbours make, and its rank; none if
	// they make none.
	join func(left, right *symbol) (rank, id int32)
}

// add appends the symbol text[start:end].
func (m *merger) add(id int32, start, end int) {
	n := len(m.symbols)
	if n > 0 {
		m.symbols[n-1].next = n
	}
	m.symbols = append(m.symbols, symbol{id: id, start: start, end: end, prev: n - 1, next: -1})
}

// run merges the symbols. What is left is the list that starts at symbol 0.
func (m *merger) run() {
	m.queue = m.queue[:0]
	for i := 1; i < len(m.symbols); i++ {
		m.propose(i-1, i)
	}
	for len(m.queue) > 0 {
		c := m.pop()
		left, right := &m.symbols[c.left], &m.symbols[c.right]
		// A symbol grows only over the one after it, which is then empty.
		if left.end != right.start || right.end != c.end {
			continue
		}
		left.id, left.end, left.next = c.id, right.end, right.next
		right.end = right.start
		if left.next >= 0 {
			m.symbols[left.next].prev = c.left
			m.propose(c.left, left.next)
		}
		if left.prev >= 0 {
			m.propose(left.prev, c.left)
		}
	}
}

func (m *merger) propose(left, right int) {
	l, r := &m.symbols[left], &m.symbols[right]
	if rank, id := m.join(l, r); id != none {
		m.push(candidate{rank, id, left, right, r.end})
	}
}

func (m *merger) push(c candidate) {
	q := append(m.queue, c)
	i := len(q) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !c.before(q[parent]) {
			break
		}
		q[i] = q[parent]
		i = parent
	}
	q[i] = c
	m.queue = q
}

func (m *merger) pop() candidate {
	q := m.queue
	top, c := q[0], q[len(q)-1]
	q = q[:len(q)-1]
	i := 0
	for {
		child := 2*i + 1
		if child >= len(q) {
			break
		}
		if child+1 < len(q) && q[child+1].before(q[child]) {
			child++
		}
		if !q[child].before(c) {
			break
		}
		q[i] = q[child]
		i = child
	}
	if len(q) > 0 {
		q[i] = c
	}
	m.queue = q
	return top
}
