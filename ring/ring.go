// Package ring has the buffers that a pipeline streams through: a fixed set of
// slots outside the Go heap, and the bounded links that they travel on.
//
// A slot is always in exactly one place: at home in its [Ring], under way in a
// [Link], or in the hands of one actor. Whoever holds a slot may write it;
// sending it gives it away. That is the whole of the locking. The ring and its
// links panic when the rule is broken, and builds with the tag slotdebug or
// with the race detector overwrite a slot that comes home, so that an actor
// that kept an alias computes with NaNs and not with stale weights.
package ring

import (
	"context"
	"fmt"

	"github.com/layerpipe/layerpipe/stage"
)

// A Slot is one buffer of a [Ring].
type Slot struct {
	// Block and Seq say what was loaded: the number of the block, and the
	// place of this load in the order of all loads, from 1.
	Block int
	Seq   uint64
	// Parts are the loaded block's extents, one after the other. They lie in
	// [Slot.Load], or, for a backend that does not copy, in a file mapping.
	Parts [][]byte

	load, work *Memory
	ring       *Ring
	at         place
}

type place uint8

const (
	home place = iota
	held
	sent
)

// move panics unless the slot is where its user must have it: a slot that is
// freed or sent twice has two owners, which is a bug in the program.
func (s *Slot) move(from, to place) {
	if s.at != from {
		panic(fmt.Sprintf("ring: slot of block %d is %s, not %s", s.Block, s.at, from))
	}
	s.at = to
}

func (p place) String() string {
	return [...]string{"at home", "held by an actor", "under way in a link"}[p]
}

// Load is the area that a backend loads a block into.
func (s *Slot) Load() []byte { return s.load.Bytes() }

// Work is the area for what is made of the block, such as expanded weights.
func (s *Slot) Work() []byte { return s.work.Bytes() }

// Free sends the slot home. Only its holder may call it, once.
func (s *Slot) Free() {
	s.move(held, home) // before a byte is touched: it may be another's by now
	if poison {
		fill(s.Load())
		fill(s.Work())
	}
	s.Parts = s.Parts[:0]
	s.ring.free <- s // never blocks: there is room for every slot
}

// A Ring is a fixed set of slots. Its depth is the capacity of the channel
// that they are at home in.
type Ring struct {
	free  chan *Slot
	slots []*Slot
}

// MaxDepth is far more slots than any model has blocks. It keeps a mistyped
// depth from taking memory for the channels before the first slot is made.
const MaxDepth = 1 << 16

// New returns a ring of depth slots, each with a load area of load bytes and a
// work area of work bytes, both page-aligned and outside the Go heap. Whoever
// made it closes it.
func New(depth int, load, work int64) (*Ring, error) {
	if depth < 1 || depth > MaxDepth {
		return nil, fmt.Errorf("ring: depth %d: must be 1 to %d", depth, MaxDepth)
	}
	r := &Ring{free: make(chan *Slot, depth)}
	for range depth {
		s := &Slot{ring: r}
		r.slots = append(r.slots, s)
		var err error
		if s.load, err = Alloc(load); err == nil {
			s.work, err = Alloc(work)
		}
		if err != nil {
			r.release()
			return nil, fmt.Errorf("ring: slot of %d + %d bytes: %w", load, work, err)
		}
		r.free <- s
	}
	return r, nil
}

// Depth is the number of slots.
func (r *Ring) Depth() int { return cap(r.free) }

// Idle reports whether every slot is at home.
func (r *Ring) Idle() bool { return len(r.free) == cap(r.free) }

// Acquire waits for a slot that is at home. The caller holds the slot that it
// returns. If ctx ends first, the error is its cause.
func (r *Ring) Acquire(ctx context.Context, m *stage.Meter) (*Slot, error) {
	select {
	case s := <-r.free:
		s.Hold()
		return s, nil
	default:
	}
	m.Enter(stage.WaitingRoom)
	defer m.Enter(stage.Working)
	select {
	case s := <-r.free:
		s.Hold()
		return s, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Home is where the slots that are free can be received from, for an actor that
// waits for something else too. What it receives it must [Slot.Hold] at once.
func (r *Ring) Home() <-chan *Slot { return r.free }

// Hold makes the caller, who has received s from [Ring.Home], its holder.
func (s *Slot) Hold() { s.move(home, held) }

// Close gives the memory back. It panics if a slot is not at home: its holder
// would read unmapped memory.
func (r *Ring) Close() {
	if !r.Idle() {
		panic(fmt.Sprintf("ring: closed with %d of %d slots at home", len(r.free), cap(r.free)))
	}
	r.release()
}

func (r *Ring) release() {
	for _, s := range r.slots {
		s.load.Free()
		s.work.Free()
	}
}

// fill writes the bits of NaNs, of every float format that weights come in.
func fill(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = 0xff
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n]) // a byte at a time is slow under the race detector
	}
}
