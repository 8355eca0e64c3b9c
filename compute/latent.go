package compute

import "github.com/layerpipe/layerpipe/model"

// latent is the scratch of latent attention.
type latent struct{ query, both, keys []float32 }

// projectLatent makes the tile's queries, keys and values by way of latents
// (MLA, https://arxiv.org/abs/2405.04434, section 2.1). The cache gets keys and
// values as other models have them.
func (a *Actor) projectLatent(p *Pass, w *model.Layer) error {
	m, t, l := a.model, &a.tile, &a.tile.latent
	n, input := t.rows, t.in.x
	// What is rotated of a key is the same for all heads and comes with the latent.
	plain, rank := m.HeadDim-m.Rope.Dim, m.KVRank
	l.both = grow(l.both, n*(rank+m.Rope.Dim))
	if m.QRank > 0 {
		l.query = grow(l.query, n*m.QRank)
		if err := a.product(p, l.query, w[model.AttnQA], nil); err != nil {
			return err
		}
		a.normRows(l.query, l.query, m.QRank, w[model.AttnQNorm])
		t.in.set(l.query, n, m.QRank)
		if err := a.product(p, t.q, w[model.AttnQB], nil); err != nil {
			return err
		}
		t.in.set(input, n, m.Dim)
	} else if err := a.product(p, t.q, w[model.AttnQ], nil); err != nil {
		return err
	}
	if err := a.product(p, l.both, w[model.AttnKVA], nil); err != nil {
		return err
	}
	l.keys = grow(l.keys, n*rank)
	for i := range n {
		copy(l.keys[i*rank:][:rank], l.both[i*(rank+m.Rope.Dim):])
	}
	a.normRows(l.keys, l.keys, rank, w[model.AttnKVNorm])
	t.in.set(l.keys, n, rank)
	width := plain + m.VDim
	t.fused = grow(t.fused, n*m.Heads*width)
	if err := a.product(p, t.fused, w[model.AttnKVB], nil); err != nil {
		return err
	}
	for i := range n {
		rotated := l.both[i*(rank+m.Rope.Dim)+rank:][:m.Rope.Dim]
		for h := range m.Heads {
			x, k := t.fused[(i*m.Heads+h)*width:][:width], t.k[(i*m.Heads+h)*m.HeadDim:][:m.HeadDim]
			copy(k, x[:plain])
			copy(k[plain:], rotated)
			copy(t.v[(i*m.Heads+h)*m.VDim:][:m.VDim], x[plain:])
		}
	}
	return nil
}
