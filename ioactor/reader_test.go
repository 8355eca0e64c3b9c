package ioactor_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ioactor/readertest"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

const blockBytes = 1000

// blocks are n blocks of one file, each all of its number.
func blocks(t *testing.T, n int) (bs []ioactor.Block, path string) {
	var file []byte
	for i := range n {
		bs = append(bs, ioactor.Block{Name: fmt.Sprintf("layer %d", i), Extents: []ioactor.Extent{{Off: int64(len(file)), Size: blockBytes}}})
		file = append(file, strings.Repeat(string(rune('a'+i)), blockBytes)...)
	}
	path = filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	return bs, path
}

// A rig is a reader under a group, and what it loads.
type rig struct {
	t       *testing.T
	ring    *ring.Ring
	link    *ring.Link
	group   *stage.Group
	meter   *stage.Meter
	demands chan ioactor.Demand

	backends []ioactor.Backend
	mu       sync.Mutex // guards loads
	loads    []int      // block numbers
}

type setting struct {
	blocks, depth int
	lanes         int // loads at once; 0 means 1
	once          func(int) bool
	// before is called before load n in the order of the blocks, from 1.
	before func(ctx context.Context, n int) error
	change func(bs []ioactor.Block)
}

func start(t *testing.T, c setting) *rig {
	bs, path := blocks(t, c.blocks)
	if c.change != nil {
		c.change(bs)
	}
	if c.once == nil {
		c.once = func(int) bool { return false }
	}
	slots, err := ring.New(c.depth, ioactor.LoadBytes(bs), 0)
	require.NoError(t, err)
	r := &rig{
		t: t, ring: slots, link: slots.NewLink(), group: stage.NewGroup(t.Context()), meter: new(stage.Meter),
		demands: make(chan ioactor.Demand, 1),
	}
	before := func(ctx context.Context, _ int, b *ioactor.Block) error {
		r.mu.Lock()
		block, round := 0, 0
		for &bs[block] != b {
			block++
		}
		for _, other := range r.loads {
			if other == block {
				round++
			}
		}
		r.loads = append(r.loads, block)
		r.mu.Unlock()
		if c.before == nil {
			return nil
		}
		return c.before(ctx, round*len(bs)+block+1)
	}
	for range max(1, c.lanes) {
		pread, err := openPread(ioactor.HintNone)([]string{path})
		require.NoError(t, err)
		r.backends = append(r.backends, &readertest.Hooked{Backend: pread, Before: before})
	}
	reader := &ioactor.Reader{
		Blocks: bs, Schedule: ioactor.NewSchedule(len(bs), c.depth, c.once), Backends: r.backends,
		Ring: slots, Out: r.link, Demands: r.demands, Meter: r.meter,
	}
	r.group.Go("reader", reader.Run)
	return r
}

// receive takes the next slot, which must hold a block as it is in the file.
func (r *rig) receive() *ring.Slot {
	r.t.Helper()
	s, err := r.link.Receive(r.t.Context(), nil)
	require.NoError(r.t, err)
	if s != nil {
		require.Len(r.t, s.Parts, 1)
		require.Equal(r.t, strings.Repeat(string(rune('a'+s.Block)), blockBytes), string(s.Parts[0]))
	}
	return s
}

// stop ends the rig and returns the group's error. Every slot must be home.
func (r *rig) stop() error {
	r.t.Helper()
	r.group.Stop()
	err := r.group.Wait()
	r.link.Drain() // returns: the reader has closed its link
	require.True(r.t, r.ring.Idle(), "a slot was not given back")
	r.ring.Close()
	for _, b := range r.backends {
		require.NoError(r.t, b.Close())
	}
	return err
}

// each calls test for depths and numbers of loads at once.
func each(t *testing.T, test func(t *testing.T, depth, lanes int)) {
	for depth := 1; depth <= 4; depth++ {
		for lanes := 1; lanes <= 3; lanes++ {
			t.Run(fmt.Sprintf("depth %d, %d at once", depth, lanes), func(t *testing.T) { test(t, depth, lanes) })
		}
	}
}

func TestReaderOrder(t *testing.T) {
	each(t, func(t *testing.T, depth, lanes int) {
		r := start(t, setting{blocks: 3, depth: depth, lanes: lanes})
		for i := range 20 {
			s := r.receive()
			require.Equal(t, i%3, s.Block)
			require.Equal(t, uint64(i+1), s.Seq)
			s.Free()
		}
		require.NoError(t, r.stop())
		require.GreaterOrEqual(t, len(r.loads), 20)
		require.LessOrEqual(t, len(r.loads), 20+depth, "more is loaded than the ring holds")
		c := r.meter.Counts()
		require.GreaterOrEqual(t, c.Blocks, int64(20))
		require.Equal(t, c.Blocks*blockBytes, c.Bytes)
	})
}

// Loads that end in another order than they began in are sent on in order.
func TestReaderLoadsOvertake(t *testing.T) {
	second := make(chan struct{})
	r := start(t, setting{blocks: 4, depth: 2, lanes: 2, before: func(_ context.Context, n int) error {
		switch n {
		case 1:
			<-second // the first ends behind the second
		case 2:
			close(second)
		}
		return nil
	}})
	for i := range 8 {
		s := r.receive()
		require.Equal(t, i%4, s.Block)
		s.Free()
	}
	require.NoError(t, r.stop())
}

// As many loads are under way at once as there are backends and free slots, and
// no more.
func TestReaderInFlight(t *testing.T) {
	each(t, func(t *testing.T, depth, lanes int) {
		synctest.Test(t, func(t *testing.T) {
			var now atomic.Int64
			goOn := make(chan struct{})
			r := start(t, setting{blocks: 5, depth: depth, lanes: lanes, before: func(context.Context, int) error {
				now.Add(1)
				<-goOn
				return nil
			}})
			synctest.Wait()
			require.Equal(t, int64(min(depth, lanes)), now.Load())
			close(goOn)
			synctest.Wait()
			require.NoError(t, r.stop())
		})
	})
}

// When all blocks stay in memory, the reader ends by itself, without an error.
func TestReaderEnds(t *testing.T) {
	each(t, func(t *testing.T, depth, lanes int) {
		r := start(t, setting{blocks: 4, depth: depth, lanes: lanes, once: func(int) bool { return true }})
		for i := range 4 {
			s := r.receive()
			require.Equal(t, i, s.Block)
			s.Free()
		}
		require.Nil(t, r.receive(), "the link is closed")
		require.NoError(t, r.group.Wait())
		require.NoError(t, r.stop())
		require.ElementsMatch(t, []int{0, 1, 2, 3}, r.loads)
	})
}

// Whichever load fails, the error names its block, what was loaded before
// arrives, and every slot comes home.
func TestReaderFails(t *testing.T) {
	boom := errors.New("boom")
	each(t, func(t *testing.T, depth, lanes int) {
		for k := 1; k <= 9; k++ {
			r := start(t, setting{blocks: 4, depth: depth, lanes: lanes, before: func(_ context.Context, n int) error {
				if n == k {
					return boom
				}
				return nil
			}})
			got := 0
			for s := r.receive(); s != nil; s = r.receive() {
				got++
				s.Free()
			}
			err := r.group.Wait()
			require.ErrorIs(t, err, boom)
			failed, ok := errors.AsType[*ioactor.BlockError](err)
			require.True(t, ok, "%T", err)
			want := (k - 1) % 4
			require.Equal(t, ioactor.BlockError{Block: want, Name: fmt.Sprintf("layer %d", want), Err: boom}, *failed)
			require.EqualError(t, err, fmt.Sprintf("load layer %d: boom", want))
			require.Equal(t, k-1, got)
			require.Equal(t, int64(k-1), r.meter.Counts().Blocks, "a load that failed does not count")
			require.ErrorIs(t, r.stop(), boom)
			require.Less(t, len(r.loads), k+lanes)
		}
	})
}

// Whichever load hangs until it is cancelled, the stop is no error, and every
// slot comes home.
func TestReaderStops(t *testing.T) {
	each(t, func(t *testing.T, depth, lanes int) {
		for k := 1; k <= 9; k++ {
			hangs := make(chan struct{})
			r := start(t, setting{blocks: 4, depth: depth, lanes: lanes, before: func(ctx context.Context, n int) error {
				if n < k {
					return nil
				}
				if n == k {
					close(hangs)
				}
				<-ctx.Done()
				return ctx.Err() // not even the cause: the reader returns that
			}})
			for range k - 1 {
				r.receive().Free()
			}
			<-hangs
			require.NoError(t, r.stop())
			require.Less(t, len(r.loads), k+lanes)
		}
	})
}

// Stopped while it waits for a slot.
func TestReaderStopsWithoutRoom(t *testing.T) {
	each(t, func(t *testing.T, depth, lanes int) {
		synctest.Test(t, func(t *testing.T) {
			r := start(t, setting{blocks: 4, depth: depth, lanes: lanes})
			synctest.Wait()
			require.Len(t, r.loads, depth, "as many as there are slots")
			require.NoError(t, r.stop())
		})
	})
}

// A block whose extent is not in its file.
func TestReaderWrongExtents(t *testing.T) {
	r := start(t, setting{blocks: 3, depth: 2, change: func(bs []ioactor.Block) { bs[2].Extents[0].Off++ }})
	for s := r.receive(); s != nil; s = r.receive() {
		s.Free()
	}
	err := r.stop()
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorContains(t, err, "load layer 2: read ")
	require.ErrorContains(t, err, "model.gguf: byte 3000 of a range to 3001")
	failed, ok := errors.AsType[*ioactor.BlockError](err)
	require.True(t, ok)
	require.Equal(t, 2, failed.Block)
}

// What the reader loads when the consumer, which has received block 0, asks
// for a block. The virtual clock lets it load all it can before that.
func TestReaderDemand(t *testing.T) {
	for _, tc := range []struct {
		name  string
		depth int
		want  int
		loads []int // until the demanded block has come, and one slot more is free
	}{
		{"next in order, loaded already", 3, 1, []int{0, 1, 2, 3, 4}},
		{"under way behind another", 3, 2, []int{0, 1, 2, 3, 4, 5}},
		{"the next to be loaded", 2, 2, []int{0, 1, 2, 3, 4}},
		{"another", 2, 5, []int{0, 1, 5, 6, 7}},
		{"the one that has just been used", 2, 0, []int{0, 1, 0, 1, 2}},
		{"another, with one slot", 1, 5, []int{0, 5, 6}},
	} {
		for _, lanes := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d at once", tc.name, lanes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := start(t, setting{blocks: 8, depth: tc.depth, lanes: lanes})
					synctest.Wait() // the ring is full
					s := r.receive()
					require.Equal(t, 0, s.Block)
					r.demands <- ioactor.Demand{Block: tc.want, After: s.Seq}
					s.Free()
					for {
						synctest.Wait()
						s := r.receive()
						block := s.Block
						s.Free()
						if block == tc.want {
							break
						}
					}
					synctest.Wait()
					require.NoError(t, r.stop())
					require.ElementsMatch(t, tc.loads, r.loads)
					if lanes == 1 { // of those at once, either may begin first
						require.Equal(t, tc.loads, r.loads)
					}
				})
			})
		}
	}
}

// With one slot reading and consuming alternate, with more they overlap.
// synctest's clock is virtual, so times are exact.
func TestReaderOverlap(t *testing.T) {
	const n, ms = 10, time.Millisecond
	for _, tc := range []struct {
		depth, lanes     int
		read, use        time.Duration
		want, wantWaited time.Duration // until the last block was used; how long the reader waited for a slot by then
	}{
		{depth: 1, read: 3 * ms, use: 5 * ms, want: n * (3 + 5) * ms, wantWaited: n * 5 * ms},
		{depth: 2, read: 3 * ms, use: 5 * ms, want: (3 + n*5) * ms, wantWaited: (3 + n*5 - 3*(n+1)) * ms},
		{depth: 3, read: 3 * ms, use: 5 * ms, want: (3 + n*5) * ms, wantWaited: (3 + n*5 - 3*(n+2)) * ms},
		{depth: 1, read: 5 * ms, use: 3 * ms, want: n * (5 + 3) * ms, wantWaited: n * 3 * ms},
		{depth: 2, read: 5 * ms, use: 3 * ms, want: (n*5 + 3) * ms, wantWaited: 0},
		{depth: 2, read: 4 * ms, use: 4 * ms, want: (n + 1) * 4 * ms, wantWaited: 0},
		// A device that does two loads at once as fast as one.
		{depth: 1, lanes: 2, read: 3 * ms, use: 5 * ms, want: n * (3 + 5) * ms, wantWaited: n * 5 * ms},
		{depth: 3, lanes: 2, read: 6 * ms, use: 3 * ms, want: (6 + n*3) * ms, wantWaited: 0},
		{depth: 3, lanes: 2, read: 2 * ms, use: 4 * ms, want: (2 + n*4) * ms, wantWaited: (2 + n*4 - 4 - 2*(n-1)) * ms},
	} {
		t.Run(fmt.Sprintf("depth %d, %d at once, read %v, use %v", tc.depth, max(1, tc.lanes), tc.read, tc.use), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				r := start(t, setting{blocks: 4, depth: tc.depth, lanes: tc.lanes, before: func(context.Context, int) error {
					time.Sleep(tc.read)
					return nil
				}})
				for range n - 1 {
					s := r.receive()
					time.Sleep(tc.use)
					s.Free()
				}
				s := r.receive()
				time.Sleep(tc.use)
				require.Equal(t, tc.want, time.Since(begin))
				synctest.Wait()
				c := r.meter.Counts()
				require.Equal(t, tc.want, c.Working+c.WaitingRoom, "the reader's times add up")
				require.Equal(t, tc.wantWaited, c.WaitingRoom)
				require.Zero(t, c.WaitingInput)
				s.Free()
				require.NoError(t, r.stop())
			})
		})
	}
}
