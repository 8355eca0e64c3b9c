package ioactor

import (
	"context"
	"fmt"
	"runtime/trace"
	"sync"

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
	// Backends, at least one, load the blocks in turns. As many loads are under way
	// at once as there are backends and free slots, so that a device has its next
	// request before it ends the one at hand; blocks are sent on in order all the
	// same. If there are several, each has a goroutine of its own while Run runs.
	Backends []Backend
	Ring     *ring.Ring
	Out      *ring.Link    // of Ring; the reader closes it when it ends
	Demands  <-chan Demand // may be nil; looked at whenever a slot becomes free
	Meter    *stage.Meter
}

// Run loads blocks until ctx ends, a load fails, or nothing is left to load. No
// load is under way any more when it returns.
func (r *Reader) Run(ctx context.Context) error {
	r.Meter.Enter(stage.Working)
	defer r.Meter.Stop()
	defer r.Out.Close()
	if len(r.Backends) > 1 {
		return r.overlapped(ctx)
	}
	for {
		s, err := r.Ring.Acquire(ctx, r.Meter)
		if err != nil {
			return err
		}
		if !r.next(s) {
			return nil
		}
		r.Meter.Task("read", s.Block)
		if err := r.load(ctx, r.Backends[0], s); err != nil {
			s.Free()
			return err
		}
		r.send(s)
	}
}

// next chooses what s is to be loaded with. If nothing is left, s goes home.
func (r *Reader) next(s *ring.Slot) bool {
	select {
	case d := <-r.Demands:
		r.Schedule.Demand(d)
	default:
	}
	block, seq, ok := r.Schedule.Next()
	if !ok {
		s.Free()
		return false
	}
	s.Block, s.Seq = block, seq
	return true
}

// load loads s with its block.
func (r *Reader) load(ctx context.Context, backend Backend, s *ring.Slot) error {
	b := &r.Blocks[s.Block]
	defer trace.StartRegion(ctx, "read").End()
	if err := backend.Load(ctx, b, s); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &BlockError{Block: s.Block, Name: b.Name, Err: err}
	}
	return nil
}

func (r *Reader) send(s *ring.Slot) {
	r.Meter.Count(r.Blocks[s.Block].Bytes())
	r.Out.Send(s)
}

// A lane is a backend with the goroutine that loads by it, one slot at a time.
type lane struct {
	slot *ring.Slot // under way, the lane's goroutine holds it; nil for none
	in   chan *ring.Slot
	out  chan error // how the load of slot ended
}

// overlapped is [Reader.Run] with several loads under way. The lanes take turns,
// so the oldest load is always that of the lane behind the one that was served
// last. The reader works as long as one of them does; what the meter is told of
// is the oldest.
func (r *Reader) overlapped(ctx context.Context) error {
	loading, cancel := context.WithCancel(ctx)
	var lanes []lane
	var ended sync.WaitGroup
	for _, backend := range r.Backends {
		l := lane{in: make(chan *ring.Slot, 1), out: make(chan error, 1)}
		lanes = append(lanes, l)
		ended.Go(func() {
			for s := range l.in {
				l.out <- r.load(loading, backend, s)
			}
		})
	}
	oldest, under := 0, 0
	defer func() {
		cancel() // what is under way ends within one read
		for range under {
			<-lanes[oldest].out
			lanes[oldest].slot.Free()
			oldest = (oldest + 1) % len(lanes)
		}
		for _, l := range lanes {
			close(l.in)
		}
		ended.Wait()
	}()
	r.Meter.Enter(stage.WaitingRoom)
	for left := true; ; {
		var home <-chan *ring.Slot // nil while another load cannot begin
		if left && under < len(lanes) {
			home = r.Ring.Home()
		}
		var stop <-chan struct{} // a load sees by itself that ctx has ended
		var loaded <-chan error
		if under > 0 {
			loaded = lanes[oldest].out
		} else if !left {
			return nil
		} else {
			stop = ctx.Done()
		}
		select {
		case s := <-home:
			s.Hold()
			if left = r.next(s); !left {
				continue
			}
			l := &lanes[(oldest+under)%len(lanes)]
			if under == 0 {
				r.Meter.Enter(stage.Working)
				r.Meter.Task("read", s.Block)
			}
			under++
			l.slot = s
			l.in <- s // never blocks: the lane has nothing else to do
		case err := <-loaded:
			s := lanes[oldest].slot
			oldest, under = (oldest+1)%len(lanes), under-1
			if err != nil {
				s.Free()
				return err
			}
			r.send(s)
			if under > 0 {
				r.Meter.Task("read", lanes[oldest].slot.Block)
			} else {
				r.Meter.Enter(stage.WaitingRoom)
			}
		case <-stop:
			return context.Cause(ctx)
		}
	}
}
