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
// The steps come in the order of the fields below Temperature: the bias, the
// penalties, the filters; then the temperature; as in llama.cpp.
type Config struct {
	// Temperature divides the logits: below 1 likely tokens become likelier.
	// 0 is greedy, and then the filters and the seed have no effect.
	Temperature float32 `json:"temperature"`
	// Bias is added to the logits of single tokens; -Inf forbids one. The map
	// must not change while a sampler uses it.
	Bias map[int32]float32 `json:"-"`
	// RepeatWindow is how many tokens back the penalties look; 0 means 64.
	RepeatWindow int `json:"repeat_window"`
	// RepeatPenalty divides positive logits of the tokens in the window, and
	// multiplies negative ones. 0 and 1 mean none.
	RepeatPenalty float32 `json:"repeat_penalty"`
	// FrequencyPenalty is subtracted from the logit of a token for each time
	// that it is in the window.
	FrequencyPenalty float32 `json:"frequency_penalty"`
	// PresencePenalty is subtracted once from the logits of the tokens in the
	// window.
	PresencePenalty float32 `json:"presence_penalty"`
	// TopK keeps the K likeliest tokens; 0 keeps all.
	TopK int `json:"top_k"`
	// Typical keeps the tokens whose surprise is closest to the expected one and
	// that together have this probability (https://arxiv.org/abs/2202.00666);
	// 0 and 1 keep all.
	Typical float32 `json:"typical"`
	// TopP keeps the likeliest tokens that together have this probability
	// (https://arxiv.org/abs/1904.09751); 0 and 1 keep all.
	TopP float32 `json:"top_p"`
	// MinP keeps the tokens that are at least MinP times as likely as the
	// likeliest (https://arxiv.org/abs/2407.01082); 0 keeps all.
	MinP float32 `json:"min_p"`
	// Mirostat, if not 0, replaces the four filters: behind the temperature, it
	// cuts off unlikely tokens such that the surprise of those chosen is this
	// many bits on average (version 2 of https://arxiv.org/abs/2007.14966).
	Mirostat float32 `json:"mirostat"`
	// MirostatRate is how quickly Mirostat adapts; 0 means 0.1.
	MirostatRate float32 `json:"mirostat_rate"`
	// Seed determines the choices.
	Seed uint64 `json:"seed"`
}

const (
	defaultRepeatWindow = 64
	defaultMirostatRate = 0.1
)

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
	case !in(c.FrequencyPenalty, -100, 100):
		return fmt.Errorf("frequency penalty %v: must be from -100 to 100", c.FrequencyPenalty)
	case !in(c.PresencePenalty, -100, 100):
		return fmt.Errorf("presence penalty %v: must be from -100 to 100", c.PresencePenalty)
	case c.TopK < 0:
		return fmt.Errorf("top-k %d: must not be negative", c.TopK)
	case !in(c.Typical, 0, 1):
		return fmt.Errorf("typical %v: must be from 0 to 1", c.Typical)
	case !in(c.TopP, 0, 1):
		return fmt.Errorf("top-p %v: must be from 0 to 1", c.TopP)
	case !in(c.MinP, 0, 1):
		return fmt.Errorf("min-p %v: must be from 0 to 1", c.MinP)
	case !in(c.Mirostat, 0, 100):
		return fmt.Errorf("mirostat %v: must be from 0 to 100", c.Mirostat)
	case !in(c.MirostatRate, 0, 1):
		return fmt.Errorf("mirostat rate %v: must be from 0 to 1", c.MirostatRate)
	}
	for id, bias := range c.Bias {
		if id < 0 || !(bias < float32(math.Inf(1))) {
			return fmt.Errorf("bias %v of token %d: must be a number or -Inf, of a token", bias, id)
		}
	}
	return nil
}

// A Sampler chooses the tokens of one sequence. It belongs to one goroutine.
type Sampler struct {
	c          Config
	rng        *rand.Rand
	recent     []int32       // the window of the penalties, a ring
	oldest     int           // where its next token goes, once it is full
	counts     map[int32]int // of the tokens in recent
	surprise   float64       // most bits of a token that Mirostat lets through
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
	c.RepeatWindow = cmp.Or(c.RepeatWindow, defaultRepeatWindow)
	c.MirostatRate = cmp.Or(c.MirostatRate, defaultMirostatRate)
	return &Sampler{
		c: c, rng: rand.New(rand.NewPCG(c.Seed, 0)), counts: map[int32]int{}, surprise: 2 * float64(c.Mirostat),
	}, nil
}

// Accept tells the sampler of a token of the sequence, from the prompt or
// chosen, for the penalties.
func (s *Sampler) Accept(id int32) {
	if !s.penalizes() {
		return
	}
	s.counts[id]++
	if len(s.recent) < s.c.RepeatWindow {
		s.recent = append(s.recent, id)
		return
	}
	gone := s.recent[s.oldest]
	if s.counts[gone]--; s.counts[gone] == 0 {
		delete(s.counts, gone)
	}
	s.recent[s.oldest] = id
	s.oldest = (s.oldest + 1) % len(s.recent)
}

func (s *Sampler) repeats() bool { return s.c.RepeatPenalty != 0 && s.c.RepeatPenalty != 1 }

func (s *Sampler) penalizes() bool {
	return s.repeats() || s.c.FrequencyPenalty != 0 || s.c.PresencePenalty != 0
}

// Next chooses a token. With a bias or a penalty it changes logits.
func (s *Sampler) Next(logits []float32) (int32, error) {
	s.bias(logits)
	s.penalize(logits)
	best := vec.ArgMax(logits)
	if best < 0 || math.IsInf(float64(logits[best]), 0) {
		return 0, ErrLogits
	}
	if s.c.Temperature == 0 {
		return int32(best), nil
	}
	if s.c.Mirostat > 0 {
		return s.mirostat(s.top(logits, len(logits))), nil
	}
	c := s.filter(s.top(logits, s.c.TopK))
	return c[s.draw(c, weigh(c, s.c.Temperature))].id, nil
}

func (s *Sampler) bias(logits []float32) {
	for id, b := range s.c.Bias {
		if int(id) < len(logits) {
			logits[id] += b
		}
	}
}

func (s *Sampler) penalize(logits []float32) {
	for id, n := range s.counts {
		if int(id) >= len(logits) {
			continue
		}
		l := logits[id]
		if s.repeats() {
			if l > 0 {
				l /= s.c.RepeatPenalty
			} else {
				l *= s.c.RepeatPenalty
			}
		}
		frequency := float32(float32(n) * s.c.FrequencyPenalty) // rounded: never fused with the subtraction
		logits[id] = l - frequency - s.c.PresencePenalty
	}
}

// weigh sets the weights of candidates in order, of which the first has 1, and
// returns their sum: p is the share of it.
func weigh(c []candidate, temperature float32) float64 {
	var sum float64
	for i := range c {
		c[i].p = vec.Exp64(float64(c[i].logit-c[0].logit) / float64(temperature))
		sum += c[i].p
	}
	return sum
}

// draw chooses among candidates whose weights have that sum.
func (s *Sampler) draw(c []candidate, sum float64) int {
	at := s.rng.Float64() * sum
	for i := range c {
		if at -= c[i].p; at < 0 {
			return i
		}
	}
	return len(c) - 1
}

// before orders candidates from the likeliest; equals by id, so that the order
// is one.
func before(a, b candidate) int {
	return cmp.Or(cmp.Compare(b.logit, a.logit), cmp.Compare(a.id, b.id))
}

// top returns the k likeliest candidates, or all for 0, from the likeliest.
func (s *Sampler) top(logits []float32, k int) []candidate {
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

// filter applies Typical, TopP and MinP to candidates in order.
func (s *Sampler) filter(c []candidate) []candidate {
	if s.c.Typical > 0 && s.c.Typical < 1 {
		c = typical(c, float64(s.c.Typical))
	}
	if s.c.TopP > 0 && s.c.TopP < 1 {
		c = c[:reach(c, weigh(c, 1), float64(s.c.TopP))]
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

// reach counts how many of the first candidates together have share of sum.
func reach(c []candidate, sum, share float64) int {
	var have float64
	for i := range c {
		if have += c[i].p / sum; have >= share {
			return i + 1
		}
	}
	return len(c)
}

// typical keeps those of the candidates that are closest to the expected
// surprise. With x = logit - max, the surprise of a token is log(sum) - x and
// the expected one log(sum) - sum(p*x), so that the distance needs no logarithm.
func typical(c []candidate, share float64) []candidate {
	sum, most := weigh(c, 1), c[0].logit
	var expected float64
	for i := range c {
		if c[i].p > 0 { // a forbidden token has x = -Inf
			expected += float64(c[i].p / sum * float64(c[i].logit-most))
		}
	}
	distance := func(a candidate) float64 { return math.Abs(float64(a.logit-most) - expected) }
	slices.SortFunc(c, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(distance(a), distance(b)), before(a, b))
	})
	c = c[:reach(c, sum, share)]
	slices.SortFunc(c, before)
	return c
}

// mirostat chooses among all candidates in order, and moves the limit of
// surprise towards where the choices have the wanted one.
func (s *Sampler) mirostat(c []candidate) int32 {
	sum := weigh(c, s.c.Temperature)
	n := 1
	for n < len(c) && bits(c[n].p/sum) <= s.surprise {
		n++
	}
	c, sum = c[:n], 0
	for i := range c {
		sum += c[i].p
	}
	i := s.draw(c, sum)
	s.surprise -= float64(float64(s.c.MirostatRate) * (bits(c[i].p/sum) - float64(s.c.Mirostat)))
	return c[i].id
}

// bits is -log2 of a probability.
func bits(p float64) float64 { return -vec.Log64(p) / math.Ln2 }
