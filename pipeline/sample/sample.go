// Package sample chooses the next token from logits. The same logits, settings
// and seed give the same token on every machine.
package sample

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/layerpipe/layerpipe/compute/vec"
)

// ErrLogits reports logits among which nothing can be chosen: none, or a NaN.
var ErrLogits = errors.New("sample: no choice among these logits")

// Config says how tokens are chosen. The zero value is greedy: always the token
// with the largest logit, the first of equals.
//
// The steps come in the order of the fields below Temperature: the penalty, then
// the filters, then the temperature, as in llama.cpp.
type Config struct {
	// Temperature divides the logits: below 1 likely tokens become likelier.
	// 0 is greedy, and then the filters and the seed have no effect.
	Temperature float32 `json:"temperature"`
	// RepeatPenalty divides positive logits of the tokens among the last
	// RepeatWindow, and multiplies negative ones. 0 and 1 mean none.
	RepeatPenalty float32 `json:"repeat_penalty"`
	// RepeatWindow is how many tokens back the penalty looks; 0 means 64.
	RepeatWindow int `json:"repeat_window"`
	// TopK keeps the K likeliest tokens; 0 keeps all.
	TopK int `json:"top_k"`
	// TopP keeps the likeliest tokens that together have this probability
	// (https://arxiv.org/abs/1904.09751); 0 and 1 keep all.
	TopP float32 `json:"top_p"`
	// MinP keeps the tokens that are at least MinP times as likely as the
	// likeliest (https://arxiv.org/abs/2407.01082); 0 keeps all.
	MinP float32 `json:"min_p"`
	// Seed determines the choices.
	Seed uint64 `json:"seed"`
}

const defaultRepeatWindow = 64

// Validate returns an error that names the first field that makes no sense.
func (c *Config) Validate() error {
	in := func(v, low, high float32) bool { return v >= low && v <= high } // false for NaN
	switch {
	case !in(c.Temperature, 0, 100):
		return fmt.Errorf("temperature %v: must be from 0 to 100", c.Temperature)
	case c.RepeatPenalty != 0 && !in(c.RepeatPenalty, 0.01, 100):
		return fmt.Errorf("repeat penalty %v: must be from 0.01 to 100, or 0 for none", c.RepeatPenalty)
	case c.RepeatWindow < 0:
		return fmt.Errorf("repeat window %d: must not be negative", c.RepeatWindow)
	case c.TopK < 0:
		return fmt.Errorf("top-k %d: must not be negative", c.TopK)
	case !in(c.TopP, 0, 1):
		return fmt.Errorf("top-p %v: must be from 0 to 1", c.TopP)
	case !in(c.MinP, 0, 1):
		return fmt.Errorf("min-p %v: must be from 0 to 1", c.MinP)
	}
	return nil
}

// A Sampler chooses the tokens of one sequence. It belongs to one goroutine.
type Sampler struct {
	c          Config
	rng        *rand.Rand
	recent     []int32 // the last tokens, for the penalty
	candidates []candidate
}

type candidate struct {
	id    int32
	logit float32
	p     float64
}

// New returns a sampler. The error is that of [Config.Validate].
func New(c Config) (*Sampler, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.RepeatWindow == 0 {
		c.RepeatWindow = defaultRepeatWindow
	}
	return &Sampler{c: c, rng: rand.New(rand.NewPCG(c.Seed, 0))}, nil
}

// Accept tells the sampler of a token of the sequence, from the prompt or
// chosen, for the penalty.
func (s *Sampler) Accept(id int32) {
	if !s.penalizes() {
		return
	}
	if len(s.recent) == s.c.RepeatWindow {
		copy(s.recent, s.recent[1:])
		s.recent = s.recent[:len(s.recent)-1]
	}
	s.recent = append(s.recent, id)
}

func (s *Sampler) penalizes() bool { return s.c.RepeatPenalty != 0 && s.c.RepeatPenalty != 1 }

// Next chooses a token. With a penalty it changes logits.
func (s *Sampler) Next(logits []float32) (int32, error) {
	s.penalize(logits)
	best := vec.ArgMax(logits)
	if best < 0 || math.IsInf(float64(logits[best]), 0) {
		return 0, ErrLogits
	}
	if s.c.Temperature == 0 {
		return int32(best), nil
	}
	c := s.filter(s.top(logits))
	var sum float64
	for i := range c {
		c[i].p = vec.Exp64(float64(c[i].logit-c[0].logit) / float64(s.c.Temperature))
		sum += c[i].p
	}
	at := s.rng.Float64() * sum
	for i := range c {
		if at -= c[i].p; at < 0 {
			return c[i].id, nil
		}
	}
	return c[len(c)-1].id, nil
}

func (s *Sampler) penalize(logits []float32) {
	if !s.penalizes() {
		return
	}
	for i, id := range s.recent {
		if int(id) >= len(logits) || slices.Contains(s.recent[:i], id) {
			continue
		}
		if logits[id] > 0 {
			logits[id] /= s.c.RepeatPenalty
		} else {
			logits[id] *= s.c.RepeatPenalty
		}
	}
}

// before orders candidates from the likeliest; equals by id, so that the order
// is one.
func before(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
}

// top returns the TopK candidates, or all, from the likeliest.
func (s *Sampler) top(logits []float32) []candidate {
	k := s.c.TopK
	if k == 0 || k > len(logits) {
		k = len(logits)
	}
	c := s.candidates[:0]
	floor := float32(math.Inf(-1)) // k candidates are known to be at least this
	for id, l := range logits {
		if l < floor {
			continue
		}
		// Sorting whenever twice k have gathered keeps the work linear.
		if c = append(c, candidate{id: int32(id), logit: l}); len(c) == 2*k {
			slices.SortFunc(c, before)
			c = c[:k]
			floor = c[k-1].logit
		}
	}
	slices.SortFunc(c, before)
	s.candidates = c
	return c[:k]
}

// filter applies TopP and MinP to candidates in order.
func (s *Sampler) filter(c []candidate) []candidate {
	if s.c.TopP > 0 && s.c.TopP < 1 {
		var sum float64
		for i := range c {
			c[i].p = vec.Exp64(float64(c[i].logit - c[0].logit))
			sum += c[i].p
		}
		var have float64
		for i := range c {
			if have += c[i].p / sum; have >= float64(s.c.TopP) {
				c = c[:i+1]
				break
			}
		}
	}
	if s.c.MinP > 0 {
		for i := range c {
			if vec.Exp64(float64(c[i].logit-c[0].logit)) < float64(s.c.MinP) {
				return c[:i]
			}
		}
	}
	return c
}
