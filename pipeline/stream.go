package pipeline

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// A Block is what a [Stream] loads at once, and an Extent a run of bytes of it.
type (
	Block  = ioactor.Block
	Extent = ioactor.Extent
)

// ErrClosed reports the use of an engine or a stream that has been closed.
var ErrClosed = errors.New("pipeline: closed")

// StreamConfig says what a [Stream] streams and how.
type StreamConfig struct {
	Files  []string // the files that the blocks' extents lie in
	Blocks []Block  // in the order in which they will be wanted, over and over
	// Buffers is the number of slots, the depth of the ring: 1 reads and
	// consumes alternately, 2 reads one block while another is in use. Zero
	// means 2.
	Buffers int
	// Backend is how the files are read. The zero value is [Pread].
	Backend Backend
	// Hint is what [Pread] and [Mmap] tell the kernel. The zero value is nothing.
	Hint ioactor.Hint
	// Probe is what [ioactor.Probe] has measured on one of the files: [Direct] reads
	// as it found best. Without a probe, Direct reads one block at a time.
	Probe *ioactor.ProbeResult
}

// A Stream brings blocks of bytes from storage, in cyclic order and ahead of
// their use. It is the engine's lower half, for programs that have blocks of
// their own: no language model is involved.
//
// A stream runs a reader in a goroutine of its own, from [OpenStream] to
// [Stream.Close]. Its methods may be called from one goroutine at a time, but
// for Stats, which may be called from any.
type Stream struct {
	group    *stage.Group
	ring     *ring.Ring
	backends []ioactor.Backend
	loaded   *ring.Link // from the reader; ready itself if nobody is in between
	ready    *ring.Link
	demands  chan ioactor.Demand
	reader   *stage.Meter
	current  *ring.Slot

	// consumer is the meter of whoever takes blocks: it waits for input when none
	// is ready.
	consumer *stage.Meter

	pinned   []bool // by block: it stays in memory once it has come
	resident []bool // and it has
	missing  int    // blocks that are not resident

	mu    sync.Mutex // guards stats, held for a copy
	stats StreamStats

	close  sync.Once
	closed error // what Close returns
}

// StreamStats counts what a [Stream] has done. Hits + Misses is the number of
// blocks asked for, also of those that did not come because a context ended.
type StreamStats struct {
	Reader    stage.Counts  `json:"reader"`
	Hits      int64         `json:"prefetch_hits"`   // blocks that were ready, or stay in memory
	Misses    int64         `json:"prefetch_misses"` // blocks that the consumer waited for
	Resident  int64         `json:"resident_hits"`   // hits of blocks that stay in memory
	Loaded    int64         `json:"pinned_loaded"`   // blocks that are to stay in memory and have come
	Discarded int64         `json:"discarded"`       // blocks loaded and given back unused, because another was asked for
	Stall     time.Duration `json:"stall_nanos"`     // time that the consumer waited
}

// OpenStream opens the files and starts reading the first blocks. The stream lives
// until ctx ends, and must be closed then too. OpenStream fails if a file cannot
// be opened or an extent does not lie in its file.
func OpenStream(ctx context.Context, c StreamConfig) (*Stream, error) {
	sizes := make([]int64, len(c.Files))
	for i, path := range c.Files {
		fi, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		sizes[i] = fi.Size()
	}
	if err := ioactor.Check(c.Blocks, sizes); err != nil {
		return nil, err
	}
	if len(c.Blocks) == 0 {
		return nil, errors.New("stream: no blocks")
	}
	if c.Buffers == 0 {
		c.Buffers = defaultBuffers
	}
	how, setting := c.Backend.orPread(), storage{hint: c.Hint}
	if how.device {
		setting.asProbed(c.Probe, c.Buffers)
	}
	backends, err := how.open(c.Files, setting)
	if err != nil {
		return nil, err
	}
	slots, err := how.newRing(c.Buffers, c.Blocks, 0)
	if err != nil {
		return nil, errors.Join(err, closeAll(backends))
	}
	return newStream(stage.NewGroup(ctx), slots, backends, c.Blocks, make([]bool, len(c.Blocks)), new(stage.Meter), new(stage.Meter), nil), nil
}

// newStream starts the actors of a stream in group. It owns slots and backends.
// read and consumer are the meters of the reader and of whoever takes blocks.
// middle, if not nil, is the actor between them.
func newStream(group *stage.Group, slots *ring.Ring, backends []ioactor.Backend, blocks []Block, pinned []bool, read, consumer *stage.Meter, middle func(in, out *ring.Link) func(context.Context) error) *Stream {
	s := &Stream{
		group: group, ring: slots, backends: backends, ready: slots.NewLink(),
		demands: make(chan ioactor.Demand, 1), reader: read, consumer: consumer,
		pinned: pinned, resident: make([]bool, len(blocks)), missing: len(blocks),
	}
	s.loaded = s.ready
	if middle != nil {
		s.loaded = slots.NewLink()
	}
	reader := &ioactor.Reader{
		Blocks:   blocks,
		Schedule: ioactor.NewSchedule(len(blocks), slots.Depth(), func(b int) bool { return pinned[b] }),
		Backends: backends, Ring: slots, Out: s.loaded, Demands: s.demands, Meter: s.reader,
	}
	group.Go("reader", reader.Run)
	if middle != nil {
		group.Go("dequantizer", middle(s.loaded, s.ready))
	}
	return s
}

// Block waits until block b is in memory and returns its extents, one slice
// each. They are valid until the next call of Block, [Stream.Release] or
// Close; with the backend [View] they are read-only memory of the file, which
// faults if the file becomes shorter. A block that is not the next in order is
// fetched at once, unless it is under way already, and the order goes on behind
// it.
func (s *Stream) Block(ctx context.Context, b int) ([][]byte, error) {
	slot, err := s.take(ctx, b)
	if slot == nil {
		return nil, err
	}
	return slot.Parts, nil
}

// take makes b the current block. It returns nil and no error if b is resident
// and needs no slot.
func (s *Stream) take(ctx context.Context, b int) (*ring.Slot, error) {
	s.Release()
	if b < 0 || b >= len(s.resident) {
		return nil, fmt.Errorf("stream: block %d of %d", b, len(s.resident))
	}
	if s.resident[b] {
		s.count(func(c *StreamStats) { c.Hits++; c.Resident++ })
		return nil, nil
	}
	var waited bool
	var stall time.Duration
	discarded, demanded := int64(0), false
	for {
		slot, ok := s.ready.TryReceive()
		if !ok {
			waited = true
			s.consumer.Enter(stage.WaitingInput)
			s.consumer.Task("stall", b)
			var err error
			slot, err = s.ready.Receive(ctx, nil)
			stall += s.consumer.Enter(stage.Working)
			if err != nil {
				s.count(func(c *StreamStats) { c.Misses++; c.Stall += stall; c.Discarded += discarded })
				return nil, err
			}
		}
		if slot == nil {
			return nil, s.failure()
		}
		s.consumer.Read("ready slots", int64(s.ready.Len()))
		if s.pinned[slot.Block] {
			s.resident[slot.Block] = true
			s.missing--
			s.count(func(c *StreamStats) { c.Loaded++ })
		}
		if slot.Block == b {
			s.count(func(c *StreamStats) {
				if waited {
					c.Misses++
				} else {
					c.Hits++
				}
				c.Stall += stall
				c.Discarded += discarded
			})
			if s.resident[b] {
				slot.Free()
				s.retire()
				return nil, nil
			}
			s.current = slot
			return slot, nil
		}
		if !s.pinned[slot.Block] {
			discarded++
		}
		d := ioactor.Demand{Block: b, After: slot.Seq}
		slot.Free()
		if !demanded {
			demanded = true
			select {
			case <-s.demands: // one that the reader has not looked at: this one replaces it
			default:
			}
			s.demands <- d // never blocks: nobody else sends
		}
	}
}

// retire gives the slots back when all blocks are resident: the reader has
// ended, or is about to.
func (s *Stream) retire() {
	if s.missing == 0 {
		s.drain()
		s.ring.Close()
		s.ring = nil
	}
}

// drain waits until nothing comes any more from the actors, which have ended or
// are about to, and sends home what is under way.
func (s *Stream) drain() {
	s.loaded.Drain() // first: whoever is in between may end before the reader
	s.ready.Drain()
}

// failure says why the actors have ended. The link closes a moment before the
// failed actor's error is the group's.
func (s *Stream) failure() error {
	<-s.group.Context().Done()
	if err := context.Cause(s.group.Context()); err != nil && !errors.Is(err, stage.ErrStopped) {
		return err
	}
	return ErrClosed
}

func (s *Stream) count(f func(*StreamStats)) {
	s.mu.Lock()
	f(&s.stats)
	s.mu.Unlock()
}

// Release gives the current block back before the next is asked for, so that
// its slot can be loaded again.
func (s *Stream) Release() {
	if s.current != nil {
		s.current.Free()
		s.current = nil
	}
}

// Stats returns what has been counted up to now.
func (s *Stream) Stats() StreamStats {
	s.mu.Lock()
	st := s.stats
	s.mu.Unlock()
	st.Reader = s.reader.Counts()
	return st
}

// Close stops the reader within one read, waits until it has ended, and gives
// the memory and the files back. It returns the error that ended the stream, if
// one did, also when it is called again. After it Block fails with [ErrClosed].
func (s *Stream) Close() error {
	s.close.Do(func() {
		s.group.Stop()
		err := s.group.Wait()
		s.closed = errors.Join(err, s.free())
	})
	return s.closed
}

// free sends every slot home and gives memory and files back, after the actors
// have ended.
func (s *Stream) free() error {
	s.Release()
	s.drain()
	if s.ring != nil {
		s.ring.Close()
	}
	return closeAll(s.backends)
}
