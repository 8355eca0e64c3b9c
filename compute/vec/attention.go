package vec

import "iter"

// A Group is a run of attention for the query heads that share one head of keys
// and values: each key or value is read once for all of them. Key or value j is
// the Dim elements from j*Stride on. Head h's query, or output, is the Dim
// elements from h*Dim on; its scores, or weights, are the Len elements from
// h*Row on.
//
// The heads may belong to several tokens, as long as all of them see the run.
// A cache is walked in runs that stay in the processor's cache.
type Group struct {
	Heads  int // query heads
	Dim    int // elements of a head
	Len    int // keys or values
	Stride int // elements from one key or value to the next
	Row    int // elements from one head's scores to the next head's
}

// partBytes is the size of the keys or values that are gone through for all
// heads before the next ones: half of a small first-level cache.
const partBytes = 16 << 10

// parts yields the pieces that g is done in: one, two or four heads, from head
// on, times a run of keys or values, from j on, whose elements have size bytes.
// All heads of a run come before the next run.
func (g Group) parts(size int) iter.Seq[part] {
	run := max(partBytes/max(g.Dim*size, 1)&^3, 4)
	return func(yield func(part) bool) {
		for j := 0; j < g.Len; j += run {
			for head := 0; head < g.Heads; {
				p := part{g, head, j}
				p.Len = min(run, g.Len-j)
				switch left := g.Heads - head; {
				case left >= 4:
					p.Heads = 4
				case left >= 2:
					p.Heads = 2
				default:
					p.Heads = 1
				}
				if !yield(p) {
					return
				}
				head += p.Heads
			}
		}
	}
}

type part struct {
	Group
	head, j int
}

// check panics unless all elements of g are inside slices of these lengths.
func (g Group) check(heads, rows, run int) {
	if min(g.Heads, g.Dim, g.Len, g.Stride, g.Row) < 0 {
		panic("vec: negative size in a group")
	}
	if g.Heads == 0 || g.Len == 0 {
		return
	}
	if heads < g.Heads*g.Dim || rows < (g.Heads-1)*g.Row+g.Len || run < (g.Len-1)*g.Stride+g.Dim {
		panic("vec: a group reaches beyond a slice")
	}
}

// Scores sets score j of head h to Dot(query h, key j) * scale.
func (g Group) Scores(scores, queries, keys []float32, scale float32) {
	g.check(len(queries), len(scores), len(keys))
	for p := range g.parts(4) {
		s, q, k := scores[p.head*g.Row+p.j:], queries[p.head*g.Dim:], keys[p.j*g.Stride:]
		n := p.scoresFast(s, q, k, scale)
		for h := range p.Heads {
			for j := n; j < p.Len; j++ {
				s[h*g.Row+j] = float32(Dot(q[h*g.Dim:][:g.Dim], k[j*g.Stride:][:g.Dim]) * scale)
			}
		}
	}
}

// ScoresF16 is [Group.Scores] for keys that are halves.
func (g Group) ScoresF16(scores, queries []float32, keys []uint16, scale float32) {
	g.check(len(queries), len(scores), len(keys))
	for p := range g.parts(2) {
		s, q, k := scores[p.head*g.Row+p.j:], queries[p.head*g.Dim:], keys[p.j*g.Stride:]
		n := p.scoresF16Fast(s, q, k, scale)
		for h := range p.Heads {
			for j := n; j < p.Len; j++ {
				s[h*g.Row+j] = float32(DotF16(q[h*g.Dim:][:g.Dim], k[j*g.Stride:][:g.Dim]) * scale)
			}
		}
	}
}

// Mix adds to head h's output the values, each times its weight of head h, in
// the order of j, each as by [AddScaled].
func (g Group) Mix(out, weights, values []float32) {
	g.check(len(out), len(weights), len(values))
	for p := range g.parts(4) {
		o, w, v := out[p.head*g.Dim:], weights[p.head*g.Row+p.j:], values[p.j*g.Stride:]
		if d := p.mixFast(o, w, v); d < g.Dim {
			for h := range p.Heads {
				for j := range p.Len {
					AddScaled(o[h*g.Dim+d:(h+1)*g.Dim], v[j*g.Stride+d:], w[h*g.Row+j])
				}
			}
		}
	}
}

// MixF16 is [Group.Mix] for values that are halves.
func (g Group) MixF16(out, weights []float32, values []uint16) {
	g.check(len(out), len(weights), len(values))
	for p := range g.parts(2) {
		o, w, v := out[p.head*g.Dim:], weights[p.head*g.Row+p.j:], values[p.j*g.Stride:]
		if d := p.mixF16Fast(o, w, v); d < g.Dim {
			for h := range p.Heads {
				for j := range p.Len {
					AddScaledF16(o[h*g.Dim+d:(h+1)*g.Dim], v[j*g.Stride+d:], w[h*g.Row+j])
				}
			}
		}
	}
}
