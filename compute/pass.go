package compute

import (
	"context"
	"errors"
	"fmt"
)

// ErrNumeric reports hidden states or logits that are not finite: a block of
// the model holds NaNs or infinities, or its values overflow.
var ErrNumeric = errors.New("compute: not a finite number")

// ErrFull reports a sequence that no longer fits its cache.
var ErrFull = errors.New("compute: the context is full")

// A Span is a run of tokens of one sequence within a pass.
type Span struct {
	// Cache is the sequence's; the span's first token has position Cache.Len().
	// When the pass has succeeded, its length has grown by Tokens.
	Cache  *Cache
	Tokens int
	// Logits says how many of the last tokens of the span logits are wanted for.
	Logits int
}

// A Pass takes hidden states through all blocks once. Whoever sends it to the
// [Actor] leaves it alone until Done answers.
type Pass struct {
	Ctx   context.Context
	Spans []Span
	// Hidden holds the embedded tokens of all spans in order, Dim values each;
	// the pass overwrites it.
	Hidden []float32
	// Logits receives Vocab values for each token that they are wanted for, in
	// order.
	Logits []float32
	// Progress, if not nil, is called on the actor's goroutine after each
	// block. It must not block.
	Progress func(done, blocks int)
	// Done receives the outcome. It must have room for one.
	Done chan error
}

// row is one token of a pass.
type row struct {
	cache *Cache
	pos   int
}

// rows lists the tokens of p and the rows whose logits are wanted.
func (a *Actor) rows(p *Pass) error {
	a.row, a.wanted = a.row[:0], a.wanted[:0]
	for _, s := range p.Spans {
		if s.Tokens < 1 || s.Logits < 0 || s.Logits > s.Tokens {
			return fmt.Errorf("compute: a span of %d tokens with %d logits", s.Tokens, s.Logits)
		}
		if s.Cache.length+s.Tokens > s.Cache.room {
			return fmt.Errorf("%w: %d positions, %d of them used, %d more wanted", ErrFull, s.Cache.room, s.Cache.length, s.Tokens)
		}
		for i := range s.Tokens {
			if s.Tokens-i <= s.Logits {
				a.wanted = append(a.wanted, len(a.row))
			}
			a.row = append(a.row, row{s.Cache, s.Cache.length + i})
		}
	}
	if dim, vocab := a.model.Dim, a.model.Vocab; len(p.Hidden) != len(a.row)*dim || len(p.Logits) != len(a.wanted)*vocab {
		return fmt.Errorf("compute: %d hidden values and %d logits for %d tokens with %d logits", len(p.Hidden), len(p.Logits), len(a.row), len(a.wanted))
	}
	return nil
}
