package model

import "slices"

// An architecture says what differs from the others over the one block that
// package compute runs: which tensors there are, and how the hyperparameters
// are to be read. What is present decides much: a layer with head norms, sinks,
// or a post norm applies them.
type architecture struct {
	// The tensors of the model and of every layer, and those of the feed-forward
	// network of a layer without experts and of one with. A model without a key
	// for experts has none.
	required, dense, experts []Role
	optional                 []Role
	names                    map[Role]string // that differ from the others'
	ignored                  []string        // suffixes of tensors that files have and nobody reads

	neox       bool       // Rope.Neox
	activation Activation // Params.Activation
	scaled     bool       // the embedding is scaled: Params.EmbedScale
	wide       int        // models of so many layers scale scores by Dim/Heads instead of HeadDim
	window     windowKind
	localBase  float32 // if not 0, the base of windowed layers' rotations, which are not stretched
	capped     bool    // scores and logits have soft caps
	latent     bool    // keys and values come from a latent (MLA): QRank, KVRank
	routing    Routing // Experts.Routing, unless the file says
	normalized bool    // Experts.Norm, unless the file says
	sharedFFN  bool    // Experts.Shared is expert_shared_count experts wide
	// defaults are those of this architecture, before those of all.
	defaults map[string]func(*keys) any
}

// windowKind says which layers have a sliding window.
type windowKind struct {
	used   bool
	period int // Params.WindowPeriod
}

var (
	attention = []Role{Embedding, OutputNorm, AttnNorm, AttnQ, AttnK, AttnV, AttnOut, FFNNorm}
	gated     = []Role{FFNGate, FFNUp, FFNDown}
	expert    = []Role{Router, ExpertGate, ExpertUp, ExpertDown}
	shared    = []Role{SharedGate, SharedUp, SharedDown}
	qkvBiases = []Role{AttnQBias, AttnKBias, AttnVBias}
	headNorms = []Role{HeadQNorm, HeadKNorm}
	postNorms = []Role{AttnPostNorm, FFNPostNorm}
)

// architectures are named as in general.architecture. The facts about each are
// those of llama.cpp (src/llama-model.cpp: load_hparams, load_tensors and the
// graphs), which made most of the files.
var architectures = map[string]architecture{
	// Llama 1 to 3.x, Mistral, Mixtral and their many relatives.
	"llama": {
		required: attention, dense: gated, experts: expert,
		optional:   append([]Role{AttnOutBias, Output, RopeFactors, RopeLong, RopeShort}, qkvBiases...),
		ignored:    []string{"attn_rot_embd.weight", "attn.rot_embd", "attention.rotary_emb.inv_freq"},
		normalized: true,
		defaults:   map[string]func(*keys) any{"expert_feed_forward_length": func(k *keys) any { return k.p.FFN }},
	},
	"qwen2": {
		required: slices.Concat(attention, qkvBiases), dense: gated, optional: []Role{Output},
		neox: true,
	},
	"qwen3": {
		required: slices.Concat(attention, headNorms), dense: gated, optional: []Role{Output},
		neox: true,
	},
	"gemma2": {
		required: slices.Concat(attention, postNorms), dense: gated, optional: []Role{Output},
		neox: true, activation: GELU, scaled: true, wide: 46, window: windowKind{true, 2}, capped: true,
		defaults: map[string]func(*keys) any{"attention.sliding_window": fixed(4096)},
	},
	"gemma3": {
		required: slices.Concat(attention, headNorms, postNorms), dense: gated, optional: []Role{Output},
		neox: true, activation: GELU, scaled: true, wide: 62, window: windowKind{true, 6}, localBase: 10000, capped: true,
		defaults: map[string]func(*keys) any{
			"attn_logit_softcapping": fixed(float32(0)), "final_logit_softcapping": fixed(float32(0)),
		},
	},
	"phi3": {
		required: []Role{Embedding, OutputNorm, AttnNorm, AttnQKV, AttnOut, FFNNorm}, dense: []Role{FFNGateUp, FFNDown},
		optional: []Role{Output, RopeFactors, RopeLong, RopeShort},
		neox:     true, window: windowKind{true, 0},
		defaults: map[string]func(*keys) any{"attention.sliding_window": phi3Window},
	},
	"qwen2moe": {
		required: slices.Concat(attention, qkvBiases), experts: slices.Concat(expert, []Role{SharedRouter}, shared), optional: []Role{Output},
		neox: true,
	},
	"qwen3moe": {
		required: slices.Concat(attention, headNorms), experts: expert, optional: []Role{Output},
		neox: true, normalized: true,
	},
	"gpt-oss": {
		required: slices.Concat(attention, qkvBiases, []Role{AttnOutBias, AttnSinks}),
		experts:  slices.Concat(expert, []Role{RouterBias, ExpertGateBias, ExpertUpBias, ExpertDownBias}),
		optional: []Role{Output},
		names:    map[Role]string{FFNNorm: "post_attention_norm.weight"},
		neox:     true, activation: ClampedSwiGLU, window: windowKind{true, 2}, routing: RouteChosen,
	},
	"deepseek2": {
		required: []Role{Embedding, OutputNorm, AttnNorm, AttnQ, AttnKVA, AttnKVNorm, AttnKVB, AttnOut, FFNNorm},
		dense:    gated, experts: slices.Concat(expert, shared), optional: []Role{Output, SelectBias},
		latent: true, sharedFFN: true,
	},
}

// phi3Window is the window of files that were made before it was written:
// those of Phi-3-mini-4k and Phi-3-medium-4k. Others see all positions.
func phi3Window(k *keys) any {
	if (k.p.Layers == 32 || k.p.Layers == 40) && k.p.Context == 4096 {
		return 2047
	}
	return 0
}

// roles returns the roles of layer l's tensors, or of the model's if l < 0.
func (a *architecture) roles(p *Params, l int) (required, optional []Role) {
	mine := func(r Role) bool { return (r < layerRoles) == (l >= 0) }
	for _, r := range a.required {
		switch {
		case !mine(r):
		case r == AttnQ && p.QRank > 0:
			required = append(required, AttnQA, AttnQNorm, AttnQB)
		case r == AttnKVB && p.Absorbed:
			required = append(required, AttnKB, AttnVB)
		default:
			required = append(required, r)
		}
	}
	for _, r := range a.optional {
		if mine(r) && (r != SelectBias || p.HasExperts(l)) {
			optional = append(optional, r)
		}
	}
	switch {
	case l < 0:
	case p.HasExperts(l):
		for _, r := range a.experts {
			if p.Experts.Shared > 0 || !slices.Contains(shared, r) {
				required = append(required, r)
			}
		}
	default:
		required = append(required, a.dense...)
	}
	return required, optional
}

// name returns the name of role r's tensor, without the layer.
func (a *architecture) name(r Role) string {
	if n, ok := a.names[r]; ok {
		return n
	}
	return names[r]
}
