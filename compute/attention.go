package compute

import (
	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
)

// rotateRows norms the heads of the queries and keys of rows [lo, hi) of the
// tile, if the layer does, turns them, and puts the keys and values into the
// cache.
func (a *Actor) rotateRows(_, lo, hi int) {
	m, t := a.model, &a.tile
	w, turning := &m.Layers[t.layer], a.rope.of(m.WindowOf(t.layer))
	for i := lo; i < hi; i++ {
		r := t.first + i
		q, k := t.q[i*m.Heads*m.HeadDim:][:m.Heads*m.HeadDim], t.k[i*m.KVHeads*m.HeadDim:][:m.KVHeads*m.HeadDim]
		if norm := w[model.HeadQNorm]; norm != nil {
			a.normRows(q, q, m.HeadDim, norm)
		}
		if norm := w[model.HeadKNorm]; norm != nil {
			a.normRows(k, k, m.HeadDim, norm)
		}
		turning.rotate(q, m.HeadDim, &m.Rope, r)
		turning.rotate(k, m.HeadDim, &m.Rope, r)
		a.row[r].cache.put(t.layer, a.row[r].pos, k, t.v[i*m.KVHeads*m.VDim:][:m.KVHeads*m.VDim])
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
	t.mixed = grow(t.mixed, t.rows*m.Heads*m.VDim)
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
// and a key head with the query heads that it serves: softmax of query times
// key over all positions that the row sees, then the sum of the values so
// weighted, in the order of positions.
func (a *Actor) attendHeads(worker, lo, hi int) {
	m, t, s := a.model, &a.tile, &a.tile.scratch[worker]
	group, window := m.Heads/m.KVHeads, m.WindowOf(t.layer)
	for task := lo; task < hi; task++ {
		b, h := t.bunches[task/m.KVHeads], task%m.KVHeads
		r := a.row[t.first+b.first]
		from := 0 // the first position that a row of the bunch sees
		if window > 0 {
			from = max(0, r.pos-window+1)
		}
		shared, row := r.pos+1, r.pos+b.rows-from // up to what all rows see, and how much they see together
		for i := range b.rows {
			copy(s.queries[i*group*m.HeadDim:][:group*m.HeadDim], t.q[((b.first+i)*m.Heads+h*group)*m.HeadDim:])
		}
		out := s.out[:b.rows*group*m.VDim]
		clear(out)

		kv := headCache{r.cache, t.layer, h}
		for j := from; j < shared; j += walk {
			g := vec.Group{Heads: b.rows * group, Dim: m.HeadDim, Len: min(walk, shared-j), Stride: m.HeadDim, Row: row}
			kv.scores(g, s.scores[j-from:], s.queries, j, a.scale)
		}
		for i := 1; i < b.rows; i++ {
			g := vec.Group{Heads: group, Dim: m.HeadDim, Len: i, Stride: m.HeadDim, Row: row}
			kv.scores(g, s.scores[i*group*row+shared-from:], s.queries[i*group*m.HeadDim:], shared, a.scale)
		}
		for i := range b.rows * group {
			seen := s.scores[i*row:][:shared-from+i/group]
			if window > 0 {
				// What only the rows before see has no weight in this one.
				hidden := max(0, len(seen)-window)
				clear(seen[:hidden])
				seen = seen[hidden:]
			}
			a.weigh(seen, h*group+i%group)
		}
		for j := from; j < shared; j += walk {
			g := vec.Group{Heads: b.rows * group, Dim: m.VDim, Len: min(walk, shared-j), Stride: m.VDim, Row: row}
			kv.mix(g, out, s.scores[j-from:], j)
		}
		for i := 1; i < b.rows; i++ {
			g := vec.Group{Heads: group, Dim: m.VDim, Len: i, Stride: m.VDim, Row: row}
			kv.mix(g, out[i*group*m.VDim:], s.scores[i*group*row+shared-from:], shared)
		}
		for i := range b.rows {
			copy(t.mixed[((b.first+i)*m.Heads+h*group)*m.VDim:], out[i*group*m.VDim:][:group*m.VDim])
		}
	}
}

// weigh makes weights of the scores of query head h: their softmax, in which a
// sink may take part.
func (a *Actor) weigh(scores []float32, h int) {
	if c := a.model.AttnCap; c > 0 {
		vec.SoftCap(scores, c)
	}
	var sum float32
	if sinks := a.model.Layers[a.tile.layer][model.AttnSinks]; sinks != nil {
		sum = vec.SoftmaxSink(scores, a.vectors[sinks][h])
	} else {
		sum = vec.Softmax(scores)
	}
	vec.Scale(scores, 1/sum)
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
