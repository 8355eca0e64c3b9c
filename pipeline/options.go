package pipeline

import (
	"fmt"
	"runtime"

	"github.com/layerpipe/layerpipe/compute"
)

const (
	defaultBuffers = 2
	// maxDefaultContext keeps the KV cache of a model that was trained for
	// 128k positions from taking gigabytes unasked.
	maxDefaultContext = 4096
)

// An Option sets something about an [Engine] that [Open] makes. A value that
// makes no sense fails there.
type Option func(*config) error

type config struct {
	buffers     int
	backend     Backend
	threads     int
	context     int // 0: the model's, up to maxDefaultContext
	kv          compute.KVType
	pinned      int
	expand      bool
	noTokenizer bool
}

func newConfig(options []Option) (*config, error) {
	c := &config{buffers: defaultBuffers, threads: runtime.GOMAXPROCS(0), kv: compute.KVF16}
	for _, o := range options {
		if err := o(c); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func atLeast(n, least int, what string, to *int) error {
	if n < least {
		return fmt.Errorf("%s %d: must be at least %d", what, n, least)
	}
	*to = n
	return nil
}

// WithBuffers sets the depth of the ring, the number of slots: 1 reads and
// computes alternately; 2, the default, loads a block while another computes;
// with 3 reading, dequantizing and computing overlap.
func WithBuffers(n int) Option {
	return func(c *config) error { return atLeast(n, 1, "buffers", &c.buffers) }
}

// WithBackend sets how blocks are read. The default is [Pread].
func WithBackend(b Backend) Option {
	return func(c *config) error { c.backend = b; return nil }
}

// WithThreads sets how many goroutines share the arithmetic. The default is
// GOMAXPROCS. The logits do not depend on it. A reader beside them is quickest
// if GOMAXPROCS is one more; that is the program's to set.
func WithThreads(n int) Option {
	return func(c *config) error { return atLeast(n, 1, "threads", &c.threads) }
}

// WithContext sets how many positions a sequence may have. The default is the
// context that the model was trained for, but at most 4096.
func WithContext(n int) Option {
	return func(c *config) error { return atLeast(n, 1, "context", &c.context) }
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
// spread evenly over the layers. The default is none, unless the ring has room
// for all blocks anyway. The logits do not depend on it.
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

// WithoutTokenizer opens a model whose tokenizer is missing or not supported.
// Its engine works on token ids alone.
func WithoutTokenizer() Option {
	return func(c *config) error { c.noTokenizer = true; return nil }
}
