package ring_test

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRing(t *testing.T, depth int, load, work int64) *ring.Ring {
	t.Helper()
	r, err := ring.New(depth, load, work)
	require.NoError(t, err)
	return r
}

// acquire takes a slot that must be at home.
func acquire(t *testing.T, r *ring.Ring) *ring.Slot {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := r.Acquire(ctx, nil) // an ended context still gets what needs no waiting
	require.NoError(t, err)
	return s
}

func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }

func TestNew(t *testing.T) {
	for _, tc := range []struct {
		name       string
		depth      int
		load, work int64
	}{
		{"smallest", 1, 1, 0},
		{"without memory", 2, 0, 0},
		{"no multiple of a page", 3, 4097, 12345},
		{"large slots", 2, 5<<20 + 1, 2 << 20},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRing(t, tc.depth, tc.load, tc.work)
			defer r.Close()
			require.Equal(t, tc.depth, r.Depth())
			require.True(t, r.Idle())
			seen := map[uintptr]bool{}
			slots := make([]*ring.Slot, tc.depth)
			for i := range slots {
				slots[i] = acquire(t, r)
				require.False(t, r.Idle())
				for _, area := range []struct {
					bytes []byte
					size  int64
				}{{slots[i].Load(), tc.load}, {slots[i].Work(), tc.work}} {
					require.Len(t, area.bytes, int(area.size))
					require.Equal(t, int(area.size), cap(area.bytes), "an append must not reach what lies behind")
					if area.size > 0 {
						require.False(t, seen[address(area.bytes)], "areas share memory")
						seen[address(area.bytes)] = true
						area.bytes[0], area.bytes[area.size-1] = 1, 1
					}
				}
			}
			for _, s := range slots {
				s.Free()
			}
			require.True(t, r.Idle())
		})
	}
}

func TestNewErrors(t *testing.T) {
	for _, tc := range []struct {
		name       string
		depth      int
		load, work int64
		want       string
	}{
		{"no slots", 0, 1, 1, "ring: depth 0"},
		{"negative depth", -1, 1, 1, "ring: depth -1"},
		{"absurd depth", math.MaxInt, 0, 0, "ring: depth 9223372036854775807"},
		{"negative load area", 1, -1, 1, "ring: slot of -1 + 1 bytes: memory: -1 bytes"},
		{"negative work area", 1, 1, -2, "ring: slot of 1 + -2 bytes: memory: -2 bytes"},
		{"more than addresses", 2, 4096, math.MaxInt64, "ring: slot of 4096 + 9223372036854775807 bytes: memory"},
		{"more than the system has", 1, 1 << 60, 0, "ring: slot of 1152921504606846976 + 0 bytes: memory: map"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := ring.New(tc.depth, tc.load, tc.work)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestAlloc(t *testing.T) {
	const huge = 2 << 20
	for _, n := range []int64{1, 4095, 4096, 4097, huge - 1, huge, huge + 1, 3*huge + 5} {
		m, err := ring.Alloc(n)
		require.NoError(t, err)
		b := m.Bytes()
		require.Len(t, b, int(n))
		require.Zero(t, address(b)%uintptr(os.Getpagesize()), "%d bytes", n)
		if n >= huge {
			require.Zero(t, address(b)%huge, "%d bytes", n)
		}
		for i := range b {
			if b[i] != 0 {
				require.Failf(t, "not zeroed", "byte %d of %d", i, n)
			}
			b[i] = 1
		}
		m.Free()
		require.Nil(t, m.Bytes())
		m.Free() // is left alone
	}
	m, err := ring.Alloc(0)
	require.NoError(t, err)
	require.Empty(t, m.Bytes())
	m.Free()
	m = nil
	require.Empty(t, m.Bytes())
	m.Free()
}

func TestAcquireWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 1, 16, 0)
		defer r.Close()
		s := acquire(t, r)
		m := new(stage.Meter)
		m.Enter(stage.Working)
		time.AfterFunc(time.Second, s.Free)
		got, err := r.Acquire(t.Context(), m)
		require.NoError(t, err)
		require.Same(t, s, got)
		require.Equal(t, stage.Counts{WaitingRoom: time.Second}, m.Counts())
		time.Sleep(time.Second)
		require.Equal(t, stage.Counts{Working: time.Second, WaitingRoom: time.Second}, m.Counts())

		ctx, cancel := context.WithCancelCause(t.Context())
		boom := errors.New("boom")
		time.AfterFunc(time.Minute, func() { cancel(boom) })
		_, err = r.Acquire(ctx, nil)
		require.ErrorIs(t, err, boom)
		got.Free()
		require.True(t, r.Idle())
	})
}

// Slots that are in the wrong place are bugs of the program, and panic before
// anything is changed.
func TestMisuse(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(r *ring.Ring, l *ring.Link, s *ring.Slot)
		want string
		home bool // the slot has come home before the misuse
	}{
		{"freed twice", func(_ *ring.Ring, _ *ring.Link, s *ring.Slot) { s.Free(); s.Free() }, "ring: slot of block 7 is at home, not held by an actor", true},
		{"sent after free", func(_ *ring.Ring, l *ring.Link, s *ring.Slot) { s.Free(); l.Send(s) }, "ring: slot of block 7 is at home, not held by an actor", true},
		{"freed after send", func(_ *ring.Ring, l *ring.Link, s *ring.Slot) { l.Send(s); s.Free() }, "ring: slot of block 7 is under way in a link, not held by an actor", false},
		{"sent twice", func(_ *ring.Ring, l *ring.Link, s *ring.Slot) { l.Send(s); l.Send(s) }, "ring: slot of block 7 is under way in a link, not held by an actor", false},
		{"closed while held", func(r *ring.Ring, _ *ring.Link, _ *ring.Slot) { r.Close() }, "ring: closed with 1 of 2 slots at home", false},
		{"closed while under way", func(r *ring.Ring, l *ring.Link, s *ring.Slot) { l.Send(s); r.Close() }, "ring: closed with 1 of 2 slots at home", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRing(t, 2, 16, 16)
			l := r.NewLink()
			s := acquire(t, r)
			s.Block = 7
			require.PanicsWithValue(t, tc.want, func() { tc.do(r, l, s) })
			require.Equal(t, tc.home, r.Idle())
			// The panic left everything usable.
			l.Close()
			if got, err := l.Receive(t.Context(), nil); got != nil {
				require.NoError(t, err)
				got.Free()
			} else if !tc.home {
				s.Free()
			}
			require.True(t, r.Idle())
			r.Close()
		})
	}
}

// After a slot went home and out again, the memory is its new holder's. An
// alias that frees it late must not touch a byte.
func TestLateFree(t *testing.T) {
	r := newRing(t, 1, 4096, 0)
	defer r.Close()
	l := r.NewLink()
	s := acquire(t, r)
	s.Load()[0] = 42
	l.Send(s)
	require.Panics(t, s.Free)
	got, ok := l.TryReceive()
	require.True(t, ok)
	require.Equal(t, byte(42), got.Load()[0])
	got.Free()
}

func TestLink(t *testing.T) {
	r := newRing(t, 3, 16, 0)
	defer r.Close()
	l := r.NewLink()
	_, ok := l.TryReceive()
	require.False(t, ok, "nothing is there")

	// The whole ring fits: depth is capacity.
	for i := range r.Depth() {
		s := acquire(t, r)
		s.Block, s.Seq = i, uint64(i+1)
		l.Send(s)
	}
	require.False(t, r.Idle())
	for i := range 2 {
		s, err := l.Receive(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, i, s.Block, "in order")
		require.Equal(t, uint64(i+1), s.Seq)
		s.Free()
	}
	l.Close()
	s, ok := l.TryReceive()
	require.True(t, ok)
	require.Equal(t, 2, s.Block, "what was sent before the close still comes")
	s.Free()
	require.True(t, r.Idle())
	for range 2 {
		s, ok = l.TryReceive()
		require.True(t, ok)
		require.Nil(t, s)
		s, err := l.Receive(t.Context(), nil)
		require.NoError(t, err)
		require.Nil(t, s)
	}
}

func TestReceiveWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(t, 1, 16, 0)
		defer r.Close()
		l := r.NewLink()
		m := new(stage.Meter)
		m.Enter(stage.Working)
		s := acquire(t, r)
		time.AfterFunc(time.Second, func() { l.Send(s) })
		got, err := l.Receive(t.Context(), m)
		require.NoError(t, err)
		require.Same(t, s, got)
		got.Free()

		ctx, cancel := context.WithCancelCause(t.Context())
		boom := errors.New("boom")
		time.AfterFunc(time.Second, func() { cancel(boom) })
		got, err = l.Receive(ctx, m)
		require.ErrorIs(t, err, boom)
		require.Nil(t, got)

		time.AfterFunc(time.Second, l.Close)
		got, err = l.Receive(t.Context(), m)
		require.NoError(t, err)
		require.Nil(t, got)
		require.Equal(t, stage.Counts{WaitingInput: 3 * time.Second}, m.Counts())
		require.True(t, r.Idle())
	})
}

// A slot that is under way when its receiver gives up comes home.
func TestDrain(t *testing.T) {
	r := newRing(t, 2, 16, 0)
	defer r.Close()
	l := r.NewLink()
	var sender sync.WaitGroup
	sender.Go(func() {
		defer l.Close()
		for range 100 {
			s, err := r.Acquire(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			l.Send(s)
		}
	})
	s, err := l.Receive(t.Context(), nil)
	require.NoError(t, err)
	s.Free()
	l.Drain()
	sender.Wait()
	require.True(t, r.Idle())
	l.Drain() // of a link that is closed and empty: nothing to do
}

// Parts are the holder's; they do not survive the way home.
func TestFreeForgetsParts(t *testing.T) {
	r := newRing(t, 1, 16, 0)
	defer r.Close()
	s := acquire(t, r)
	s.Parts = append(s.Parts, s.Load()[:4])
	s.Free()
	s = acquire(t, r)
	require.Empty(t, s.Parts)
	s.Free()
}

func TestCloseTwice(t *testing.T) {
	r := newRing(t, 2, 4096, 4096)
	r.Close()
	r.Close()
}

// Slots go round from hand to hand; the race detector watches that a hand-over
// orders all that the holders write.
func TestHandOver(t *testing.T) {
	r := newRing(t, 3, 64, 64)
	defer r.Close()
	a, b := r.NewLink(), r.NewLink()
	var actors sync.WaitGroup
	const n = 1000
	actors.Go(func() {
		defer a.Close()
		for i := range n {
			s, err := r.Acquire(t.Context(), nil)
			if err != nil {
				t.Error(err)
				return
			}
			s.Block = i
			s.Load()[0] = byte(i)
			a.Send(s)
		}
	})
	actors.Go(func() {
		defer b.Close()
		for {
			s, err := a.Receive(t.Context(), nil)
			if s == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			s.Work()[0] = s.Load()[0] + 1
			b.Send(s)
		}
	})
	for i := 0; ; i++ {
		s, err := b.Receive(t.Context(), nil)
		require.NoError(t, err)
		if s == nil {
			require.Equal(t, n, i)
			break
		}
		require.Equal(t, i, s.Block)
		require.Equal(t, byte(i)+1, s.Work()[0])
		s.Free()
	}
	actors.Wait()
	require.True(t, r.Idle())
}
