package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/stage"
)

// A Session is one sequence of tokens with its KV cache. Its methods may be
// called from one goroutine at a time; sessions of one engine may be used at
// once, their passes take turns.
type Session struct {
	engine *Engine
	cache  *compute.Cache
	span   [1]compute.Span
	pass   compute.Pass
	hidden []float32
	logits []float32
	raw    []byte // one row of the embedding as it lies in the file
}

// NewSession returns an empty sequence with room for so many positions, 0 for
// the engine's context. The caller closes it.
func (e *Engine) NewSession(room int) (*Session, error) {
	if room == 0 {
		room = e.config.context
	}
	cache, err := compute.NewCache(&e.model.Params, e.config.kv, room)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, cache: cache, raw: make([]byte, e.model.Global.Embedding.Type.RowBytes(e.model.Dim))}
	s.pass.Done = make(chan error, 1)
	return s, nil
}

// Len is the number of positions that have been computed.
func (s *Session) Len() int { return s.cache.Len() }

// Truncate forgets all positions from n on.
func (s *Session) Truncate(n int) { s.cache.Truncate(n) }

// Close frees the KV cache.
func (s *Session) Close() { s.cache.Free() }

// Feed computes tokens in one pass, after those that the session holds, and
// returns the logits behind the last wanted of them, Vocab values each. The
// slice is valid until the next Feed.
//
// Feed blocks for a pass. When ctx ends it returns its cause within one read,
// or one product of one layer, and the session is as it was before. A sequence
// that does not fit is a [compute.ErrFull], a model that computes no finite
// numbers a [compute.ErrNumeric].
func (s *Session) Feed(ctx context.Context, tokens []int32, wanted int) ([]float32, error) {
	return s.feed(ctx, tokens, wanted, nil)
}

func (s *Session) feed(ctx context.Context, tokens []int32, wanted int, progress func(done, blocks int)) ([]float32, error) {
	if len(tokens) == 0 || wanted < 0 || wanted > len(tokens) {
		return nil, fmt.Errorf("feed: %d tokens with %d logits", len(tokens), wanted)
	}
	if s.cache.Len()+len(tokens) > s.cache.Room() {
		return nil, fmt.Errorf("%w: %d of %d positions are used, and %d tokens more", compute.ErrFull, s.cache.Len(), s.cache.Room(), len(tokens))
	}
	e := s.engine
	s.hidden = grow(s.hidden, len(tokens)*e.model.Dim)
	s.logits = grow(s.logits, wanted*e.model.Vocab)
	if err := e.embed(ctx, s.hidden, tokens, s.raw); err != nil {
		return nil, err
	}
	s.span[0] = compute.Span{Cache: s.cache, Tokens: len(tokens), Logits: wanted}
	s.pass.Ctx, s.pass.Spans, s.pass.Hidden, s.pass.Logits, s.pass.Progress = ctx, s.span[:], s.hidden, s.logits, progress
	if err := e.run(&s.pass); err != nil {
		return nil, err
	}
	return s.logits, nil
}

// run hands p to the compute actor and waits for the outcome. It does not
// return before the actor has let go of p's memory.
func (e *Engine) run(p *compute.Pass) error {
	select {
	case e.passes <- p:
	case <-p.Ctx.Done():
		return context.Cause(p.Ctx)
	case <-e.group.Context().Done():
		return e.stream.failure()
	}
	err := <-p.Done // the actor answers every pass that it has taken
	if errors.Is(err, stage.ErrStopped) {
		err = e.stream.failure()
	}
	if err == nil {
		e.passCount.Add(1)
	}
	return err
}

func grow(s []float32, n int) []float32 {
	if cap(s) < n {
		return make([]float32, n)
	}
	return s[:n]
}
