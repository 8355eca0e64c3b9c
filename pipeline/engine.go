package pipeline

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/compute/kernel"
	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// An Engine runs one model. Its actors live from [Open] to [Engine.Close]. All
// methods but Close may be called from any goroutine; passes of different
// sessions take turns.
type Engine struct {
	model     *model.Model
	tokenizer *tokenizer.Tokenizer
	config    *config
	group     *stage.Group
	plan      *Plan
	stream    *Stream
	pins      []*ring.Memory
	rows      []ioactor.File // for rows of the embedding
	passes    chan *compute.Pass

	reader, dequantizer, compute *stage.Meter
	traced                       *traced // nil: no trace is kept
	passCount, rowBytes          atomic.Int64

	pages    sync.Once
	ordinary string // what Notes says of them

	close  sync.Once
	closed error // what Close returns
}

// Open opens the GGUF model at path, any shard of it if it is split, and starts
// the actors: the first blocks are being read when it returns. What cannot run
// fails here, before any token: errors.Is tells [gguf.ErrFormat],
// [gguf.ErrUnsupported], [model.ErrModel], [model.ErrUnsupported],
// [tokenizer.ErrUnsupported] apart.
func Open(path string, options ...Option) (*Engine, error) {
	return OpenContext(context.Background(), path, options...)
}

// OpenContext is [Open] until ctx ends. The engine lives on beyond it.
func OpenContext(ctx context.Context, path string, options ...Option) (*Engine, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	e := &Engine{
		config: c, group: stage.NewGroup(context.Background()), passes: make(chan *compute.Pass),
		reader: new(stage.Meter), dequantizer: new(stage.Meter), compute: new(stage.Meter),
	}
	if c.trace {
		e.traced = e.record()
	}
	if e.model, e.tokenizer, err = load(path, c); err != nil {
		return nil, err
	}
	if err := e.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), e.free())
	}
	return e, nil
}

// PlanFor makes the plan that [Open] would follow, without taking the memory or
// starting anything.
func PlanFor(ctx context.Context, path string, options ...Option) (*Plan, error) {
	c, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	m, _, err := load(path, c)
	if err != nil {
		return nil, err
	}
	p, err := newPlanner(m, c, residentNow("/"))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	plan, err := p.plan(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	plan.planner = p
	return plan, nil
}

// load reads what a model is, but no weights, and completes c.
func load(path string, c *config) (*model.Model, *tokenizer.Tokenizer, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, nil, err
	}
	m, err := model.New(f)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	var tok *tokenizer.Tokenizer
	if !c.noTokenizer {
		if tok, err = tokenizer.New(f.Metadata); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := m.CheckTokens(tok.Size()); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	if c.contextText != nil && !c.contextGiven {
		n := len(tok.Encode(*c.contextText, tokenizer.Options{AddSpecial: true}))
		c.contextMost = min(c.contextMost, m.Context) + n // the least first, so that the sum cannot overflow
	}
	c.setContext(m)
	return m, tok, nil
}

// start plans, takes the memory, opens the files and starts the actors.
func (e *Engine) start(ctx context.Context) (err error) {
	c := e.config
	p, err := newPlanner(e.model, c, residentNow("/"))
	if err != nil {
		return err
	}
	if e.plan, err = p.plan(ctx); err != nil {
		return err
	}
	plan := e.plan
	blocks := streamBlocks(e.model)
	layout, err := dequant.NewPlan(tensors(e.model, c, plan.pinned))
	if err != nil {
		return err
	}
	if e.pins, err = allocPins(layout, plan.pinned); err != nil {
		return err
	}
	if e.rows, err = ioactor.OpenFiles(e.model.File.Paths); err != nil {
		return err
	}
	vectors, err := e.readVectors(ctx)
	if err != nil {
		return err
	}
	var work int64
	for b := range blocks {
		if !plan.pinned[b] {
			work = max(work, layout.WorkBytes(b))
		}
	}
	slots, err := c.backend.newRing(plan.Buffers, blocks, work)
	if err != nil {
		return err
	}
	backends, err := c.backend.open(e.model.File.Paths, c.storage)
	if err != nil {
		slots.Close()
		return err
	}
	e.stream = newStream(e.group, slots, backends, blocks, plan.pinned, e.reader, e.compute, func(in, out *ring.Link) func(context.Context) error {
		return (&dequant.Actor{Plan: layout, Pins: pinBytes(e.pins), Interleave: interleave, Mapped: c.backend.view, In: in, Out: out, Meter: e.dequantizer}).Run
	})
	actor := compute.New(compute.Config{
		Model: e.model, Vectors: vectors, Threads: c.threads, Passes: e.passes, Meter: e.compute, Whole: e.traced.whole(), Mapped: c.backend.view,
		Context: c.ropeContext,
		Weights: &weights{stream: e.stream, plan: layout, pins: pinBytes(e.pins)},
	})
	e.group.Go("compute", actor.Run)
	if plan.PinnedBlocks > 0 {
		e.group.Go("pins", e.populate)
	}
	return nil
}

// populate makes the pages of the pins present, the last first, while the
// dequantizer fills the first: in a virtual machine new pages come at a fraction
// of the speed of storage, and two threads get nearly twice as many.
func (e *Engine) populate(ctx context.Context) error {
	for _, pin := range slices.Backward(e.pins) {
		pin.Populate(ctx)
	}
	return nil
}

// Notes says what is not as it was asked for, or deserves to be known: one
// sentence each, for the user. It is complete after the first pass.
func (e *Engine) Notes() []string {
	var notes []string
	add := func(note string) {
		if note != "" && !slices.Contains(notes, note) {
			notes = append(notes, note)
		}
	}
	add(e.plan.Warning)
	for _, b := range e.stream.backends {
		if n, ok := b.(interface{ Note() string }); ok {
			add(n.Note())
		}
	}
	if p := e.plan.Probe; p != nil && !p.Device {
		add(p.Reason)
	}
	add(e.ordinaryPages())
	return notes
}

// ordinaryPages says that slots and pinned blocks are not in the huge pages that
// were asked for, if so. It is looked at once, when a pass has filled them.
func (e *Engine) ordinaryPages() string {
	if e.passCount.Load() == 0 || runtime.GOOS != "linux" {
		return ""
	}
	e.pages.Do(func() {
		var all int64
		for _, i := range e.plan.Items {
			if i.Name == itemSlots && !e.config.backend.view || i.Name == itemPins {
				all += i.Bytes
			}
		}
		const few = 16 << 20 // rounded to huge pages, it says nothing
		if huge := ring.HugeBytes(); all >= few && huge < all/2 {
			e.ordinary = fmt.Sprintf("%s of the %s of slots and pinned blocks are in ordinary pages and not in huge ones, which makes reads and arithmetic slower: "+
				"/sys/kernel/mm/transparent_hugepage/enabled should say madvise or always, and the machine's free memory may be in pieces", mib(all-huge), mib(all))
		}
	})
	return e.ordinary
}

// streamBlocks gives the model's blocks to ioactor, which knows no tensors.
func streamBlocks(m *model.Model) []Block {
	blocks := make([]Block, len(m.Blocks))
	for i, b := range m.Blocks {
		blocks[i].Name = b.Name
		for _, e := range b.Extents {
			blocks[i].Extents = append(blocks[i].Extents, Extent(e))
		}
	}
	return blocks
}

// tensors gives the model's blocks to dequant, which knows no roles, and chooses
// the form of each. Panels are for what is pinned: it is interleaved once, as it
// is copied. To interleave a block that is streamed takes more time than the
// product of one token saves with it, on a core that the others want too, and the
// kernels bring rows into panels in the first-level cache anyway. Without pinned,
// which makes no difference to sizes, nothing is.
func tensors(m *model.Model, c *config, pinned []bool) [][]dequant.Tensor {
	blocks := make([][]dequant.Tensor, len(m.Blocks))
	for i, b := range m.Blocks {
		for _, t := range b.Tensors {
			d := dequant.Tensor{
				Name: t.Name, Type: t.Type, Rows: t.Rows(), Cols: t.Dims[0], Part: t.Part, Off: t.Off, Form: dequant.Expand,
			}
			switch {
			case c.expand || !kernel.Supported(t.Type):
			case kernel.PanelLayout(d.Type, d.Rows, d.Cols) && separable(t.Tensor) && pinned != nil && pinned[i]:
				d.Form = dequant.Interleave
			default:
				d.Form = dequant.Keep
			}
			blocks[i] = append(blocks[i], d)
		}
	}
	return blocks
}

// separable reports whether no panel of eight rows would hold rows of two of the
// matrices, one an expert, that t consists of.
func separable(t *gguf.Tensor) bool { return len(t.Dims) < 3 || t.Dims[1]%8 == 0 }

// interleave makes panels of t's rows.
func interleave(t *dequant.Tensor, dst, src []byte) {
	kernel.Interleave(t.Type, t.Rows, t.Cols, dst, src)
}

func allocPins(plan *dequant.Plan, pinned []bool) ([]*ring.Memory, error) {
	pins := make([]*ring.Memory, len(pinned))
	for b := range pinned {
		if !pinned[b] {
			continue
		}
		var err error
		if pins[b], err = ring.Alloc(plan.PinBytes(b)); err != nil {
			freeAll(pins)
			return nil, fmt.Errorf("pin block %d: %w", b, err)
		}
	}
	return pins, nil
}

func freeAll(ms []*ring.Memory) {
	for _, m := range ms {
		m.Free()
	}
}

func pinBytes(pins []*ring.Memory) [][]byte {
	bs := make([][]byte, len(pins))
	for i, m := range pins {
		bs[i] = m.Bytes()
	}
	return bs
}

// readVectors reads the norms, biases and factors, which stay in memory.
func (e *Engine) readVectors(ctx context.Context) (compute.Vectors, error) {
	vectors := compute.Vectors{}
	for _, t := range e.model.Vectors() {
		v := make([]float32, t.Dims[0])
		raw := make([]byte, t.Size)
		if err := ioactor.ReadFull(ctx, e.rows[t.File], raw, t.Offset); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if err := dequant.Float32(t.Type, v, raw); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		for i, x := range v {
			if x-x != 0 { // NaN or infinite
				return nil, fmt.Errorf("tensor %q: value %d: %w", t.Name, i, compute.ErrNumeric)
			}
		}
		vectors[t] = v
	}
	return vectors, nil
}

// embed reads the embedding's rows of tokens and expands them into dst.
func (e *Engine) embed(ctx context.Context, dst []float32, tokens []int32, raw []byte) error {
	t, dim := e.model.Global.Embedding, e.model.Dim
	row := int64(t.Type.RowBytes(dim))
	for i, id := range tokens {
		if id < 0 || int(id) >= e.model.Vocab {
			return fmt.Errorf("token %d: not in a vocabulary of %d", id, e.model.Vocab)
		}
		if err := ioactor.ReadFull(ctx, e.rows[t.File], raw[:row], t.Offset+int64(id)*row); err != nil {
			if ctx.Err() != nil {
				return err // nothing is wrong with the file
			}
			return fmt.Errorf("tensor %q: row %d: %w", t.Name, id, err)
		}
		e.rowBytes.Add(row)
		if err := dequant.Float32(t.Type, dst[i*dim:][:dim], raw[:row]); err != nil {
			return fmt.Errorf("tensor %q: row %d: %w", t.Name, id, err)
		}
	}
	return nil
}

// Model returns what the engine knows of its model. The caller must not change
// it.
func (e *Engine) Model() *model.Model { return e.model }

// Plan returns how the engine uses memory. The caller must not change it.
func (e *Engine) Plan() *Plan { return e.plan }

// Tokenizer returns the model's tokenizer, nil for an engine that was opened
// without.
func (e *Engine) Tokenizer() *tokenizer.Tokenizer { return e.tokenizer }

// Done returns a channel that is closed when the engine is told to stop, by
// [Engine.Close], or when an actor has failed.
func (e *Engine) Done() <-chan struct{} { return e.group.Context().Done() }

// Close stops the actors within one read or one product of a layer, waits until
// they have ended and every slot is home, and gives all memory back but that of
// sessions. It returns the error that ended the engine, if one did, also when it
// is called again. What is fed beside or after it fails with [ErrClosed].
func (e *Engine) Close() error {
	e.close.Do(func() {
		e.group.Stop()
		err := e.group.Wait()
		e.closed = errors.Join(e.named(err), e.free())
	})
	return e.closed
}

func (e *Engine) free() error {
	var err error
	if e.stream != nil {
		err = e.stream.free()
	}
	freeAll(e.pins)
	return errors.Join(err, ioactor.CloseFiles(e.rows))
}

// weights are the blocks of the stream, for compute.
type weights struct {
	stream *Stream
	plan   *dequant.Plan
	pins   [][]byte

	block int
	slot  *ring.Slot // nil if the current block is pinned
}

// Block implements [compute.Weights].
func (w *weights) Block(ctx context.Context, b int) (err error) {
	w.block = b
	w.slot, err = w.stream.take(ctx, b)
	return err
}

// Matrix implements [compute.Weights].
func (w *weights) Matrix(i int) kernel.Matrix {
	t := w.plan.Tensor(w.block, i)
	m := kernel.Matrix{Type: t.Type, Rows: t.Rows, Cols: t.Cols}
	switch t.Form {
	case dequant.Expand:
		m.Type = gguf.F32
	case dequant.Interleave:
		m.Layout = kernel.Panels
	}
	if w.slot != nil {
		m.Data = w.plan.InSlot(w.slot, i)
	} else {
		m.Data = w.plan.InPin(w.block, i, w.pins[w.block])
	}
	return m
}

// Release implements [compute.Weights].
func (w *weights) Release() {
	w.slot = nil
	w.stream.Release()
}
