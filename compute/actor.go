package compute

import (
	"context"
	"fmt"
	"math"
	"runtime/trace"
	"sync/atomic"

	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/compute/team"
	"github.com/layerpipe/layerpipe/compute/vec"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/stage"
)

// Weights hands out the blocks of a model in the form that compute wants.
type Weights interface {
	// Block waits until block b is in memory and makes it the current one. What
	// [Weights.Matrix] returned before is no longer valid.
	Block(ctx context.Context, b int) error
	// Matrix returns tensor i of the current block.
	Matrix(i int) kernel.Matrix
	// Release gives the current block back, if there is one.
	Release()
}

// An Actor runs passes, one at a time and each one block after the other.
type Actor struct {
	model   *model.Model
	vectors Vectors
	weights Weights
	passes  <-chan *Pass
	meter   *stage.Meter
	whole   *stage.Meter // of passes
	team    *team.Team
	rope    turnings
	scale   float32 // of the scores

	ctx context.Context // that of Run

	// What follows is the state of the pass at hand.
	block  int           // the current block, -1 for none
	task   string        // for the meter: which part of the pass is computed
	region *trace.Region // of the current block, for Go's execution tracer
	traced context.Context
	passed int // passes begun
	row    []row
	wanted []int
	tile   tile
	work   work
	run    tasks
	fault  atomic.Pointer[error] // what a worker ran into
}

// Vectors are the values of the model's norms, biases and factors, by tensor.
type Vectors map[*model.Tensor][]float32

// Config is what an [Actor] is made of.
type Config struct {
	Model   *model.Model
	Vectors Vectors
	Weights Weights
	Passes  <-chan *Pass
	Threads int // how many goroutines share a product; at least 1
	// Context is the most positions that a sequence shall have. It chooses between
	// the rotations for long and for short contexts of a model that has both.
	Context int
	Meter   *stage.Meter
	Whole   *stage.Meter // works while a pass is under way, which counts its tokens as bytes; may be nil
	Mapped  bool         // the weights may lie in mappings of files, where reading can fail
}

// New returns an actor. Its team of workers starts with [Actor.Run].
func New(c Config) *Actor {
	g := &c.Model.Global
	factors := g.RopeFactors
	switch {
	case factors != nil || g.RopeLong == nil:
	case c.Context > c.Model.Rope.OrigContext:
		factors = g.RopeLong
	default:
		factors = g.RopeShort
	}
	a := &Actor{
		model: c.Model, vectors: c.Vectors, weights: c.Weights, passes: c.Passes, meter: c.Meter, whole: c.Whole,
		rope: newTurnings(&c.Model.Params, c.Vectors[factors]), scale: scoreScale(&c.Model.Params), block: -1,
	}
	a.run = a.tasks()
	if c.Mapped {
		a.run.mul, a.run.addBias = a.mapped(a.run.mul), a.mapped(a.run.addBias)
	}
	a.tile.scratch = make([]attendScratch, c.Threads)
	return a
}

// Run runs the passes that arrive until ctx ends. A pass whose own context ends
// fails alone; an error of the weights ends the actor. The current block has
// been given back when Run returns.
func (a *Actor) Run(ctx context.Context) error {
	a.ctx = ctx
	a.team = team.New(len(a.tile.scratch))
	defer a.team.Close()
	defer a.release()
	a.meter.Enter(stage.WaitingInput)
	a.meter.Task("idle", -1)
	defer a.meter.Stop()
	defer a.whole.Stop()
	for {
		select {
		case p := <-a.passes:
			a.begin()
			err := a.pass(p)
			a.end()
			if ctx.Err() != nil {
				p.Done <- context.Cause(ctx)
				return context.Cause(ctx)
			}
			p.Done <- err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// begin and end tell the meters of a pass.
func (a *Actor) begin() {
	a.meter.Enter(stage.Working)
	a.step("start", nil)
	a.whole.Enter(stage.Working)
	a.whole.Task("pass", a.passed)
	a.passed++
}

func (a *Actor) end() {
	a.whole.Count(int64(len(a.row)))
	a.whole.Enter(stage.WaitingInput)
	a.meter.Enter(stage.WaitingInput)
	a.meter.Task("idle", -1)
}

// step says which part of the pass follows, and the first tensor that it needs
// a block for, if it is known.
func (a *Actor) step(task string, first *model.Tensor) {
	a.task = task
	block := a.block
	if first != nil {
		block = first.Block
	}
	a.meter.Task(task, block)
}

func (a *Actor) release() {
	if a.block >= 0 {
		a.region.End()
		a.weights.Release()
		a.block = -1
	}
}

// pass takes p through all blocks. The last block goes back before the logits
// are looked at, so that storage can bring the first of the next pass.
func (a *Actor) pass(p *Pass) error {
	defer a.team.Park()
	a.traced = p.Ctx
	if trace.IsEnabled() {
		ctx, task := trace.NewTask(p.Ctx, "pass")
		defer task.End()
		a.traced = ctx
	}
	if err := a.rows(p); err != nil {
		return err
	}
	a.rope.turn(a.row)
	defer a.release()
	if scale := a.model.EmbedScale; scale != 1 {
		vec.Scale(p.Hidden, scale)
	}
	blocks := len(a.model.Blocks)
	for l := range a.model.Layers {
		if err := a.layer(p, l); err != nil {
			return fmt.Errorf("layer %d: %w", l, err)
		}
		if p.Progress != nil {
			p.Progress(a.block+1, blocks) // the layer's last
		}
	}
	if err := a.head(p); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	if p.Progress != nil {
		p.Progress(blocks, blocks)
	}
	for _, s := range p.Spans {
		s.Cache.length += s.Tokens
	}
	return nil
}

// matrix returns a band of t's weights, waiting for its block if that is not the
// current.
func (a *Actor) matrix(p *Pass, t *model.Tensor, band int) (kernel.Matrix, error) {
	if block := t.Block + band; block != a.block {
		a.team.Park()
		if a.block >= 0 {
			a.region.End()
		}
		a.block = block
		if err := a.weights.Block(p.Ctx, block); err != nil {
			a.block = -1
			return kernel.Matrix{}, err
		}
		a.meter.Task(a.task, block)
		a.region = trace.StartRegion(a.traced, "block")
	}
	return a.weights.Matrix(t.Index), nil
}

// head computes the logits of the wanted rows. A pass that wants none still takes
// the head from the stream, so that the order of blocks is the same for every pass.
func (a *Actor) head(p *Pass) error {
	w := a.model.Global.Output
	a.step("head", w)
	dim, vocab := a.model.Dim, a.model.Vocab
	for band := range w.Bands {
		matrix, err := a.matrix(p, w, band)
		if err != nil {
			return err
		}
		for i := 0; i < len(a.wanted); i += tileRows {
			if band == 0 || len(a.wanted) > tileRows { // otherwise the tile holds them still
				rows := a.wanted[i:min(i+tileRows, len(a.wanted))]
				t := &a.tile
				t.normed = grow(t.normed, len(rows)*dim)
				for j, r := range rows {
					vec.RMSNorm(t.normed[j*dim:][:dim], p.Hidden[r*dim:][:dim], a.vectors[a.model.Global.OutputNorm], a.model.NormEps)
				}
				t.in.set(t.normed, len(rows), dim)
			}
			if err := a.band(p, p.Logits[i*vocab:min(i+tileRows, len(a.wanted))*vocab], w, nil, matrix, band); err != nil {
				return err
			}
		}
	}
	a.release()
	if c := a.model.LogitCap; c > 0 {
		vec.SoftCap(p.Logits, c)
	}
	return finite(p.Logits)
}

// finite returns [ErrNumeric] unless all of x are finite. A sum over x*0 is
// NaN exactly if one of them is not.
func finite(x []float32) error {
	var s [8]float32
	for len(x) >= 8 {
		for i := range s {
			s[i] += x[i] * 0
		}
		x = x[8:]
	}
	for _, v := range x {
		s[0] += v * 0
	}
	for _, v := range s {
		if v != 0 || math.IsNaN(float64(v)) {
			return ErrNumeric
		}
	}
	return nil
}

// grow returns a slice of n values, of s's memory if that suffices.
func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
