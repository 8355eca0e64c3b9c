// Package readertest holds the tests that every backend of ioactor must pass,
// the benchmarks that compare them, and a decorator that makes them fail. It is
// an ordinary package, so that programs with backends of their own can use it:
//
//	func TestBackend(t *testing.T) {
//		readertest.Run(t, func(paths []string) (ioactor.Backend, error) { return Open(paths) })
//	}
package readertest

import (
	"context"

	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/ring"
)

// An Opener opens a backend over the files at paths; extents count by them.
type Opener = func(paths []string) (ioactor.Backend, error)

// A Hooked is a backend that does something before it loads, such as to fail,
// to wait, or to write down what it was asked for.
type Hooked struct {
	ioactor.Backend // may be nil if Before never returns nil
	// Before is called in every Load. n counts the loads from 1. The load goes
	// on if Before returns nil, and fails with what it returns if not.
	Before func(ctx context.Context, n int, b *ioactor.Block) error

	loads int
}

// Load implements [ioactor.Backend].
func (h *Hooked) Load(ctx context.Context, b *ioactor.Block, s *ring.Slot) error {
	h.loads++
	if err := h.Before(ctx, h.loads, b); err != nil {
		return err
	}
	return h.Backend.Load(ctx, b, s)
}
