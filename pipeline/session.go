package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/ring"
	"github.com/layerpipe/layerpipe/stage"
)

// A Session is one sequence of tokens with its KV cache. Its methods may be
// called from one goroutine at a time; sessions of one engine may be used at
// once, their passes take turns.
type Session struct {
	// Progress, if not nil, is called as the passes that this session starts go
	// through the blocks, on another goroutine than the caller's. It must not
	// block. [Engine.Generate] calls that of its [GenConfig] instead.
	Progress func(done, blocks int)

	engine *Engine
	cache  *compute.Cache
	closed bool
	tokens []int32 // of the positions in cache

	// The buffers of the passes that this session starts.
	feeds  [1]Feed
	pass   compute.Pass
	before []int // lengths of the feeds' sessions
	flat   []float32
	logits [][]float32 // parts of flat, by feed
	row    []byte      // one row of the embedding as it lies in the file
}

// A Feed is what one session puts into a pass.
type Feed struct {
	Session *Session
	Tokens  []int32 // behind those that the session holds; at least one
	Logits  int     // behind how many of the last tokens logits are wanted
}

// NewSession returns an empty sequence with room for so many positions, 0 for
// the engine's context. The caller closes it. After [Engine.Close] it is
// [ErrClosed].
func (e *Engine) NewSession(room int) (*Session, error) {
	if e.group.Context().Err() != nil {
		return nil, e.failure()
	}
	if room < 0 {
		return nil, fmt.Errorf("session: room for %d positions", room)
	}
	if room == 0 {
		room = e.plan.Context
	}
	cache, err := compute.NewCache(&e.model.Params, e.config.kv, room)
	if err != nil {
		return nil, err
	}
	s := &Session{engine: e, cache: cache, row: make([]byte, e.model.Global.Embedding.Type.RowBytes(e.model.Dim))}
	s.pass.Done = make(chan error, 1)
	return s, nil
}

// Len is the number of positions that have been computed.
func (s *Session) Len() int { return s.cache.Len() }

// Truncate forgets all positions from n on. n below 0 counts as 0.
func (s *Session) Truncate(n int) {
	s.cache.Truncate(max(n, 0))
	s.tokens = s.tokens[:s.cache.Len()]
}

// keep forgets all but what s and prompt begin with alike, and returns how much
// that is. The last token of prompt is never kept: logits are wanted behind it.
func (s *Session) keep(prompt []int32) int {
	n := 0
	for n < len(s.tokens) && n < len(prompt)-1 && s.tokens[n] == prompt[n] {
		n++
	}
	s.Truncate(n)
	return n
}

// Close frees the KV cache. What is fed after it fails with [ErrClosed]; closing
// again does nothing. It must not be called beside a feed of the session.
func (s *Session) Close() {
	s.closed = true
	s.cache.Free()
}

// Feed computes tokens in one pass, after those that the session holds, and
// returns the logits behind the last wanted of them, Vocab values each. The
// slice is valid until the next Feed.
//
// Feed blocks for a pass. When ctx ends it returns its cause within one read,
// or one product of one layer, and the session is as it was before. A sequence
// that does not fit is a [compute.ErrFull], a model that computes no finite
// numbers a [compute.ErrNumeric].
func (s *Session) Feed(ctx context.Context, tokens []int32, wanted int) ([]float32, error) {
	return s.feed(ctx, tokens, wanted, s.Progress)
}

func (s *Session) feed(ctx context.Context, tokens []int32, wanted int, progress func(done, blocks int)) ([]float32, error) {
	s.feeds[0] = Feed{s, tokens, wanted}
	logits, err := s.engine.feed(ctx, s.feeds[:], progress)
	if err != nil {
		return nil, err
	}
	return logits[0], nil
}

// Feed computes what several sessions feed in one pass, a single trip through
// the model's file, and returns the logits of each, as [Session.Feed] would,
// to the bit. The slices belong to the first session and are valid until its
// next Feed.
func (e *Engine) Feed(ctx context.Context, feeds ...Feed) ([][]float32, error) {
	if len(feeds) == 0 || feeds[0].Session == nil {
		return nil, errors.New("feed: no session")
	}
	return e.feed(ctx, feeds, feeds[0].Session.Progress)
}

// feed computes feeds in passes of at most the chunk that the engine's plan
// allows; most often that is one.
func (e *Engine) feed(ctx context.Context, feeds []Feed, progress func(done, blocks int)) ([][]float32, error) {
	tokens, wanted, err := e.countFeeds(feeds)
	if err != nil {
		return nil, err
	}
	s := feeds[0].Session
	if n := wanted * e.model.Vocab; cap(s.flat) < n {
		s.flat = make([]float32, n)
	} else {
		s.flat = s.flat[:n]
	}
	s.before = s.before[:0]
	for _, f := range feeds {
		s.before = append(s.before, f.Session.Len())
	}
	chunk := e.plan.Chunk
	passes, rest := (tokens+chunk-1)/chunk, s.flat
	s.pass.Ctx, s.pass.Progress = ctx, progress
	for i := range passes {
		if progress != nil && passes > 1 {
			s.pass.Progress = func(done, blocks int) { progress(i*blocks+done, passes*blocks) }
		}
		err := s.fill(feeds, i*chunk, chunk, &rest)
		if err == nil {
			err = e.run(&s.pass)
		}
		if err != nil {
			for i, f := range feeds { // of which passes before may have been computed
				f.Session.Truncate(s.before[i])
			}
			return nil, err
		}
	}
	s.logits, rest = s.logits[:0], s.flat
	for _, f := range feeds {
		f.Session.tokens = append(f.Session.tokens, f.Tokens...)
		n := f.Logits * e.model.Vocab
		s.logits, rest = append(s.logits, rest[:n:n]), rest[n:]
	}
	return s.logits, nil
}

// countFeeds counts tokens and rows of logits, and refuses what cannot be fed.
func (e *Engine) countFeeds(feeds []Feed) (tokens, wanted int, err error) {
	for i, f := range feeds {
		switch {
		case f.Session == nil || f.Session.engine != e:
			return 0, 0, errors.New("feed: a session of another engine, or none")
		case f.Session.closed:
			return 0, 0, fmt.Errorf("feed: session: %w", ErrClosed)
		}
		if len(f.Tokens) == 0 || f.Logits < 0 || f.Logits > len(f.Tokens) {
			return 0, 0, fmt.Errorf("feed: %d tokens with %d logits", len(f.Tokens), f.Logits)
		}
		if used, room := f.Session.cache.Len(), f.Session.cache.Room(); used+len(f.Tokens) > room {
			return 0, 0, fmt.Errorf("%w: %d of %d positions are used, and %d tokens more", compute.ErrFull, used, room, len(f.Tokens))
		}
		for _, other := range feeds[:i] {
			if other.Session == f.Session {
				return 0, 0, errors.New("feed: a session twice in one pass")
			}
		}
		tokens, wanted = tokens+len(f.Tokens), wanted+f.Logits
	}
	return tokens, wanted, nil
}

// fill makes s.pass the pass of n tokens of feeds behind the first skip, and
// takes room for its logits from the front of logits.
func (s *Session) fill(feeds []Feed, skip, n int, logits *[]float32) error {
	e, dim := s.engine, s.engine.model.Dim
	p, wanted := &s.pass, 0
	p.Spans, p.Hidden = p.Spans[:0], p.Hidden[:0]
	for _, f := range feeds {
		part := f.Tokens[min(skip, len(f.Tokens)):min(skip+n, len(f.Tokens))]
		if len(part) > 0 {
			// The tokens with logits are the last of f, and so of this part.
			w := max(0, skip+len(part)-max(skip, len(f.Tokens)-f.Logits))
			p.Spans = append(p.Spans, compute.Span{Cache: f.Session.cache, Tokens: len(part), Logits: w})
			at := len(p.Hidden)
			p.Hidden = slices.Grow(p.Hidden, len(part)*dim)[:at+len(part)*dim]
			if err := e.embed(p.Ctx, p.Hidden[at:], part, s.row); err != nil {
				if e.group.Context().Err() != nil { // Close has closed the files
					return e.failure()
				}
				return err
			}
			wanted += w
			n -= len(part)
		}
		skip = max(0, skip-len(f.Tokens))
	}
	p.Logits, *logits = (*logits)[:wanted*e.model.Vocab], (*logits)[wanted*e.model.Vocab:]
	return nil
}

// run hands p to the compute actor and waits for the outcome. It does not
// return before the actor has let go of p's memory.
func (e *Engine) run(p *compute.Pass) error {
	select {
	case e.passes <- p:
	case <-p.Ctx.Done():
		return context.Cause(p.Ctx)
	case <-e.group.Context().Done():
		return e.failure()
	}
	err := <-p.Done // the actor answers every pass that it has taken
	if errors.Is(err, stage.ErrStopped) {
		err = e.failure()
	}
	e.traced.readMemory()
	if err == nil {
		e.passCount.Add(1)
	}
	return e.named(err)
}

// failure says why the actors have ended.
func (e *Engine) failure() error { return e.named(e.stream.failure()) }

// named names the model's files in an error that comes from where only memory is
// known.
func (e *Engine) named(err error) error {
	if errors.Is(err, ring.ErrFault) || errors.Is(err, compute.ErrNumeric) {
		return fmt.Errorf("%s: %w", strings.Join(e.model.File.Paths, ", "), err)
	}
	return err
}
