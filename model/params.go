package model

import (
	"fmt"
	"math"
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

	Activation Activation
	EmbedScale float32 // what the embedded tokens are multiplied by; 1 for nothing
	AttnScale  float32 // what the product of query and key is multiplied by
	AttnCap    float32 // soft cap c of the scores: c*tanh(score/c); 0 for none
	LogitCap   float32 // the same for the logits

	// Of each WindowPeriod layers all but the last let a position see no more than
	// Window positions, its own included; with a period of 0 all layers do. A
	// Window of 0 is none. Those layers rotate by RopeWindow.
	Window, WindowPeriod int
	RopeWindow           Rope

	// Fused says that queries, keys and values come from one matrix, and gate and up
	// from another.
	Fused bool

	// Latent attention (MLA, https://arxiv.org/abs/2405.04434): the width of what
	// keys and values are made of, 0 for a model without, and that of what queries
	// are made of, 0 if they are made in one step.
	KVRank, QRank int
	// If Absorbed, all heads share one key, the latent and what is rotated, and one
	// value, the latent: AttnKB makes a query of HeadDim of a head's QueryDim, and
	// AttnVB makes OutDim of the VDim that a head finds. Otherwise QueryDim is
	// HeadDim, and OutDim is VDim.
	Absorbed         bool
	QueryDim, OutDim int

	Experts Experts
}

// Experts describe feed-forward networks of which a router chooses some for each
// token (https://arxiv.org/abs/2101.03961).
type Experts struct {
	Count, Used int // how many there are, 0 for none, and how many are chosen
	FFN         int // width of one
	Shared      int // width of the one that every token takes besides, 0 for none
	FirstLayer  int // the layers before have none
	// With more than one of Groups, which all have as many experts, those that are
	// chosen are from GroupsUsed of them.
	Groups, GroupsUsed int
	Routing            Routing
	Norm               bool    // the weights of those that are chosen are divided by their sum
	Scale              float32 // and multiplied by this
}

// An Activation is how a feed-forward network joins its gate and its other half.
type Activation string

// The activations, with x from the gate.
const (
	SiLU          Activation = "silu"           // x*sigmoid(x) * up
	GELU          Activation = "gelu"           // the tanh form of GELU(x) * up
	ClampedSwiGLU Activation = "clamped swiglu" // x*sigmoid(1.702x) * (up+1), with both clamped to 7
)

// A Routing is how the products of a router become probabilities of experts.
type Routing string

// The routings.
const (
	RouteSoftmax Routing = "softmax"        // over all experts
	RouteSigmoid Routing = "sigmoid"        // of each
	RouteChosen  Routing = "softmax chosen" // over those that are chosen, by the products themselves
)

// WindowOf returns how many positions layer l sees, its own included, or 0 for
// all.
func (p *Params) WindowOf(l int) int {
	if p.WindowPeriod > 0 && l%p.WindowPeriod == p.WindowPeriod-1 {
		return 0
	}
	return p.Window
}

// HasExperts reports whether layer l chooses among experts.
func (p *Params) HasExperts(l int) bool { return p.Experts.Count > 0 && l >= p.Experts.FirstLayer }

// A Scaling is how rotary position embedding is stretched to contexts longer
// than it was trained for.
type Scaling string

// The kinds of scaling, named as in rope.scaling.type.
const (
	ScalingNone   Scaling = "none"
	ScalingLinear Scaling = "linear"
	ScalingYarn   Scaling = "yarn"
	// ScalingLong divides each frequency by a factor of its own, from one of two
	// tensors: [Global.RopeLong] and [Global.RopeShort] (LongRoPE,
	// https://arxiv.org/abs/2402.13753). Those tensors alone say so too: files of
	// Phi-3 from before the name was written have them and no rope.scaling.type.
	ScalingLong Scaling = "longrope"
)

// Rope describes rotary position embedding (RoPE, https://arxiv.org/abs/2104.09864).
type Rope struct {
	Dim     int     // how many elements of a head are rotated
	First   int     // before which so many are not
	Base    float32 // frequency i is Base^(-2i/Dim)
	Neox    bool    // pairs are (i, i+Dim/2) instead of (2i, 2i+1)
	Scaling Scaling
	Factor  float32 // how much longer the context has become; 1 for none
	// OrigContext is the context before it was stretched: for ScalingYarn, and the
	// limit between the long and short factors.
	OrigContext int
	AttnFactor  float32 // factor of the magnitude
	// The rest is for ScalingYarn (https://arxiv.org/abs/2309.00071).
	BetaFast, BetaSlow float32 // rotations within OrigContext between which the frequencies are blended
	// With InScores, the magnitude of what is rotated stays, and the scores are
	// multiplied by the square of AttnFactor*(1 + LogMultiplier*ln(Factor)).
	InScores      bool
	LogMultiplier float32
}

// keys reads the metadata of one architecture into p; the first error stays.
type keys struct {
	m   *gguf.Metadata
	a   *architecture
	p   *Params
	err error
}

func (k *keys) name(key string) string { return k.p.Arch + "." + key }

func (k *keys) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// invalid reports a value that makes no sense.
func (k *keys) invalid(key string, v any) {
	k.fail(fmt.Errorf("%w: metadata %q is %v", ErrModel, k.name(key), v))
}

// read returns the value of a key, or its default. Once an error has occurred it
// returns zeros, and computes no defaults from what has not been read.
func read[T gguf.Scalar](k *keys, key string) T {
	var zero T
	if k.err != nil {
		return zero
	}
	v, ok, err := gguf.Get[T](k.m, k.name(key))
	if err != nil {
		k.fail(err)
		return zero
	}
	if ok {
		return v
	}
	def := k.a.defaults[key]
	if def == nil {
		def = defaults[key]
	}
	if def == nil {
		k.fail(fmt.Errorf("%w: metadata %q is missing", ErrModel, k.name(key)))
		return zero
	}
	return def(k).(T)
}

// maxWidth bounds every width and count, far above any model, so that products
// of two fit an int.
const maxWidth = 1 << 24

// count reads a width or number that is at least 1.
func (k *keys) count(key string) int { return k.atLeast(1, key) }

func (k *keys) atLeast(least int, key string) int {
	n := read[int](k, key)
	if k.err == nil && (n < least || n > maxWidth) {
		k.invalid(key, n)
	}
	return n
}

// between reads a number above least and below most, which NaN is not.
func (k *keys) between(least, most float32, key string) float32 {
	x := read[float32](k, key)
	if k.err == nil && !(x > least && x < most) {
		k.invalid(key, x)
	}
	return x
}

// upTo reads a number from 0 to below most.
func (k *keys) upTo(most float32, key string) float32 {
	x := read[float32](k, key)
	if k.err == nil && !(x >= 0 && x < most) {
		k.invalid(key, x)
	}
	return x
}

// readParams reads the hyperparameters of an architecture.
func readParams(m *gguf.Metadata, arch string) (Params, error) {
	a := architectures[arch]
	p := Params{Arch: arch, Activation: a.activation, EmbedScale: 1, Fused: slices.Contains(a.required, AttnQKV)}
	if p.Activation == "" {
		p.Activation = SiLU
	}
	k := &keys{m: m, a: &a, p: &p}
	p.Name, _ = gguf.GetOr(m, "general.name", "")
	p.Context = k.count("context_length")
	p.Dim = k.count("embedding_length")
	p.Layers = k.count("block_count")
	p.FFN = k.count("feed_forward_length")
	p.NormEps = read[float32](k, "attention.layer_norm_rms_epsilon")
	if k.err == nil && !(p.NormEps >= 0 && p.NormEps < 1) {
		k.invalid("attention.layer_norm_rms_epsilon", p.NormEps)
	}
	if a.scaled {
		p.EmbedScale = float32(math.Sqrt(float64(p.Dim)))
	}
	k.attention()
	k.experts()
	if k.err != nil {
		return p, k.err
	}
	return p, nil
}

// attention reads what belongs to attention.
func (k *keys) attention() {
	p, a := k.p, k.a
	p.Heads = k.count("attention.head_count")
	p.KVHeads = k.count("attention.head_count_kv")
	p.HeadDim = k.count("attention.key_length")
	p.VDim = k.count("attention.value_length")
	if k.err == nil && p.Heads%p.KVHeads != 0 {
		k.fail(fmt.Errorf("%w: %d query heads do not divide among %d key heads", ErrModel, p.Heads, p.KVHeads))
	}
	if a.capped {
		p.AttnCap = k.upTo(1e9, "attn_logit_softcapping")
		p.LogitCap = k.upTo(1e9, "final_logit_softcapping")
	}
	p.Rope = k.rope()
	p.RopeWindow = p.Rope
	if a.window.used {
		p.Window = k.atLeast(0, "attention.sliding_window")
		p.WindowPeriod = k.atLeast(0, "attention.sliding_window_pattern")
		if a.localBase > 0 {
			r := &p.RopeWindow
			r.Base, r.Scaling, r.Factor = k.between(1, 1e12, "rope.freq_base_swa"), ScalingNone, 1
		}
	}
	if k.err != nil {
		return
	}
	p.QueryDim, p.OutDim = p.HeadDim, p.VDim
	if a.latent {
		k.latent()
	}
	width := p.QueryDim
	if p.Layers == a.wide {
		width = max(1, p.Dim/p.Heads)
	}
	p.AttnScale = float32(1 / math.Sqrt(float64(width)))
}

// latent reads what belongs to latent attention.
func (k *keys) latent() {
	p := k.p
	p.KVRank, p.QRank = k.count("attention.kv_lora_rank"), k.atLeast(0, "attention.q_lora_rank")
	query, out := k.atLeast(0, "attention.key_length_mla"), k.atLeast(0, "attention.value_length_mla")
	p.KVHeads = p.Heads
	if query > 0 && out > 0 {
		p.Absorbed, p.KVHeads, p.QueryDim, p.OutDim = true, 1, query, out
		switch {
		case k.err != nil:
		case p.QueryDim <= p.Rope.Dim:
			k.invalid("attention.key_length_mla", p.QueryDim)
		case p.HeadDim != p.KVRank+p.Rope.Dim:
			k.invalid("attention.key_length", p.HeadDim)
		case p.VDim != p.KVRank:
			k.invalid("attention.value_length", p.VDim)
		}
	}
	p.Rope.First, p.Rope.InScores = p.HeadDim-p.Rope.Dim, true
	p.RopeWindow = p.Rope
}

// experts reads what belongs to experts.
func (k *keys) experts() {
	e := &k.p.Experts
	if len(k.a.experts) == 0 {
		return
	}
	mixed := len(k.a.dense) > 0 // there may be layers without, or none with
	if e.Count = k.atLeast(0, "expert_count"); e.Count == 0 && mixed || k.err != nil {
		return
	}
	if e.Count == 0 {
		k.invalid("expert_count", 0)
	}
	if e.Used = k.count("expert_used_count"); k.err == nil && e.Used > e.Count {
		k.invalid("expert_used_count", e.Used)
	}
	e.FFN = k.count("expert_feed_forward_length")
	if mixed {
		e.FirstLayer = k.atLeast(0, "leading_dense_block_count")
	}
	switch {
	case k.a.sharedFFN:
		if e.Shared = k.atLeast(0, "expert_shared_count"); e.Shared*e.FFN > maxWidth {
			k.invalid("expert_shared_count", e.Shared)
		}
		e.Shared *= e.FFN
	case slices.Contains(k.a.experts, SharedUp):
		e.Shared = k.count("expert_shared_feed_forward_length")
	}
	e.Routing = k.routing()
	e.Norm = read[bool](k, "expert_weights_norm")
	if e.Scale = k.upTo(1e6, "expert_weights_scale"); e.Scale == 0 {
		e.Scale = 1
	}
	if e.Groups = k.atLeast(0, "expert_group_count"); e.Groups < 2 || k.err != nil {
		e.Groups = 0
		return
	}
	e.GroupsUsed = k.count("expert_group_used_count")
	switch {
	case k.err != nil:
	case e.Count%e.Groups != 0:
		k.invalid("expert_group_count", e.Groups)
	case e.GroupsUsed > e.Groups || e.Used > e.GroupsUsed*(e.Count/e.Groups):
		k.invalid("expert_group_used_count", e.GroupsUsed)
	}
}

// routing reads the routing, which files give as a number (LLM_KV_EXPERT_GATING_FUNC).
func (k *keys) routing() Routing {
	const key = "expert_gating_func"
	switch n := k.atLeast(0, key); {
	case n == 1 || n == 0 && k.a.routing == "":
		return RouteSoftmax
	case n == 0:
		return k.a.routing
	case n == 2:
		return RouteSigmoid
	case n == 3:
		return RouteChosen
	default:
		k.fail(fmt.Errorf("%w: metadata %q is %d; supported are 1 (softmax), 2 (sigmoid) and 3 (softmax of those chosen)", ErrUnsupported, k.name(key), n))
		return ""
	}
}

// rope reads the rotary position embedding.
func (k *keys) rope() Rope {
	r := Rope{
		Dim:           k.count("rope.dimension_count"),
		Neox:          k.a.neox,
		Base:          k.between(1, 1e12, "rope.freq_base"),
		OrigContext:   k.count("rope.scaling.original_context_length"),
		AttnFactor:    k.between(0, 1e6, "rope.scaling.attn_factor"),
		BetaFast:      read[float32](k, "rope.scaling.yarn_beta_fast"),
		BetaSlow:      read[float32](k, "rope.scaling.yarn_beta_slow"),
		LogMultiplier: k.between(-1e3, 1e3, "rope.scaling.yarn_log_multiplier"),
		Scaling:       Scaling(read[string](k, "rope.scaling.type")),
	}
	factor := "rope.scaling.factor"
	if _, ok := k.m.Value(k.name(factor)); !ok {
		factor = "rope.scale_linear"
	}
	if r.Factor = k.upTo(1e6, factor); r.Factor == 0 || r.Scaling == ScalingNone {
		r.Factor = 1
	}
	if k.err != nil {
		return r
	}
	if known := []Scaling{ScalingNone, ScalingLinear, ScalingYarn, ScalingLong}; !slices.Contains(known, r.Scaling) {
		k.fail(fmt.Errorf("%w: metadata %q is %q; supported are %v", ErrUnsupported, k.name("rope.scaling.type"), r.Scaling, known))
	}
	switch {
	case r.Dim%2 != 0 || r.Dim > k.p.HeadDim:
		k.fail(fmt.Errorf("%w: %d of %d elements of a head are rotated", ErrModel, r.Dim, k.p.HeadDim))
	case !(r.BetaSlow > 0 && r.BetaSlow < r.BetaFast && r.BetaFast < 1e6):
		k.fail(fmt.Errorf("%w: metadata %q is %v, and yarn_beta_slow %v", ErrModel, k.name("rope.scaling.yarn_beta_fast"), r.BetaFast, r.BetaSlow))
	}
	return r
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
