package stage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/layerpipe/layerpipe/stage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// untilStopped is an actor that only waits.
func untilStopped(ctx context.Context) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestGroup(t *testing.T) {
	boom, bang := errors.New("boom"), errors.New("bang")
	fail := func(err error, after time.Duration) func(context.Context) error {
		return func(context.Context) error { time.Sleep(after); return err }
	}
	for _, tc := range []struct {
		name   string
		actors []func(context.Context) error
		do     func(g *stage.Group, cancelParent context.CancelCauseFunc)
		want   error
	}{
		{name: "no actors"},
		{name: "all finish", actors: []func(context.Context) error{fail(nil, 1), fail(nil, 2)}},
		{name: "one fails and stops the other", actors: []func(context.Context) error{untilStopped, fail(boom, 1)}, want: boom},
		{name: "the first error wins", actors: []func(context.Context) error{fail(bang, 2), fail(boom, 1), untilStopped}, want: boom},
		{
			name: "stopped", actors: []func(context.Context) error{untilStopped, untilStopped},
			do: func(g *stage.Group, _ context.CancelCauseFunc) { g.Stop() },
		},
		{
			name: "stopped twice", actors: []func(context.Context) error{untilStopped},
			do: func(g *stage.Group, _ context.CancelCauseFunc) { g.Stop(); g.Stop() },
		},
		{
			name: "stopped, and the actor says where it was", actors: []func(context.Context) error{func(ctx context.Context) error {
				return fmt.Errorf("block 3: %w", untilStopped(ctx))
			}},
			do: func(g *stage.Group, _ context.CancelCauseFunc) { g.Stop() },
		},
		{
			name: "the parent ends with a cause", actors: []func(context.Context) error{untilStopped, untilStopped},
			do: func(_ *stage.Group, cancel context.CancelCauseFunc) { cancel(bang) }, want: bang,
		},
		{
			name: "the parent ends without a cause", actors: []func(context.Context) error{untilStopped},
			do: func(_ *stage.Group, cancel context.CancelCauseFunc) { cancel(nil) }, want: context.Canceled,
		},
		{
			name: "a failure before the stop", actors: []func(context.Context) error{untilStopped, fail(boom, 1)},
			do: func(g *stage.Group, _ context.CancelCauseFunc) { time.Sleep(2 * time.Nanosecond); g.Stop() }, want: boom,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				parent, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				g := stage.NewGroup(parent)
				var running atomic.Int32
				for i, run := range tc.actors {
					running.Add(1)
					g.Go(fmt.Sprint(i), func(ctx context.Context) error {
						defer running.Add(-1)
						return run(ctx)
					})
				}
				if tc.do != nil {
					tc.do(g, cancel)
				}
				err := g.Wait()
				require.Zero(t, running.Load(), "Wait returned before the actors")
				require.Error(t, g.Context().Err(), "the context outlives the group")
				if tc.want == nil {
					require.NoError(t, err)
					return
				}
				require.ErrorIs(t, err, tc.want)
				require.ErrorIs(t, context.Cause(g.Context()), tc.want)
			})
		})
	}
}

// An actor that takes its time to stop holds Wait up, and the others see the
// error at once.
func TestGroupWaitsForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		g := stage.NewGroup(t.Context())
		start := time.Now()
		var told time.Duration
		g.Go("slow", func(ctx context.Context) error {
			err := untilStopped(ctx)
			told = time.Since(start)
			time.Sleep(time.Minute)
			return err
		})
		g.Go("fails", func(context.Context) error { time.Sleep(time.Second); return boom })
		require.ErrorIs(t, g.Wait(), boom)
		require.Equal(t, time.Second, told)
		require.Equal(t, time.Second+time.Minute, time.Since(start))
	})
}

// Goroutine profiles name the actor.
func TestGroupLabel(t *testing.T) {
	g := stage.NewGroup(t.Context())
	var label string
	var profile bytes.Buffer
	g.Go("dequantizer", func(ctx context.Context) error {
		label, _ = pprof.Label(ctx, "actor")
		return pprof.Lookup("goroutine").WriteTo(&profile, 1)
	})
	require.NoError(t, g.Wait())
	require.Equal(t, "dequantizer", label)
	require.Contains(t, profile.String(), `"actor":"dequantizer"`)
}
