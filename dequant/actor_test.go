package dequant_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// The blocks of these tests have three tensors in two parts: two F16 rows that
// are expanded, F32 values that are kept, and bytes that are "interleaved" by
// reversing them.
func testBlocks() ([][]dequant.Tensor, [][]byte) {
	halves := make([]byte, 2*16)
	for i := range 16 {
		binary.LittleEndian.PutUint16(halves[2*i:], dequant.F32ToF16(float32(i)))
	}
	floats := make([]byte, 4*4)
	for i := range 4 {
		binary.LittleEndian.PutUint32(floats[4*i:], math.Float32bits(float32(-i)))
	}
	ts := []dequant.Tensor{
		{Name: "expanded", Type: gguf.F16, Rows: 2, Cols: 8, Part: 0, Off: 0, Form: dequant.Expand},
		{Name: "kept", Type: gguf.F32, Rows: 1, Cols: 4, Part: 1, Off: 8, Form: dequant.Keep},
		{Name: "interleaved", Type: gguf.I8, Rows: 1, Cols: 8, Part: 1, Off: 0, Form: dequant.Interleave},
	}
	part1 := append([]byte{1, 2, 3, 4, 5, 6, 7, 8}, floats...)
	return [][]dequant.Tensor{ts, ts}, [][]byte{halves, part1}
}

func reverse(_ *dequant.Tensor, dst, src []byte) {
	r := slices.Clone(src)
	slices.Reverse(r)
	copy(dst, r)
}

func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// run sends blocks through an actor under ctx and hands each prepared slot to
// use.
func run(t *testing.T, ctx context.Context, plan *dequant.Plan, pins [][]byte, order []int, parts [][]byte, use func(*ring.Slot)) error {
	r, err := ring.New(2, 4096, plan.WorkBytes(0))
	require.NoError(t, err)
	a := &dequant.Actor{Plan: plan, Pins: pins, Interleave: reverse, In: r.NewLink(), Out: r.NewLink(), Meter: new(stage.Meter)}
	g := stage.NewGroup(ctx)
	g.Go("dequantizer", a.Run)
	g.Go("reader", func(ctx context.Context) error {
		defer a.In.Close()
		for i, b := range order {
			s, err := r.Acquire(ctx, nil)
			if err != nil {
				return err
			}
			s.Block, s.Seq = b, uint64(i+1)
			at := 0
			for _, p := range parts {
				s.Parts = append(s.Parts, s.Load()[at:][:len(p)])
				copy(s.Load()[at:], p)
				at += len(p)
			}
			a.In.Send(s)
		}
		return nil
	})
	for {
		s, err := a.Out.Receive(context.Background(), nil)
		require.NoError(t, err)
		if s == nil {
			break
		}
		use(s)
		s.Free()
	}
	err = g.Wait()
	a.In.Drain()
	require.True(t, r.Idle(), "a slot is not home")
	r.Close()
	return err
}

func TestActor(t *testing.T) {
	blocks, parts := testBlocks()
	plan, err := dequant.NewPlan(blocks)
	require.NoError(t, err)
	require.EqualValues(t, 64, plan.WorkBytes(0), "16 floats")
	require.EqualValues(t, 3*64, plan.PinBytes(1), "three tensors, each at a cache line of its own")
	pins := [][]byte{nil, make([]byte, plan.PinBytes(1))}
	var seen []int
	err = run(t, t.Context(), plan, pins, []int{0, 1, 0}, parts, func(s *ring.Slot) {
		seen = append(seen, s.Block)
		get := func(i int) []byte {
			if s.Block == 1 {
				return plan.InPin(1, i, pins[1])
			}
			return plan.InSlot(s, i)
		}
		require.Equal(t, []float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, floatsOf(get(0)))
		require.Equal(t, []float32{0, -1, -2, -3}, floatsOf(get(1)))
		require.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1}, get(2))
	})
	require.NoError(t, err)
	require.Equal(t, []int{0, 1, 0}, seen)
}

// countdown is a context that ends when it has been asked n times.
type countdown struct {
	context.Context
	cancel func()
	n      int
}

func (c *countdown) Err() error {
	if c.n--; c.n == 0 {
		c.cancel()
	}
	return c.Context.Err()
}

// The actor can be stopped within a tensor: at every row of every block.
func TestActorStopped(t *testing.T) {
	blocks, parts := testBlocks()
	plan, err := dequant.NewPlan(blocks)
	require.NoError(t, err)
	stop := errors.New("enough")
	for n := 1; n <= 4; n++ {
		ctx, cancel := context.WithCancelCause(t.Context())
		r, err := ring.New(1, 4096, plan.WorkBytes(0))
		require.NoError(t, err)
		a := &dequant.Actor{Plan: plan, Pins: make([][]byte, 2), Interleave: reverse, In: r.NewLink(), Out: r.NewLink()}
		done := make(chan error, 1)
		go func() { done <- a.Run(&countdown{ctx, func() { cancel(stop) }, n}) }()
		go func() {
			defer a.In.Close()
			for range 2 { // two rows are expanded in each
				s, err := r.Acquire(ctx, nil)
				if err != nil {
					return
				}
				s.Block = 0
				s.Parts = append(s.Parts, parts...)
				a.In.Send(s)
			}
		}()
		a.Out.Drain()
		require.ErrorIs(t, <-done, stop, "row %d", n)
		a.In.Drain()
		require.True(t, r.Idle())
		r.Close()
	}
}

func TestPlanRefuses(t *testing.T) {
	_, err := dequant.NewPlan([][]dequant.Tensor{{{Name: "blk.0.odd", Type: gguf.I64, Rows: 1, Cols: 1, Form: dequant.Expand}}})
	require.ErrorIs(t, err, dequant.ErrUnsupported)
	require.ErrorContains(t, err, `"blk.0.odd"`)
}
