// Package stage says what an actor is: a function under a context that is
// started by a [Group], meters its time with a [Meter], and ends when the group
// stops or the first actor fails.
//
// An actor owns what it receives until it sends it on. It selects on its
// context wherever it waits, returns the cause of the context when it is told
// to stop, and hands back all that it holds before it returns.
package stage

import (
	"context"
	"errors"
	"runtime/pprof"

	"golang.org/x/sync/errgroup"
)

// ErrStopped is the cause with which [Group.Stop] ends actors. It is not a
// failure: [Group.Wait] reports it as nil.
var ErrStopped = errors.New("stage: stopped")

// A Group is a set of actors that live and die together: the first that fails
// stops the others, and its error is the group's.
type Group struct {
	ctx  context.Context
	stop context.CancelCauseFunc
	g    *errgroup.Group
}

// NewGroup returns a group without actors. When ctx ends, the actors stop with
// its cause.
func NewGroup(ctx context.Context) *Group {
	ctx, stop := context.WithCancelCause(ctx)
	g, ctx := errgroup.WithContext(ctx)
	return &Group{ctx: ctx, stop: stop, g: g}
}

// Context is the context of the group's actors. Its cause is the first error.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts an actor in a goroutine of its own, labelled with name in
// profiles. The group owns the goroutine: [Group.Wait] waits for it.
func (g *Group) Go(name string, run func(context.Context) error) {
	g.g.Go(func() (err error) {
		pprof.Do(g.ctx, pprof.Labels("actor", name), func(ctx context.Context) { err = run(ctx) })
		return err
	})
}

// Stop tells all actors to end. It does not wait, may be called more than once
// and from any goroutine.
func (g *Group) Stop() { g.stop(ErrStopped) }

// Wait returns when every actor has ended: nil after [Group.Stop] or when all
// have finished, otherwise the first error. No actor may be started after it.
func (g *Group) Wait() error {
	err := g.g.Wait()
	g.stop(ErrStopped)
	if errors.Is(err, ErrStopped) {
		return nil
	}
	return err
}
