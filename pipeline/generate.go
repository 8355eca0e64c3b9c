package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"iter"
	"strings"
	"time"
	"unsafe"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/model/tokenizer"
	"github.com/layerpipe/layerpipe/pipeline/sample"
)

// A GenConfig says what to generate.
type GenConfig struct {
	// Prompt is the text to continue. It gets the special tokens that the
	// vocabulary asks for; text that looks like a control token is text.
	Prompt string
	// Tokens, if not nil, is the prompt as ids instead, taken as they are.
	Tokens []int32
	// MaxTokens ends the generation after so many tokens; 0 goes on until the
	// model ends its text or the context is full.
	MaxTokens int
	// Stop ends the generation where one of these texts begins, which the model
	// would write next. Of the text, nothing that may be the beginning of one is
	// yielded before it is clear that it is not.
	Stop []string
	// Session, if not nil, is what to compute in, instead of a session that
	// ends with the generation. What it holds of the prompt's beginning already
	// is not computed again, and what else it holds is forgotten. It must not be
	// used until the iteration ends.
	Session *Session
	// Sampling is how tokens are chosen; the zero value is greedy.
	Sampling sample.Config
	// Progress, if not nil, is called as the prompt's pass goes through the
	// blocks, on another goroutine than the caller's. It must not block.
	Progress func(done, blocks int)
	// Stats, if not nil, is filled when the iteration ends, however it ends.
	Stats *GenStats
}

// A Token is one generated token.
type Token struct {
	ID   int32  // -1 if the text alone is left, see Text
	Text string // what can be shown now that the token is there: whole characters, with U+FFFD for bytes that are none; may be empty
}

// ErrNoTokenizer reports text work on an engine that was opened without a
// tokenizer.
var ErrNoTokenizer = errors.New("pipeline: the engine has no tokenizer")

// ErrEmptyPrompt reports a prompt without a token to start from.
var ErrEmptyPrompt = errors.New("pipeline: the prompt is empty and the vocabulary has no token to start a text")

// Generate continues a prompt. The prompt is computed in one pass, then every
// token in a pass of its own. The iteration ends after the model's end of text
// or a stop string (which are not yielded), MaxTokens, or a full context; with
// an error as its last pair if it fails or ctx ends. Breaking out of the loop
// stops it.
func (e *Engine) Generate(ctx context.Context, c GenConfig) iter.Seq2[Token, error] {
	return func(yield func(Token, error) bool) {
		g := &generation{engine: e, config: c, start: time.Now(), before: e.Stats(), digest: sha256.New()}
		err := g.run(ctx, yield)
		g.finish(ctx, err)
		if err != nil && !errors.Is(err, errBreak) {
			yield(Token{}, err)
		}
	}
}

// generation is the state of one Generate.
type generation struct {
	engine  *Engine
	config  GenConfig
	sampler *sample.Sampler
	stop    *stopper
	decoder *tokenizer.Decoder // nil for an engine without a tokenizer
	start   time.Time
	first   time.Time // when the first token was there
	before  Stats
	digest  hash.Hash
	text    strings.Builder
	stats   GenStats
}

var errBreak = errors.New("the caller has had enough")

func (g *generation) run(ctx context.Context, yield func(Token, error) bool) error {
	if err := g.prepare(); err != nil {
		return err
	}
	prompt, err := g.prompt()
	g.stats.PromptTokens = len(prompt)
	if err != nil {
		return err
	}
	session, held := g.config.Session, 0
	if session == nil {
		if session, err = g.engine.NewSession(g.room(len(prompt))); err != nil {
			return err
		}
		defer session.Close()
	} else {
		held = session.keep(prompt)
	}
	for _, id := range prompt {
		g.sampler.Accept(id)
		if g.decoder != nil {
			g.decoder.Next(id)
		}
	}
	return g.decode(ctx, session, prompt[held:], func(t Token) error {
		g.text.WriteString(t.Text)
		if !yield(t, nil) {
			return errBreak
		}
		return nil
	})
}

// prepare checks the configuration, but for the prompt.
func (g *generation) prepare() (err error) {
	e, c := g.engine, &g.config
	if c.MaxTokens < 0 {
		return fmt.Errorf("generate: at most %d tokens", c.MaxTokens)
	}
	if c.Session != nil && c.Session.engine != e {
		return errors.New("generate: a session of another engine")
	}
	if g.sampler, err = sample.New(c.Sampling); err != nil {
		return err
	}
	for id := range c.Sampling.Bias {
		if int(id) >= e.model.Vocab {
			return fmt.Errorf("bias of token %d: not in a vocabulary of %d", id, e.model.Vocab)
		}
	}
	if g.stop, err = newStopper(c.Stop); err != nil {
		return err
	}
	if e.tokenizer != nil {
		g.decoder = e.tokenizer.Decoder()
	}
	return nil
}

// decode computes next and then, one by one, the tokens that are chosen.
func (g *generation) decode(ctx context.Context, session *Session, next []int32, emit func(Token) error) error {
	e, progress := g.engine, g.config.Progress
	one := make([]int32, 1)
	for {
		logits, err := session.feed(ctx, next, 1, progress)
		if err != nil {
			return err
		}
		g.digest.Write(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(logits))), 4*len(logits)))
		id, err := g.sampler.Next(logits)
		if err != nil {
			return err
		}
		g.sampler.Accept(id)
		if g.first.IsZero() {
			g.first = time.Now()
		}
		if e.tokenizer != nil && e.tokenizer.IsEnd(id) {
			g.stats.StopReason = "end"
			break
		}
		g.stats.GeneratedTokens++
		t, stopped := Token{ID: id}, false
		if g.decoder != nil {
			t.Text, stopped = g.stop.next(whole(g.decoder.Next(id)))
		}
		if err := emit(t); err != nil {
			return err
		}
		if stopped {
			g.stats.StopReason = "stop"
			return nil
		}
		if g.stats.GeneratedTokens == g.config.MaxTokens {
			g.stats.StopReason = "length"
			break
		}
		if session.Len() == session.cache.Room() {
			g.stats.StopReason = "context"
			break
		}
		one[0] = id
		next, progress = one, nil
	}
	if g.decoder == nil {
		return nil
	}
	// What the decoder holds back is half a character that nothing completes.
	rest, stopped := g.stop.next(whole(g.decoder.Flush()))
	if stopped {
		g.stats.StopReason = "stop"
	}
	if rest += g.stop.flush(); rest != "" {
		return emit(Token{ID: -1, Text: rest})
	}
	return nil
}

// whole has U+FFFD for bytes that are no character.
func whole(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func (g *generation) prompt() ([]int32, error) {
	e, prompt := g.engine, g.config.Tokens
	if prompt == nil {
		if e.tokenizer == nil {
			return nil, ErrNoTokenizer
		}
		prompt = e.tokenizer.Encode(g.config.Prompt, tokenizer.Options{AddSpecial: true})
	}
	if len(prompt) == 0 {
		return nil, ErrEmptyPrompt
	}
	room := e.plan.Context
	if g.config.Session != nil {
		room = g.config.Session.cache.Room()
	}
	if len(prompt) > room {
		return prompt, fmt.Errorf("%w: a prompt of %d tokens in a context of %d", compute.ErrFull, len(prompt), room)
	}
	return prompt, nil
}

// room is how many positions the generation can need: the last token is not
// computed any more, it only comes out.
func (g *generation) room(prompt int) int {
	room := g.engine.plan.Context
	if n := g.config.MaxTokens; n > 0 && n <= room-prompt {
		room = prompt + n - 1
	}
	return max(room, prompt)
}

func (g *generation) finish(ctx context.Context, err error) {
	if g.config.Stats == nil {
		return
	}
	end := time.Now()
	s := &g.stats
	switch {
	case errors.Is(err, errBreak), err != nil && ctx.Err() != nil:
		s.StopReason = "cancelled"
	case err != nil:
		s.StopReason = "error"
	}
	s.Text = g.text.String()
	s.LogitsSHA256 = hex.EncodeToString(g.digest.Sum(nil))
	plan := g.engine.plan
	s.CeilingBytes = plan.Ceiling
	s.Backend, s.Buffers, s.Notes = plan.Backend, plan.Buffers, g.engine.Notes()
	if plan.Probe != nil {
		s.DeviceBytesPerSecond = plan.Probe.BytesPerSecond
	}
	var first, decode time.Duration
	if !g.first.IsZero() {
		first, decode = g.first.Sub(g.start), end.Sub(g.first)
	}
	s.fill(g.engine.Stats().sub(g.before), plan.ExpandedBytes > 0, end.Sub(g.start), first, decode)
	*g.config.Stats = *s
}
