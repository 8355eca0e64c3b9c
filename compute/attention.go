package compute

import (
	"math"

	"github.com/layerpipe/layerpipe/compute/vec"
)

// rotateRows turns the queries and keys of rows [lo, hi) of the tile and puts
// the keys and values into the cache.
func (a *Actor) rotateRows(_, lo, hi int) {
	m, t, half := a.model, &a.tile, len(a.rope.angle)
	for i := lo; i < hi; i++ {
		r := t.first + i
		cos, sin := a.cos[r*half:][:half], a.sin[r*half:][:half]
		q, k := t.q[i*m.Heads*m.HeadDim:][:m.Heads*m.HeadDim], t.k[i*m.KVHeads*m.HeadDim:][:m.KVHeads*m.HeadDim]
		for h := range m.Heads {
			vec.Rope(q[h*m.HeadDim:][:m.HeadDim], cos, sin, m.Rope.Neox)
		}
		for h := range m.KVHeads {
			vec.Rope(k[h*m.HeadDim:][:m.HeadDim], cos, sin, m.Rope.Neox)
		}
		a.row[r].cache.put(a.job.layer, a.row[r].pos, k, t.v[i*m.KVHeads*m.VDim:][:m.KVHeads*m.VDim])
	}
}

// attendQueries is how many queries walk through the keys and values of a head
// together: enough for reading these to cost nothing, few enough for their
// scores to stay in the cache.
const attendQueries = 16

// walk is how many keys or values all queries use before the next are read:
// 64 KiB of halves at 128 a head.
const walk = 256

// A bunch is a run of rows of the tile that belong to one sequence and follow
// each other: they see the same keys, but for the last few.
type bunch struct{ first, rows int }

// bunches cuts the tile's rows into bunches.
func (a *Actor) bunches() []bunch {
	t := &a.tile
	most := max(1, attendQueries/(a.model.Heads/a.model.KVHeads))
	t.bunches = t.bunches[:0]
	for i := 0; i < t.rows; {
		b := bunch{i, 1}
		r := a.row[t.first+i]
		for i++; i < t.rows && b.rows < most && a.row[t.first+i] == (row{r.cache, r.pos + b.rows}); i++ {
			b.rows++
		}
		t.bunches = append(t.bunches, b)
	}
	return t.bunches
}

// attend computes the attention of the tile's rows.
func (a *Actor) attend() {
	t, m := &a.tile, a.model
	bunches := a.bunches()
	group, longest, rows := m.Heads/m.KVHeads, 0, 0
	for _, b := range bunches {
		longest, rows = max(longest, a.row[t.first+b.first].cache.room), max(rows, b.rows)
	}
	for i := range t.scratch {
		s := &t.scratch[i]
		s.scores = grow(s.scores, rows*group*longest)
		s.queries, s.out = grow(s.queries, rows*group*m.HeadDim), grow(s.out, rows*group*m.VDim)
	}
	a.team.Run(len(bunches)*m.KVHeads, 1, a.run.attend)
}

// attendScratch is what a worker needs for one bunch and one head of keys: the
// queries, scores and outputs of all its rows and all query heads of the group,
// one after the other.
type attendScratch struct{ scores, queries, out []float32 }

// attendHeads computes attention for the tasks [lo, hi), each a bunch of rows
// and a key head with the query heads that it serves: softmax over all
// positions up to the row's own of query times key, then the sum of the values
// so weighted, in the order of positions.
func (a *Actor) attendHeads(worker, lo, hi int) {
	m, t, s := a.model, &a.tile, &a.tile.scratch[worker]
	group := m.Heads / m.KVHeads
	scale := float32(1 / math.Sqrt(float64(m.HeadDim)))
	for task := lo; task < hi; task++ {
		b, h := t.bunches[task/m.KVHeads], task%m.KVHeads
		r := a.row[t.first+b.first]
		shared, row := r.pos+1, r.pos+b.rows // what all rows see, and what the last one sees
		for i := range b.rows {
			copy(s.queries[i*group*m.HeadDim:][:group*m.HeadDim], t.q[((b.first+i)*m.Heads+h*group)*m.HeadDim:])
		}
		out := s.out[:b.rows*group*m.VDim]
		clear(out)

		kv := headCache{r.cache, a.job.layer, h}
		for j := 0; j < shared; j += walk {
			g := vec.Group{Heads: b.rows * group, Dim: m.HeadDim, Len: min(walk, shared-j), Stride: m.HeadDim, Row: row}
			kv.scores(g, s.scores[j:], s.queries, j, scale)
		}
		for i := 1; i < b.rows; i++ {
			g := vec.Group{Heads: group, Dim: m.HeadDim, Len: i, Stride: m.HeadDim, Row: row}
			kv.scores(g, s.scores[i*group*row+shared:], s.queries[i*group*m.HeadDim:], shared, scale)
		}
		for i := range b.rows * group {
			w := s.scores[i*row:][:shared+i/group]
			vec.Scale(w, 1/vec.Softmax(w))
		}
		for j := 0; j < shared; j += walk {
			g := vec.Group{Heads: b.rows * group, Dim: m.VDim, Len: min(walk, shared-j), Stride: m.VDim, Row: row}
			kv.mix(g, out, s.scores[j:], j)
		}
		for i := 1; i < b.rows; i++ {
			g := vec.Group{Heads: group, Dim: m.VDim, Len: i, Stride: m.VDim, Row: row}
			kv.mix(g, out[i*group*m.VDim:], s.scores[i*group*row+shared:], shared)
		}
		for i := range b.rows {
			copy(t.mixed[((b.first+i)*m.Heads+h*group)*m.VDim:], out[i*group*m.VDim:][:group*m.VDim])
		}
	}
}

// headCache is the part of a cache that belongs to one head of one layer.
type headCache struct {
	*Cache
	layer, head int
}

// scores computes the scores of g's queries and the keys from position pos on.
func (c headCache) scores(g vec.Group, scores, queries []float32, pos int, scale float32) {
	at := c.at(c.layer, c.head, c.keyDim, false) + pos*c.keyDim
	if c.kind == KVF16 {
		g.ScoresF16(scores, queries, c.f16()[at:][:g.Len*c.keyDim], scale)
	} else {
		g.Scores(scores, queries, c.f32()[at:][:g.Len*c.keyDim], scale)
	}
}

// mix adds to g's outputs the values from position pos on.
func (c headCache) mix(g vec.Group, out, weights []float32, pos int) {
	at := c.at(c.layer, c.head, c.valDim, true) + pos*c.valDim
	if c.kind == KVF16 {
		g.MixF16(out, weights, c.f16()[at:][:g.Len*c.valDim])
	} else {
		g.Mix(out, weights, c.f32()[at:][:g.Len*c.valDim])
	}
}
