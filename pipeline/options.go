package pipeline

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/layerpipe/layerpipe/compute"
	"github.com/layerpipe/layerpipe/ioactor"
	"github.com/layerpipe/layerpipe/model"
	"github.com/layerpipe/layerpipe/ring"
)

const (
	defaultBuffers = 2
	// maxDefaultContext keeps the KV cache of a model that was trained for
	// 128k positions from taking gigabytes unasked.
	maxDefaultContext = 4096
)

// The most that [WithBuffers] and [WithThreads] take: more slots than any model
// has use for, and more threads than any machine has cores; far beyond them a team
// only waits for itself.
const (
	MaxBuffers = ring.MaxDepth
	MaxThreads = 1024
)

// An Option sets something about an [Engine] that [Open] makes. A value that
// makes no sense fails there.
type Option func(*config) error

type config struct {
	memory       Memory
	buffers      int        // 0: the planner's choice
	pinned       int        // -1: the planner's choice
	unit         model.Unit // "": the planner's choice
	backend      Backend
	storage      storage
	threads      int
	context      int
	contextGiven bool
	contextMost  int     // what will be needed; 0: not known
	contextText  *string // a text whose tokens come on top of contextMost, or nil
	ropeContext  int     // what models with rotations for long and for short contexts choose by: not what memory or need make of it
	kv           compute.KVType
	probe        *ioactor.ProbeResult // nil: not measured
	expand       bool
	noTokenizer  bool
	trace        bool
	sessions     int  // that there is to be room for; 0 means 1
	logits       int  // rows that a pass is asked for at most; 0 means 1
	planned      bool // the planner chooses what to pin
}

func newConfig(options []Option) (*config, error) {
	c := &config{threads: runtime.GOMAXPROCS(0), kv: compute.KVF16, pinned: -1}
	for _, o := range options {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	if c.noTokenizer && c.contextText != nil {
		return nil, fmt.Errorf("a context for a prompt: %w", ErrNoTokenizer)
	}
	// A ceiling was given, or nothing at all was said about the ring.
	c.planned = c.memory != Memory{} || c.buffers == 0 && c.pinned < 0
	return c, nil
}

// setContext fills in the context that m gives where none was asked for.
func (c *config) setContext(m *model.Model) {
	ordinary := min(m.Context, maxDefaultContext)
	switch {
	case c.contextGiven:
		ordinary = c.context
	case c.contextMost > 0:
		c.context, c.contextGiven = min(m.Context, c.contextMost), true
	default:
		c.context = ordinary
	}
	c.ropeContext = max(ordinary, c.context)
}

func atLeast(n, least int, what string, to *int) error {
	if n < least {
		return fmt.Errorf("%s %d: must be at least %d", what, n, least)
	}
	*to = n
	return nil
}

// WithMemory sets a ceiling for the memory of the whole process. Within it the
// engine keeps as many blocks as fit and streams the rest; [Open] fails with a
// [MemoryError] if the model cannot run in it. The default, if neither buffers
// nor pins are asked for either, is what is available. The plan counts one session
// of the engine's context, or what [WithSessions] asks for; what the rest of the
// program takes after Open, and further sessions, come on top. Go's own memory
// limit (debug.SetMemoryLimit) is left to the program: [Plan.GoBytes] is a good
// value.
func WithMemory(m Memory) Option {
	return func(c *config) error {
		if m.bytes < 0 {
			return errors.New("memory: must be more than 0 bytes")
		}
		c.memory = m
		return nil
	}
}

// WithBuffers sets the depth of the ring, the number of slots: 1 reads and
// computes alternately, 2 loads a block while another computes, with 3 reading,
// dequantizing and computing overlap. The default is the planner's choice. Asked
// for without [WithMemory], all blocks are streamed.
func WithBuffers(n int) Option {
	return func(c *config) error {
		if n > MaxBuffers {
			return fmt.Errorf("buffers %d: must be at most %d", n, MaxBuffers)
		}
		return atLeast(n, 1, "buffers", &c.buffers)
	}
}

// WithUnit sets what a block is, a layer or a tensor: smaller blocks need smaller
// slots, larger ones fewer and longer reads. The default is the planner's
// choice, or layers where nothing is planned. The logits do not depend on it.
func WithUnit(u model.Unit) Option {
	return func(c *config) error {
		if u != model.UnitLayer && u != model.UnitTensor {
			return fmt.Errorf("unit %q: not %s or %s", u, model.UnitLayer, model.UnitTensor)
		}
		c.unit = u
		return nil
	}
}

// WithBackend sets how blocks are read. The default is [Direct] if the model does
// not fit the page cache beside the engine, otherwise [Pread].
func WithBackend(b Backend) Option {
	return func(c *config) error { c.backend = b; return nil }
}

// WithHint sets what [Pread] and [Mmap] tell the kernel about their reads. The
// default is nothing.
func WithHint(h ioactor.Hint) Option {
	return func(c *config) error { c.storage.hint = h; return nil }
}

// WithProbe streams with [Direct] as [ioactor.Probe] has measured it on the
// model's file. The default is to measure that, for up to a third of a second,
// when blocks are streamed. Other backends are measured by their own loads.
func WithProbe(p ioactor.ProbeResult) Option {
	return func(c *config) error {
		if !(p.BytesPerSecond > 0) || math.IsInf(p.BytesPerSecond, 1) {
			return fmt.Errorf("probe: %v bytes a second: must be more than 0", p.BytesPerSecond)
		}
		c.probe = &p
		return nil
	}
}

// WithThreads sets how many goroutines share the arithmetic. The default is
// GOMAXPROCS. The logits do not depend on it. A reader beside them is quickest
// if GOMAXPROCS is one more; that is the program's to set.
func WithThreads(n int) Option {
	return func(c *config) error {
		if n > MaxThreads {
			return fmt.Errorf("threads %d: must be at most %d", n, MaxThreads)
		}
		return atLeast(n, 1, "threads", &c.threads)
	}
}

// WithContext sets how many positions a sequence may have. The default is the
// context that the model was trained for, but at most 4096.
func WithContext(n int) Option {
	return func(c *config) error { c.contextGiven = true; return atLeast(n, 1, "context", &c.context) }
}

// WithContextFor makes the context n positions, or what the model was trained
// for if that is less: for a program that knows how many it will need.
func WithContextFor(n int) Option {
	return func(c *config) error { c.contextText = nil; return atLeast(n, 1, "context", &c.contextMost) }
}

// WithContextForPrompt is [WithContextFor] the tokens of a [GenConfig]'s Prompt
// and n more. It needs a tokenizer.
func WithContextForPrompt(prompt string, n int) Option {
	return func(c *config) error { c.contextText = &prompt; return atLeast(n, 1, "context", &c.contextMost) }
}

// WithSessions plans for n sessions of the engine's context at once, or as many as
// there is memory for: see [Plan.Sessions]. The default is one. A program that
// opens more takes memory which the plan does not know of.
func WithSessions(n int) Option {
	return func(c *config) error { return atLeast(n, 1, "sessions", &c.sessions) }
}

// WithLogits plans for n rows of logits at once, or as many as there is memory for:
// see [Plan.Logits]. The default is one. A program that feeds with more than that
// takes memory which the plan does not know of.
func WithLogits(n int) Option {
	return func(c *config) error { return atLeast(n, 1, "logits", &c.logits) }
}

// WithKV sets the number format of the KV cache: "f16", the default, or "f32".
func WithKV(kind compute.KVType) Option {
	return func(c *config) error {
		if kind != compute.KVF16 && kind != compute.KVF32 {
			return fmt.Errorf("KV cache type %q: not one of %s, %s", kind, compute.KVF16, compute.KVF32)
		}
		c.kv = kind
		return nil
	}
}

// WithPinned keeps n blocks in memory once the first pass has brought them,
// spread evenly over the layers; all if the ring has room for the rest. The
// default is the planner's choice. The logits do not depend on it.
func WithPinned(n int) Option {
	return func(c *config) error { return atLeast(n, 0, "pinned blocks", &c.pinned) }
}

// WithFloat32 expands all weights to float32 before they are used, and keeps
// activations in float. The default is to multiply weights as they are stored,
// with activations rounded to 8 bits where the weights are quantized: many times
// faster, and as exact as the weights deserve.
func WithFloat32() Option {
	return func(c *config) error { c.expand = true; return nil }
}

// WithTrace keeps what every actor does when, for [Engine.Trace]: the latest
// 32,768 events of each, some hundred passes of a large model. It takes 10 MiB at
// most, and less than one per cent of the time.
func WithTrace() Option {
	return func(c *config) error { c.trace = true; return nil }
}

// WithoutTokenizer opens a model whose tokenizer is missing or not supported.
// Its engine works on token ids alone.
func WithoutTokenizer() Option {
	return func(c *config) error { c.noTokenizer = true; return nil }
}
