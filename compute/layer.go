package compute

import (
	"cmp"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
)

// tileRows is how many tokens go through a layer together. It bounds the
// scratch memory of a long prompt, and is enough columns for a product to be
// bound by arithmetic rather than by reading the weights.
const tileRows = 128

// A tile is the scratch of some rows on their way through a layer: tokens in
// rows, so that row i of a buffer of width w is at i*w.
type tile struct {
	layer          int
	first, rows    int // the rows of the pass
	normed, out    []float32
	q, k, v, mixed []float32
	fused          []float32 // queries, keys and values in one, or what a latent becomes
	latent         latent
	gate, up       []float32
	width          int // of a row of gate and up
	experts        experts
	in             inputs
	acts           []kernel.Acts // of grouped products
	bunches        []bunch
	scratch        []attendScratch // by worker
}

// tasks are the functions that the team runs, made once because a closure
// made for each run would be garbage.
type tasks struct {
	quantize, mul, rotate, attend, gate, mix, addBias func(worker, lo, hi int)
}

func (a *Actor) tasks() tasks {
	return tasks{
		quantize: a.quantizeColumns,
		mul:      a.mulRows,
		rotate:   a.rotateRows,
		attend:   a.attendHeads,
		gate:     a.gateRows,
		mix:      a.mixExperts,
		addBias:  a.addBiases,
	}
}

// layer takes all rows of the pass through layer l, a tile at a time: the
// attention of a tile needs the keys and values of the rows before it, which
// are in the cache by then. If the matrices of the layer come one by one, the
// tile is the whole pass, so that each comes once.
func (a *Actor) layer(p *Pass, l int) error {
	step := tileRows
	if a.model.Unit == model.UnitTensor {
		step = len(a.row)
	}
	a.tile.layer = l
	for first := 0; first < len(a.row); first += step {
		a.tile.first, a.tile.rows = first, min(step, len(a.row)-first)
		if err := a.attention(p, l); err != nil {
			return err
		}
		if err := a.feedForward(p, l); err != nil {
			return err
		}
	}
	return finite(p.Hidden)
}

// attention adds to the tile's hidden states the attention of layer l.
func (a *Actor) attention(p *Pass, l int) error {
	m, t, w := a.model, &a.tile, &a.model.Layers[l]
	a.step("attention", cmp.Or(w[model.AttnQ], w[model.AttnQA], w[model.AttnQKV]))
	a.norm(p, w[model.AttnNorm])
	if err := a.project(p, w); err != nil {
		return err
	}
	a.team.Run(t.rows, 1, a.run.rotate)
	a.attend()
	if w[model.AttnVB] != nil {
		if err := a.expandValues(p, w); err != nil {
			return err
		}
	}
	t.in.set(t.mixed, t.rows, m.Heads*m.OutDim)
	t.out = grow(t.out, t.rows*m.Dim)
	if err := a.product(p, t.out, w[model.AttnOut], w[model.AttnOutBias]); err != nil {
		return err
	}
	a.residual(p, w[model.AttnPostNorm])
	return nil
}

// project makes the tile's queries, keys and values, before they are rotated.
func (a *Actor) project(p *Pass, w *model.Layer) error {
	m, t := a.model, &a.tile
	n, q, k, v := t.rows, m.Heads*m.HeadDim, m.KVHeads*m.HeadDim, m.KVHeads*m.VDim
	t.q, t.k, t.v = grow(t.q, n*q), grow(t.k, n*k), grow(t.v, n*v)
	switch {
	case w[model.AttnQKV] != nil:
		t.fused = grow(t.fused, n*(q+k+v))
		if err := a.product(p, t.fused, w[model.AttnQKV], nil); err != nil {
			return err
		}
		for i := range n {
			x := t.fused[i*(q+k+v):]
			copy(t.q[i*q:][:q], x)
			copy(t.k[i*k:][:k], x[q:])
			copy(t.v[i*v:][:v], x[q+k:])
		}
		return nil
	case m.KVRank > 0:
		return a.projectLatent(p, w)
	}
	if err := a.product(p, t.q, w[model.AttnQ], w[model.AttnQBias]); err != nil {
		return err
	}
	if err := a.product(p, t.k, w[model.AttnK], w[model.AttnKBias]); err != nil {
		return err
	}
	return a.product(p, t.v, w[model.AttnV], w[model.AttnVBias])
}

// feedForward adds to the tile's hidden states the feed-forward network of
// layer l, or those of the experts that its router chooses.
func (a *Actor) feedForward(p *Pass, l int) error {
	m, t, w := a.model, &a.tile, &a.model.Layers[l]
	a.step("feed-forward", cmp.Or(w[model.Router], w[model.FFNGate], w[model.FFNUp], w[model.FFNGateUp]))
	a.norm(p, w[model.FFNNorm])
	t.out = grow(t.out, t.rows*m.Dim)
	var err error
	if w[model.Router] != nil {
		err = a.chosen(p, w)
	} else {
		err = a.network(p, t.out, m.FFN, w[model.FFNGate], cmp.Or(w[model.FFNUp], w[model.FFNGateUp]), w[model.FFNDown])
	}
	if err != nil {
		return err
	}
	a.residual(p, w[model.FFNPostNorm])
	return nil
}

// network sets dst to what a gated feed-forward network of that width makes of
// the tile's input (https://arxiv.org/abs/2002.05202). Without a matrix for the
// gate, that of the other half holds both, the gate first.
func (a *Actor) network(p *Pass, dst []float32, width int, gate, up, down *model.Tensor) error {
	t, n := &a.tile, a.tile.rows
	t.width = width
	t.gate, t.up = grow(t.gate, n*width), grow(t.up, n*width)
	if gate == nil {
		t.fused = grow(t.fused, n*2*width)
		if err := a.product(p, t.fused, up, nil); err != nil {
			return err
		}
		for i := range n {
			x := t.fused[i*2*width:][:2*width]
			copy(t.gate[i*width:][:width], x)
			copy(t.up[i*width:][:width], x[width:])
		}
	} else {
		if err := a.product(p, t.gate, gate, nil); err != nil {
			return err
		}
		if err := a.product(p, t.up, up, nil); err != nil {
			return err
		}
	}
	a.team.Run(n, 1, a.run.gate)
	t.in.set(t.gate, n, width)
	return a.product(p, dst, down, nil)
}

// gateRows joins the rows [lo, hi) of gate and up in the gate.
func (a *Actor) gateRows(_, lo, hi int) {
	t := &a.tile
	for i := lo; i < hi; i++ {
		g, up := t.gate[i*t.width:][:t.width], t.up[i*t.width:][:t.width]
		switch a.model.Activation {
		case model.GELU:
			vec.GELUMul(g, g, up)
		case model.ClampedSwiGLU:
			vec.ClampedSwiGLU(g, g, up)
		default:
			vec.SiLUMul(g, g, up)
		}
	}
}

// hidden is the tile's part of the pass's hidden states.
func (a *Actor) hidden(p *Pass) []float32 {
	dim := a.model.Dim
	return p.Hidden[a.tile.first*dim:][:a.tile.rows*dim]
}

// norm makes the normed hidden states the input of the products that follow.
func (a *Actor) norm(p *Pass, w *model.Tensor) {
	t, dim := &a.tile, a.model.Dim
	t.normed = grow(t.normed, t.rows*dim)
	a.normRows(t.normed, a.hidden(p), dim, w)
	t.in.set(t.normed, t.rows, dim)
}

// normRows norms rows of that width of x, with the weight w, into dst, which may
// be x.
func (a *Actor) normRows(dst, x []float32, width int, w *model.Tensor) {
	weight := a.vectors[w]
	for ; len(x) > 0; dst, x = dst[width:], x[width:] {
		vec.RMSNorm(dst[:width], x[:width], weight, a.model.NormEps)
	}
}

// residual adds the tile's output, normed if there is a norm, to the hidden
// states.
func (a *Actor) residual(p *Pass, norm *model.Tensor) {
	t := &a.tile
	if norm != nil {
		a.normRows(t.out, t.out, a.model.Dim, norm)
	}
	vec.Add(a.hidden(p), t.out)
}
