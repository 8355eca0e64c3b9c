//go:build unix

package dequant_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/layerpipe/layerpipe/dequant"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// An actor that fails stops a reader that would go on for ever, and every slot
// comes home.
func TestActorFails(t *testing.T) {
	blocks, parts := testBlocks()
	plan, err := dequant.NewPlan(blocks)
	require.NoError(t, err)
	f, err := os.Create(filepath.Join(t.TempDir(), "empty"))
	require.NoError(t, err)
	defer f.Close()
	lost, err := unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ, unix.MAP_SHARED) // beyond the end of the file
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(lost)) }()
	for depth := 1; depth <= 3; depth++ {
		r, err := ring.New(depth, 0, plan.WorkBytes(0))
		require.NoError(t, err)
		g := stage.NewGroup(t.Context())
		a := &dequant.Actor{Plan: plan, Pins: make([][]byte, 2), Interleave: reverse, In: r.NewLink(), Out: r.NewLink(), Mapped: true}
		g.Go("dequantizer", a.Run)
		g.Go("reader", func(ctx context.Context) error {
			defer a.In.Close()
			for n := 1; ; n++ {
				s, err := r.Acquire(ctx, nil)
				if err != nil {
					return err
				}
				s.Block, s.Parts = 0, append(s.Parts, parts...)
				if n == 5 {
					s.Parts[0] = lost[:len(parts[0])]
				}
				a.In.Send(s)
			}
		})
		a.Out.Drain() // to its end, which a failure brings too
		require.ErrorIs(t, g.Wait(), ring.ErrFault)
		a.In.Drain()
		require.True(t, r.Idle(), "a slot is not home")
		r.Close()
	}
}
