package compute

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
)

// tileRows is how many tokens go through a layer together. It bounds the
// scratch memory of a long prompt, and is enough columns for a product to be
// bound by arithmetic rather than by reading the weights.
const tileRows = 128

// A tile is the scratch of some rows on their way through a layer: tokens in
// rows, so that row i of a buffer of width w is at i*w.
type tile struct {
	first, rows    int // the rows of the pass
	normed, out    []float32
	q, k, v, mixed []float32
	gate, up       []float32
	in             inputs
	bunches        []bunch
	scratch        []attendScratch // by worker
}

// inputs are the activations that several products read, prepared once for
// each form of weights that they meet.
type inputs struct {
	x     []float32
	n, k  int
	acts  map[gguf.Type]*kernel.Acts
	fresh map[gguf.Type]bool
}

func (in *inputs) set(x []float32, n, k int) {
	in.x, in.n, in.k = x, n, k
	clear(in.fresh)
}

// A job is the product at hand, for the team's workers.
type job struct {
	dst   []float32
	w     kernel.Matrix
	acts  *kernel.Acts
	bias  []float32
	layer int
}

// tasks are the functions that the team runs, made once because a closure
// made for each run would be garbage.
type tasks struct {
	quantize, mul, rotate, attend, gate func(worker, lo, hi int)
}

func (a *Actor) tasks() tasks {
	return tasks{
		quantize: func(_, lo, hi int) { a.job.acts.Quantize(a.tile.in.x, lo, hi) },
		mul:      a.mulRows,
		rotate:   a.rotateRows,
		attend:   a.attendHeads,
		gate: func(_, lo, hi int) {
			n := a.model.FFN
			for i := lo; i < hi; i++ {
				g := a.tile.gate[i*n:][:n]
				vec.SiLUMul(g, g, a.tile.up[i*n:][:n])
			}
		},
	}
}

// layer takes all rows of the pass through layer l, a tile at a time: the
// attention of a tile needs the keys and values of the rows before it, which
// are in the cache by then. If the matrices of the layer come one by one, the
// tile is the whole pass, so that each comes once.
func (a *Actor) layer(p *Pass, l int) error {
	step := tileRows
	if w := &a.model.Layers[l]; w[model.AttnQ].Block != w[model.FFNDown].Block {
		step = len(a.row)
	}
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
	n := t.rows
	t.q, t.k, t.v = grow(t.q, n*m.Heads*m.HeadDim), grow(t.k, n*m.KVHeads*m.HeadDim), grow(t.v, n*m.KVHeads*m.VDim)
	t.mixed = grow(t.mixed, n*m.Heads*m.VDim)

	a.norm(p, w[model.AttnNorm])
	if err := a.product(p, t.q, w[model.AttnQ], w[model.AttnQBias]); err != nil {
		return err
	}
	if err := a.product(p, t.k, w[model.AttnK], w[model.AttnKBias]); err != nil {
		return err
	}
	if err := a.product(p, t.v, w[model.AttnV], w[model.AttnVBias]); err != nil {
		return err
	}
	a.job.layer = l
	a.team.Run(n, 1, a.run.rotate)
	a.attend()
	t.in.set(t.mixed, n, m.Heads*m.VDim)
	return a.residual(p, w[model.AttnOut], w[model.AttnOutBias])
}

// feedForward adds to the tile's hidden states the gated feed-forward network
// of layer l (SwiGLU, https://arxiv.org/abs/2002.05202).
func (a *Actor) feedForward(p *Pass, l int) error {
	m, t, w := a.model, &a.tile, &a.model.Layers[l]
	t.gate, t.up = grow(t.gate, t.rows*m.FFN), grow(t.up, t.rows*m.FFN)
	a.norm(p, w[model.FFNNorm])
	if err := a.product(p, t.gate, w[model.FFNGate], nil); err != nil {
		return err
	}
	if err := a.product(p, t.up, w[model.FFNUp], nil); err != nil {
		return err
	}
	a.team.Run(t.rows, 1, a.run.gate)
	t.in.set(t.gate, t.rows, m.FFN)
	return a.residual(p, w[model.FFNDown], nil)
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
	x, weight := a.hidden(p), a.vectors[w]
	for i := range t.rows {
		vec.RMSNorm(t.normed[i*dim:][:dim], x[i*dim:][:dim], weight, a.model.NormEps)
	}
	t.in.set(t.normed, t.rows, dim)
}

// residual adds the product of w and the input to the hidden states.
func (a *Actor) residual(p *Pass, w, bias *model.Tensor) error {
	t, dim := &a.tile, a.model.Dim
	t.out = grow(t.out, t.rows*dim)
	if err := a.product(p, t.out, w, bias); err != nil {
		return err
	}
	vec.Add(a.hidden(p), t.out)
	return nil
}

// chunkBytes is how much of a matrix a worker takes at a time: some tens of
// microseconds of reading, so that a core that is taken away costs little.
const chunkBytes = 128 << 10

// product sets dst to w times the tile's input, plus bias if there is one.
func (a *Actor) product(p *Pass, dst []float32, w, bias *model.Tensor) error {
	if p.Ctx.Err() != nil {
		return context.Cause(p.Ctx)
	}
	matrix, err := a.matrix(p, w)
	if err != nil {
		return err
	}
	a.job = job{dst: dst, w: matrix, acts: a.input(matrix.Type), layer: a.job.layer}
	if bias != nil {
		a.job.bias = a.vectors[bias]
	}
	grain := max(8, chunkBytes/matrix.Type.RowBytes(matrix.Cols)/8*8)
	a.team.Run(matrix.Rows, grain, a.run.mul)
	if fault := a.fault.Swap(nil); fault != nil {
		return *fault
	}
	return nil
}

// input returns the tile's input in the form for weights of type t.
func (a *Actor) input(t gguf.Type) *kernel.Acts {
	in := &a.tile.in
	if in.acts == nil {
		in.acts, in.fresh = map[gguf.Type]*kernel.Acts{}, map[gguf.Type]bool{}
	}
	acts := in.acts[t]
	if acts == nil {
		acts = new(kernel.Acts)
		in.acts[t] = acts
	}
	if !in.fresh[t] {
		in.fresh[t] = true
		acts.Reset(t, in.n, in.k)
		a.job.acts = acts
		a.team.Run(in.n, 1, a.run.quantize)
	}
	return acts
}

// ErrFault reports weights in a mapping that could not be read: the file became
// shorter while it was computed on, or its storage failed.
var ErrFault = errors.New("compute: mapped weights cannot be read any more")

// mulMapped is mulRows for weights that lie in a mapping of a file.
func (a *Actor) mulMapped(worker, lo, hi int) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			fault, ok := r.(runtime.Error)
			if !ok {
				panic(r)
			}
			err := fmt.Errorf("%w: %w", ErrFault, fault)
			a.fault.CompareAndSwap(nil, &err)
		}
	}()
	a.mulRows(worker, lo, hi)
}

func (a *Actor) mulRows(_, lo, hi int) {
	j := &a.job
	rows := j.w.Rows
	kernel.Mul(j.dst, rows, &j.w, j.acts, lo, hi)
	if j.bias != nil {
		for c := 0; c < len(j.dst); c += rows {
			vec.Add(j.dst[c+lo:c+hi], j.bias[lo:hi])
		}
	}
}
