package dequant

import (
	"context"
	"fmt"
	"runtime/debug"
	"runtime/trace"
	"unsafe"

	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// An Actor prepares the tensors of loaded blocks for compute, as its plan says.
type Actor struct {
	Plan *Plan
	// Pins holds the memory of the pinned blocks by block number, nil for those
	// that are streamed. A pinned block is prepared into its pin; its slot goes
	// on with nothing in it that anybody needs.
	Pins [][]byte
	// Interleave makes panels of t's rows, from src to dst, which may be the
	// same bytes. It is only called for tensors with the form of that name.
	Interleave func(t *Tensor, dst, src []byte)
	In, Out    *ring.Link // the actor closes Out when it ends
	// Mapped says that slots may point into mappings of files: what cannot be
	// read there is a [ring.ErrFault].
	Mapped bool
	Meter  *stage.Meter
}

// Run prepares blocks until In is closed, ctx ends, or a block cannot be
// prepared. Then slots may still be on In: it does not wait for the reader, which
// goes on until it hears of the failure. Whoever started both must drain In once
// they have ended.
func (a *Actor) Run(ctx context.Context) error {
	a.Meter.Enter(stage.Working)
	defer a.Meter.Stop()
	defer a.Out.Close()
	for {
		s, err := a.In.Receive(ctx, a.Meter)
		if s == nil {
			return err
		}
		a.Meter.Task("dequantize", s.Block)
		region := trace.StartRegion(ctx, "dequantize")
		n, err := a.guarded(ctx, s)
		region.End()
		if err != nil {
			s.Free()
			return err
		}
		a.Meter.Count(n)
		a.Out.Send(s)
		a.Meter.Read("ready slots", int64(a.Out.Len()))
	}
}

// guarded is prepare with faults of mapped memory as errors.
func (a *Actor) guarded(ctx context.Context, s *ring.Slot) (n int64, err error) {
	if a.Mapped {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer ring.CatchFault(&err)
	}
	return a.prepare(ctx, s)
}

func (a *Actor) prepare(ctx context.Context, s *ring.Slot) (n int64, err error) {
	pin := a.Pins[s.Block]
	for i := range a.Plan.blocks[s.Block] {
		t := &a.Plan.blocks[s.Block][i]
		if pin == nil && t.Form == Keep {
			continue
		}
		src := s.Parts[t.Part][t.Off:][:t.Bytes()]
		var dst []byte
		if pin != nil {
			dst = a.Plan.InPin(s.Block, i, pin)
		} else {
			dst = a.Plan.InSlot(s, i)
		}
		switch t.Form {
		case Keep:
			copy(dst, src)
		case Interleave:
			a.Interleave(t, dst, src)
		case Expand:
			if err := expand(ctx, t, dst, src); err != nil {
				return n, err
			}
		}
		n += t.PreparedBytes()
	}
	return n, nil
}

// expand goes row by row, so that it can be stopped within a large tensor.
func expand(ctx context.Context, t *Tensor, dst, src []byte) error {
	row := t.Type.RowBytes(t.Cols)
	out := unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(dst))), t.Rows*t.Cols)
	for r := range t.Rows {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := Float32(t.Type, out[r*t.Cols:][:t.Cols], src[r*row:][:row]); err != nil {
			return fmt.Errorf("tensor %q: row %d: %w", t.Name, r, err)
		}
	}
	return nil
}
