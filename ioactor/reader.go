package ioactor

import (
	"context"
	"fmt"
	"runtime/trace"

	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// A Backend is a way to reach storage.
type Backend interface {
	// Load makes s.Parts the extents of b: copied into s.Load() where
	// [Block.Place] says, or left where the backend has them until the slot is
	// loaded again. It loads all or returns an error that names the file and
	// the offset. It returns the cause of ctx soon after that ends, within one
	// read. Load is called from one goroutine at a time.
	Load(ctx context.Context, b *Block, s *ring.Slot) error
	// Close gives the files back, after the last Load.
	Close() error
}

// A BlockError says which block could not be loaded.
type BlockError struct {
	Block int    // its number
	Name  string // and its name
	Err   error  // names file and offset
}

// Error implements error.
func (e *BlockError) Error() string { return fmt.Sprintf("load %s: %v", e.Name, e.Err) }

// Unwrap returns the cause.
func (e *BlockError) Unwrap() error { return e.Err }

// A Reader is the actor that loads blocks as its schedule says.
type Reader struct {
	Blocks   []Block
	Schedule *Schedule
	Backend  Backend
	Ring     *ring.Ring
	Out      *ring.Link    // of Ring; the reader closes it when it ends
	Demands  <-chan Demand // may be nil; looked at whenever a slot becomes free
	Meter    *stage.Meter
}

// Run loads blocks until ctx ends, a load fails, or nothing is left to load.
func (r *Reader) Run(ctx context.Context) error {
	r.Meter.Enter(stage.Working)
	defer r.Meter.Stop()
	defer r.Out.Close()
	for {
		s, err := r.Ring.Acquire(ctx, r.Meter)
		if err != nil {
			return err
		}
		select {
		case d := <-r.Demands:
			r.Schedule.Demand(d)
		default:
		}
		block, seq, ok := r.Schedule.Next()
		if !ok {
			s.Free()
			return nil
		}
		b := &r.Blocks[block]
		s.Block, s.Seq = block, seq
		r.Meter.Task("read", block)
		region := trace.StartRegion(ctx, "read")
		err = r.Backend.Load(ctx, b, s)
		region.End()
		if err != nil {
			s.Free()
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &BlockError{Block: block, Name: b.Name, Err: err}
		}
		r.Meter.Count(b.Bytes())
		r.Out.Send(s)
	}
}
