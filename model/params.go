package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// Params are the hyperparameters of a decoder-only transformer.
type Params struct {
	Arch    string // general.architecture
	Name    string // general.name, may be empty
	Context int    // positions that the model was trained for
	Vocab   int    // rows of the embedding and of the output head
	Dim     int    // width of the hidden state
	Layers  int
	FFN     int // width of the feed-forward network
	Heads   int // query heads
	KVHeads int // key and value heads; each serves Heads/KVHeads query heads (GQA)
	HeadDim int // width of a query and a key
	VDim    int // width of a value
	NormEps float32
	Rope    Rope
}

// A Scaling is how rotary position embedding is stretched to contexts longer
// than it was trained for.
type Scaling string

// The kinds of scaling, named as in rope.scaling.type.
const (
	ScalingNone   Scaling = "none"
	ScalingLinear Scaling = "linear"
	ScalingYarn   Scaling = "yarn"
)

// Rope describes rotary position embedding (RoPE, https://arxiv.org/abs/2104.09864).
type Rope struct {
	Dim     int     // how many elements of a head are rotated
	Base    float32 // frequency i is Base^(-2i/Dim)
	Neox    bool    // pairs are (i, i+Dim/2) instead of (2i, 2i+1)
	Scaling Scaling
	Factor  float32 // how much longer the context has become; 1 for none
	// The rest is for ScalingYarn (https://arxiv.org/abs/2309.00071).
	OrigContext        int     // context before it was stretched
	AttnFactor         float32 // extra factor of the magnitude
	BetaFast, BetaSlow float32 // rotations within OrigContext between which the frequencies are blended
}

// keys reads the metadata of one architecture; the first error stays.
type keys struct {
	m    *gguf.Metadata
	arch string
	err  error
}

func (k *keys) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// missing is how a key without default says so.
type missing struct{}

func read[T gguf.Scalar](k *keys, name string, def any) T {
	key := k.arch + "." + name
	v, ok, err := gguf.Get[T](k.m, key)
	if err != nil {
		k.fail(err)
		return v
	}
	if !ok {
		if _, required := def.(missing); required {
			k.fail(fmt.Errorf("%w: metadata %q is missing", ErrModel, key))
			return v
		}
		return def.(T)
	}
	return v
}

// maxWidth bounds every width and count, far above any model, so that products
// of two fit an int.
const maxWidth = 1 << 24

func (k *keys) count(name string, def any) int {
	n := read[int](k, name, def)
	if k.err == nil && (n < 1 || n > maxWidth) {
		k.fail(fmt.Errorf("%w: metadata %q is %d", ErrModel, k.arch+"."+name, n))
	}
	return n
}

// readParams reads what the architectures have in common. The defaults of
// missing keys are those of llama.cpp (llama_model::load_hparams).
func readParams(m *gguf.Metadata, arch string) (Params, error) {
	k := &keys{m: m, arch: arch}
	p := Params{Arch: arch}
	p.Name, _ = gguf.GetOr(m, "general.name", "")
	p.Context = k.count("context_length", missing{})
	p.Dim = k.count("embedding_length", missing{})
	p.Layers = k.count("block_count", missing{})
	p.FFN = k.count("feed_forward_length", missing{})
	p.Heads = k.count("attention.head_count", missing{})
	if k.err != nil {
		return p, k.err
	}
	p.KVHeads = k.count("attention.head_count_kv", p.Heads)
	p.HeadDim = k.count("attention.key_length", p.Dim/p.Heads)
	p.VDim = k.count("attention.value_length", p.Dim/p.Heads)
	p.NormEps = read[float32](k, "attention.layer_norm_rms_epsilon", missing{})
	if k.err != nil {
		return p, k.err
	}
	if p.Heads%p.KVHeads != 0 {
		return p, fmt.Errorf("%w: %d query heads do not divide among %d key heads", ErrModel, p.Heads, p.KVHeads)
	}
	if !(p.NormEps >= 0 && p.NormEps < 1) {
		return p, fmt.Errorf("%w: metadata %q is %v", ErrModel, arch+".attention.layer_norm_rms_epsilon", p.NormEps)
	}
	var err error
	p.Rope, err = readRope(k, p)
	return p, err
}

func readRope(k *keys, p Params) (Rope, error) {
	r := Rope{
		Dim:         k.count("rope.dimension_count", p.HeadDim),
		Base:        read[float32](k, "rope.freq_base", float32(10000)),
		Factor:      read[float32](k, "rope.scaling.factor", read[float32](k, "rope.scale_linear", float32(0))),
		OrigContext: k.count("rope.scaling.original_context_length", p.Context),
		AttnFactor:  read[float32](k, "rope.scaling.attn_factor", float32(1)),
		BetaFast:    read[float32](k, "rope.scaling.yarn_beta_fast", float32(32)),
		BetaSlow:    read[float32](k, "rope.scaling.yarn_beta_slow", float32(1)),
	}
	r.Scaling = Scaling(read[string](k, "rope.scaling.type", string(ScalingLinear)))
	if k.err != nil {
		return r, k.err
	}
	if r.Factor == 0 {
		r.Factor = 1
	}
	if known := []Scaling{ScalingNone, ScalingLinear, ScalingYarn}; !slices.Contains(known, r.Scaling) {
		return r, fmt.Errorf("%w: metadata %q is %q; supported are %v", ErrUnsupported, k.arch+".rope.scaling.type", r.Scaling, known)
	}
	if r.Scaling == ScalingNone {
		r.Factor = 1
	}
	switch {
	case r.Dim%2 != 0 || r.Dim > p.HeadDim:
		return r, fmt.Errorf("%w: %d of %d elements of a head are rotated", ErrModel, r.Dim, p.HeadDim)
	case !(r.Base > 1 && r.Base < 1e12):
		return r, fmt.Errorf("%w: metadata %q is %v", ErrModel, k.arch+".rope.freq_base", r.Base)
	case !(r.Factor > 0 && r.Factor < 1e6):
		return r, fmt.Errorf("%w: metadata %q is %v", ErrModel, k.arch+".rope.scaling.factor", r.Factor)
	case !(r.AttnFactor > 0 && r.AttnFactor < 1e6):
		return r, fmt.Errorf("%w: metadata %q is %v", ErrModel, k.arch+".rope.scaling.attn_factor", r.AttnFactor)
	case !(r.BetaSlow > 0 && r.BetaSlow < r.BetaFast && r.BetaFast < 1e6):
		return r, fmt.Errorf("%w: metadata %q is %v, and yarn_beta_slow %v", ErrModel, k.arch+".rope.scaling.yarn_beta_fast", r.BetaFast, r.BetaSlow)
	}
	return r, nil
}

// Architectures returns the values of general.architecture that can be run.
func Architectures() []string {
	names := make([]string, 0, len(architectures))
	for name := range architectures {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func archOf(m *gguf.Metadata) (string, error) {
	arch, ok, err := gguf.Get[string](m, "general.architecture")
	if err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%w: metadata %q is missing", ErrModel, "general.architecture")
	}
	if _, ok := architectures[arch]; !ok {
		return "", fmt.Errorf("%w: architecture %q; supported: %s", ErrUnsupported, arch, strings.Join(Architectures(), ", "))
	}
	return arch, nil
}
