package compute

import (
	"github.com/layerpipe/layerpipe/model"
)

// latent is the scratch of latent attention: what queries, and what keys and
// values are made of; and by head and token what the heads' matrices get and
// give.
type latent struct {
	query, both, keys []float32
	in, out           []float32
	heads             []group
}

// projectLatent makes the tile's queries, keys and values by way of latents
// (MLA, https://arxiv.org/abs/2405.04434, section 2.1).
func (a *Actor) projectLatent(p *Pass, w *model.Layer) error {
	m, t, l := a.model, &a.tile, &a.tile.latent
	n, rank, input := t.rows, m.KVRank, t.in.x
	q := t.q
	if m.Absorbed {
		t.fused = grow(t.fused, n*m.Heads*m.QueryDim)
		q = t.fused
	}
	if m.QRank > 0 {
		l.query = grow(l.query, n*m.QRank)
		if err := a.product(p, l.query, w[model.AttnQA], nil); err != nil {
			return err
		}
		a.normRows(l.query, l.query, m.QRank, w[model.AttnQNorm])
		t.in.set(l.query, n, m.QRank)
		if err := a.product(p, q, w[model.AttnQB], nil); err != nil {
			return err
		}
		t.in.set(input, n, m.Dim)
	} else if err := a.product(p, q, w[model.AttnQ], nil); err != nil {
		return err
	}
	// What is rotated of a key is the same for all heads and comes with the latent.
	both := rank + m.Rope.Dim
	l.both = grow(l.both, n*both)
	if err := a.product(p, l.both, w[model.AttnKVA], nil); err != nil {
		return err
	}
	l.keys = grow(l.keys, n*rank)
	for i := range n {
		copy(l.keys[i*rank:][:rank], l.both[i*both:])
	}
	a.normRows(l.keys, l.keys, rank, w[model.AttnKVNorm])
	if m.Absorbed {
		return a.absorb(p, w, q)
	}

	t.in.set(l.keys, n, rank)
	plain := m.HeadDim - m.Rope.Dim
	width := plain + m.VDim
	t.fused = grow(t.fused, n*m.Heads*width)
	if err := a.product(p, t.fused, w[model.AttnKVB], nil); err != nil {
		return err
	}
	for i := range n {
		for h := range m.Heads {
			x, k := t.fused[(i*m.Heads+h)*width:][:width], t.k[(i*m.Heads+h)*m.HeadDim:][:m.HeadDim]
			copy(k, x[:plain])
			copy(k[plain:], l.both[i*both+rank:][:m.Rope.Dim])
			copy(t.v[(i*m.Heads+h)*m.VDim:][:m.VDim], x[plain:])
		}
	}
	return nil
}

// absorb makes queries that meet latents of q, which would meet keys: instead of
// each key being multiplied with a head's matrix, the query is. The key and the
// value of all heads are the latent.
func (a *Actor) absorb(p *Pass, w *model.Layer, q []float32) error {
	m, t, l := a.model, &a.tile, &a.tile.latent
	n, rank, both, plain := t.rows, m.KVRank, m.HeadDim, m.QueryDim-m.Rope.Dim
	for i := range n {
		copy(t.k[i*both:][:both], l.both[i*both:])
		copy(t.k[i*both:][:rank], l.keys[i*rank:])
	}
	copy(t.v, l.keys)
	l.in, l.out = grow(l.in, m.Heads*n*plain), grow(l.out, m.Heads*n*rank)
	for h := range m.Heads {
		for i := range n {
			copy(l.in[(h*n+i)*plain:][:plain], q[(i*m.Heads+h)*m.QueryDim:])
		}
	}
	if err := a.grouped(p, l.out, l.in, w[model.AttnKB], m.Heads, a.headGroups()); err != nil {
		return err
	}
	for i := range n {
		for h := range m.Heads {
			to := t.q[(i*m.Heads+h)*both:][:both]
			copy(to, l.out[(h*n+i)*rank:][:rank])
			copy(to[rank:], q[(i*m.Heads+h)*m.QueryDim+plain:][:m.Rope.Dim])
		}
	}
	return nil
}

// expandValues makes each head's output of the mixed latents.
func (a *Actor) expandValues(p *Pass, w *model.Layer) error {
	m, t, l := a.model, &a.tile, &a.tile.latent
	n, rank, width := t.rows, m.KVRank, m.OutDim
	l.in, l.out = grow(l.in, m.Heads*n*rank), grow(l.out, m.Heads*n*width)
	for h := range m.Heads {
		for i := range n {
			copy(l.in[(h*n+i)*rank:][:rank], t.mixed[(i*m.Heads+h)*rank:])
		}
	}
	if err := a.grouped(p, l.out, l.in, w[model.AttnVB], m.Heads, a.headGroups()); err != nil {
		return err
	}
	t.mixed = grow(t.mixed, n*m.Heads*width)
	for i := range n {
		for h := range m.Heads {
			copy(t.mixed[(i*m.Heads+h)*width:][:width], l.out[(h*n+i)*width:])
		}
	}
	return nil
}

// headGroups are the rows of the tile once for each head.
func (a *Actor) headGroups() []group {
	l := &a.tile.latent
	l.heads = l.heads[:0]
	for h := range a.model.Heads {
		l.heads = append(l.heads, group{h, h * a.tile.rows, a.tile.rows})
	}
	return l.heads
}
