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

// scoreRoom is how many scores a worker needs at once: those of the query heads
// that share a key head, for the longest row of the tile.
func (a *Actor) scoreRoom() int {
	longest := 0
	for _, r := range a.row[a.tile.first:][:a.tile.rows] {
		longest = max(longest, r.cache.room)
	}
	return longest * (a.model.Heads / a.model.KVHeads)
}

// attendHeads computes attention for the tasks [lo, hi), each a row of the tile
// and a key head with the query heads that it serves: softmax over all
// positions up to the row's own of query times key, then the sum of the values
// so weighted, in the order of positions.
func (a *Actor) attendHeads(worker, lo, hi int) {
	m, t := a.model, &a.tile
	group := m.Heads / m.KVHeads
	scale := float32(1 / math.Sqrt(float64(m.HeadDim)))
	for task := lo; task < hi; task++ {
		i, h := task/m.KVHeads, task%m.KVHeads
		r := a.row[t.first+i]
		n := r.pos + 1
		queries := t.q[(i*m.Heads+h*group)*m.HeadDim:][:group*m.HeadDim]
		out := t.mixed[(i*m.Heads+h*group)*m.VDim:][:group*m.VDim]
		scores := t.scores[worker][:group*n]
		clear(out)

		g := vec.Group{Heads: group, Dim: m.HeadDim, Len: n, Stride: m.HeadDim, Row: n}
		keys := r.cache.at(a.job.layer, h, m.HeadDim, false)
		if r.cache.kind == KVF16 {
			g.ScoresF16(scores, queries, r.cache.f16()[keys:][:n*m.HeadDim], scale)
		} else {
			g.Scores(scores, queries, r.cache.f32()[keys:][:n*m.HeadDim], scale)
		}
		for j := range group {
			s := scores[j*n:][:n]
			vec.Scale(s, 1/vec.Softmax(s))
		}
		g.Dim, g.Stride = m.VDim, m.VDim
		values := r.cache.at(a.job.layer, h, m.VDim, true)
		if r.cache.kind == KVF16 {
			g.MixF16(out, scores, r.cache.f16()[values:][:n*m.VDim])
		} else {
			g.Mix(out, scores, r.cache.f32()[values:][:n*m.VDim])
		}
	}
}
