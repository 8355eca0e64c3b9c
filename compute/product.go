package compute

import (
	"context"
	"runtime/debug"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/ring"
)

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

// A job is a product that the team's workers share, alone or with others.
type job struct {
	dst   []float32 // column c of the result from c*ldd on
	ldd   int
	w     kernel.Matrix
	acts  *kernel.Acts
	bias  []float32
	first int // where its rows begin among those of all jobs; a multiple of 8
}

// A load is a run of activations that are to be brought into the form that a
// product wants.
type load struct {
	x     []float32
	acts  *kernel.Acts
	first int // where its columns begin among those of all loads
	n     int
}

// work is what the team is at: see mulRows and quantizeColumns.
type work struct {
	jobs  []job
	loads []load
}

// chunkBytes is how much of a matrix a worker takes at a time: some tens of
// microseconds of reading, so that a core that is taken away costs little.
const chunkBytes = 128 << 10

// stopped says why the pass or the actor is to end, if one of them is.
func (a *Actor) stopped(p *Pass) error {
	if p.Ctx.Err() != nil {
		return context.Cause(p.Ctx)
	}
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	return nil
}

// product sets dst to w times the tile's input, plus bias if there is one.
func (a *Actor) product(p *Pass, dst []float32, w, bias *model.Tensor) error {
	for band := range w.Bands {
		matrix, err := a.matrix(p, w, band)
		if err != nil {
			return err
		}
		if err := a.band(p, dst, w, bias, matrix, band); err != nil {
			return err
		}
	}
	return nil
}

// band is the part of product that a band of w, which is matrix, does.
func (a *Actor) band(p *Pass, dst []float32, w, bias *model.Tensor, matrix kernel.Matrix, band int) error {
	if err := a.stopped(p); err != nil {
		return err
	}
	first := band * w.BandRows
	j := job{dst: dst[first:], ldd: w.Rows(), w: matrix, acts: a.input(&a.tile.in, matrix.Type)}
	if bias != nil {
		j.bias = a.vectors[bias][first:]
	}
	a.work.jobs = append(a.work.jobs[:0], j)
	return a.multiply()
}

// A group is a run of rows that meet the same one of the matrices that a tensor
// consists of: an expert's, or a head's.
type group struct{ part, first, rows int }

// grouped sets the rows of dst to the products of the rows of x and the matrices
// of w, of which there are so many, as groups say.
func (a *Actor) grouped(p *Pass, dst, x []float32, w *model.Tensor, matrices int, groups []group) error {
	if err := a.stopped(p); err != nil {
		return err
	}
	all, err := a.matrix(p, w, 0)
	if err != nil {
		return err
	}
	t := &a.tile
	if more := len(groups) - len(t.acts); more > 0 {
		t.acts = append(t.acts, make([]kernel.Acts, more)...)
	}
	rows, k := all.Rows/matrices, all.Cols
	a.work.loads, a.work.jobs = a.work.loads[:0], a.work.jobs[:0]
	for i, g := range groups {
		acts := &t.acts[i]
		acts.Reset(all.Type, g.rows, k)
		a.work.loads = append(a.work.loads, load{x: x[g.first*k:][:g.rows*k], acts: acts, n: g.rows})
		a.work.jobs = append(a.work.jobs, job{dst: dst[g.first*rows:][:g.rows*rows], ldd: rows, w: part(all, g.part, rows), acts: acts})
	}
	a.quantize()
	return a.multiply()
}

// part is matrix i of those that m consists of, each of so many rows.
func part(m kernel.Matrix, i, rows int) kernel.Matrix {
	size := rows * m.Type.RowBytes(m.Cols)
	m.Rows, m.Data = rows, m.Data[i*size:][:size]
	return m
}

// input returns in in the form for weights of type t.
func (a *Actor) input(in *inputs, t gguf.Type) *kernel.Acts {
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
		a.work.loads = append(a.work.loads[:0], load{x: in.x, acts: acts, n: in.n})
		a.quantize()
	}
	return acts
}

// multiply does the jobs: the team shares the rows of all of them.
func (a *Actor) multiply() error {
	jobs := a.work.jobs
	rows := 0
	for i := range jobs {
		jobs[i].first = rows
		rows += (jobs[i].w.Rows + 7) / 8 * 8
	}
	w := &jobs[0].w
	a.team.Run(rows, max(8, chunkBytes/w.Type.RowBytes(w.Cols)/8*8), a.run.mul)
	return a.faulted()
}

// mulRows computes the rows [lo, hi) of the jobs' rows. Both are multiples of
// eight, but hi may be the end.
func (a *Actor) mulRows(_, lo, hi int) {
	for i := range a.work.jobs {
		j := &a.work.jobs[i]
		r0, r1 := max(lo-j.first, 0), min(hi-j.first, j.w.Rows)
		if r0 >= r1 {
			continue
		}
		kernel.Mul(j.dst, j.ldd, &j.w, j.acts, r0, r1)
		if j.bias != nil {
			for c := 0; c < len(j.dst); c += j.ldd {
				vec.Add(j.dst[c+r0:c+r1], j.bias[r0:r1])
			}
		}
	}
}

// quantize does the loads: the team shares the columns of all of them.
func (a *Actor) quantize() {
	columns := 0
	for i := range a.work.loads {
		a.work.loads[i].first = columns
		columns += a.work.loads[i].n
	}
	a.team.Run(columns, 1, a.run.quantize)
}

func (a *Actor) quantizeColumns(_, lo, hi int) {
	for i := range a.work.loads {
		l := &a.work.loads[i]
		if c0, c1 := max(lo-l.first, 0), min(hi-l.first, l.n); c0 < c1 {
			l.acts.Quantize(l.x, c0, c1)
		}
	}
}

// mapped is task for weights that lie in a mapping of a file, where reading them
// can be a [ring.ErrFault].
func (a *Actor) mapped(task func(worker, lo, hi int)) func(worker, lo, hi int) {
	return func(worker, lo, hi int) {
		if err := guarded(task, worker, lo, hi); err != nil {
			a.fault.CompareAndSwap(nil, &err)
		}
	}
}

func guarded(task func(worker, lo, hi int), worker, lo, hi int) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer ring.CatchFault(&err)
	task(worker, lo, hi)
	return nil
}

// faulted returns the fault that a worker ran into.
func (a *Actor) faulted() error {
	if fault := a.fault.Swap(nil); fault != nil {
		return *fault
	}
	return nil
}
