package model

// A Role is what a tensor is for.
type Role uint8

// The roles of a layer's tensors in the order in which a pass uses them, then
// those of the whole model. The comments give the shape as rows x row length.
const (
	AttnNorm Role = iota // Dim

	AttnQ     // Heads*QueryDim x Dim; or in two steps, with QRank:
	AttnQA    // QRank x Dim
	AttnQNorm // QRank, between the steps
	AttnQB    // Heads*QueryDim x QRank

	AttnK   // KVHeads*HeadDim x Dim
	AttnV   // KVHeads*VDim x Dim; or with queries, keys and values in one:
	AttnQKV // (Heads*HeadDim + KVHeads*HeadDim + KVHeads*VDim) x Dim

	AttnKVA    // KVRank+Rope.Dim x Dim: the latent, and the rotated part of all keys
	AttnKVNorm // KVRank
	AttnKVB    // Heads*(HeadDim-Rope.Dim+VDim) x KVRank: for each head the rest of its key, and its value
	AttnKB     // Heads of KVRank x QueryDim-Rope.Dim, if Absorbed

	AttnQBias
	AttnKBias
	AttnVBias
	HeadQNorm // HeadDim, for each head of a query
	HeadKNorm // HeadDim, for each head of a key
	AttnSinks // Heads: a score that takes part in the softmax and has no value
	AttnVB    // Heads of OutDim x KVRank, if Absorbed
	AttnOut   // Dim x Heads*OutDim
	AttnOutBias
	AttnPostNorm // Dim, before the sum with the hidden state

	FFNNorm        // Dim
	Router         // Experts.Count x Dim
	RouterBias     // Experts.Count
	SelectBias     // Experts.Count: counts when experts are chosen, not in their weights
	ExpertGate     // Experts.Count of Experts.FFN x Dim
	ExpertGateBias // Experts.Count x Experts.FFN
	ExpertUp       // Experts.Count of Experts.FFN x Dim
	ExpertUpBias   // Experts.Count x Experts.FFN
	ExpertDown     // Experts.Count of Dim x Experts.FFN
	ExpertDownBias // Experts.Count x Dim
	SharedRouter   // Dim: the weight of the shared expert is the sigmoid of its product
	SharedGate     // Experts.Shared x Dim
	SharedUp       // Experts.Shared x Dim
	SharedDown     // Dim x Experts.Shared
	FFNGate        // FFN x Dim
	FFNUp          // FFN x Dim; or with the gate before it, in one:
	FFNGateUp      // 2*FFN x Dim
	FFNDown        // Dim x FFN
	FFNPostNorm    // Dim, before the sum with the hidden state
	layerRoles

	Embedding   // Vocab x Dim
	OutputNorm  // Dim
	Output      // Vocab x Dim; the embedding serves when it is absent (tied)
	RopeFactors // Rope.Dim/2 divisors of the frequencies
	RopeLong    // the same for contexts above Rope.OrigContext,
	RopeShort   // and for others
	roles
)

// names are the names of the roles' tensors, behind "blk.N." for those of a
// layer.
var names = [roles]string{
	AttnNorm: "attn_norm.weight",
	AttnQ:    "attn_q.weight", AttnQA: "attn_q_a.weight", AttnQNorm: "attn_q_a_norm.weight", AttnQB: "attn_q_b.weight",
	AttnK: "attn_k.weight", AttnV: "attn_v.weight", AttnQKV: "attn_qkv.weight",
	AttnKVA: "attn_kv_a_mqa.weight", AttnKVNorm: "attn_kv_a_norm.weight", AttnKVB: "attn_kv_b.weight", AttnKB: "attn_k_b.weight", AttnVB: "attn_v_b.weight",
	AttnQBias: "attn_q.bias", AttnKBias: "attn_k.bias", AttnVBias: "attn_v.bias",
	HeadQNorm: "attn_q_norm.weight", HeadKNorm: "attn_k_norm.weight", AttnSinks: "attn_sinks.weight",
	AttnOut: "attn_output.weight", AttnOutBias: "attn_output.bias", AttnPostNorm: "post_attention_norm.weight",

	FFNNorm: "ffn_norm.weight", Router: "ffn_gate_inp.weight", RouterBias: "ffn_gate_inp.bias", SelectBias: "exp_probs_b.bias",
	ExpertGate: "ffn_gate_exps.weight", ExpertGateBias: "ffn_gate_exps.bias",
	ExpertUp: "ffn_up_exps.weight", ExpertUpBias: "ffn_up_exps.bias",
	ExpertDown: "ffn_down_exps.weight", ExpertDownBias: "ffn_down_exps.bias",
	SharedRouter: "ffn_gate_inp_shexp.weight", SharedGate: "ffn_gate_shexp.weight", SharedUp: "ffn_up_shexp.weight", SharedDown: "ffn_down_shexp.weight",
	FFNGate: "ffn_gate.weight", FFNUp: "ffn_up.weight", FFNGateUp: "ffn_up.weight", FFNDown: "ffn_down.weight", FFNPostNorm: "post_ffw_norm.weight",

	Embedding: "token_embd.weight", OutputNorm: "output_norm.weight", Output: "output.weight",
	RopeFactors: "rope_freqs.weight", RopeLong: "rope_factors_long.weight", RopeShort: "rope_factors_short.weight",
}

// vector reports whether the tensors of role r are vectors: a single row, by
// what they are for. A matrix may happen to have one row too.
func (r Role) vector() bool {
	switch r {
	case AttnNorm, AttnQNorm, AttnKVNorm, AttnQBias, AttnKBias, AttnVBias, HeadQNorm, HeadKNorm, AttnSinks, AttnOutBias, AttnPostNorm,
		FFNNorm, RouterBias, SelectBias, SharedRouter, FFNPostNorm, OutputNorm, RopeFactors, RopeLong, RopeShort:
		return true
	}
	return false
}

// grouped reports whether a tensor of role r consists of matrices of which a
// pass uses some, in an order of its own.
func (r Role) grouped() bool {
	switch r {
	case ExpertGate, ExpertUp, ExpertDown, AttnKB, AttnVB:
		return true
	}
	return r.floats()
}

// floats reports whether role r's values are added as they are and not
// multiplied: they must be F32. Such matrices are streamed with their layer,
// because they hold a vector for each expert.
func (r Role) floats() bool {
	return r.vector() || r == ExpertGateBias || r == ExpertUpBias || r == ExpertDownBias
}

// shape returns the row length, the number of rows, and for roles that hold one
// matrix for each expert the number of these, otherwise 1.
func (p *Params) shape(r Role) (cols, rows, matrices int) {
	q, k, v, e := p.Heads*p.QueryDim, p.KVHeads*p.HeadDim, p.KVHeads*p.VDim, &p.Experts
	switch r {
	case AttnNorm, AttnPostNorm, FFNNorm, FFNPostNorm, OutputNorm, AttnOutBias, SharedRouter:
		return p.Dim, 1, 1
	case AttnQ:
		return p.Dim, q, 1
	case AttnQA:
		return p.Dim, p.QRank, 1
	case AttnQNorm:
		return p.QRank, 1, 1
	case AttnQB:
		return p.QRank, q, 1
	case AttnK:
		return p.Dim, k, 1
	case AttnV:
		return p.Dim, v, 1
	case AttnQKV:
		return p.Dim, q + k + v, 1
	case AttnKVA:
		return p.Dim, p.KVRank + p.Rope.Dim, 1
	case AttnKVNorm:
		return p.KVRank, 1, 1
	case AttnKVB:
		return p.KVRank, p.Heads * (p.HeadDim - p.Rope.Dim + p.VDim), 1
	case AttnKB:
		return p.QueryDim - p.Rope.Dim, p.KVRank, p.Heads
	case AttnVB:
		return p.KVRank, p.OutDim, p.Heads
	case AttnQBias:
		return q, 1, 1
	case AttnKBias:
		return k, 1, 1
	case AttnVBias:
		return v, 1, 1
	case HeadQNorm, HeadKNorm:
		return p.HeadDim, 1, 1
	case AttnSinks:
		return p.Heads, 1, 1
	case AttnOut:
		return p.Heads * p.OutDim, p.Dim, 1
	case Router:
		return p.Dim, e.Count, 1
	case RouterBias, SelectBias:
		return e.Count, 1, 1
	case ExpertGate, ExpertUp:
		return p.Dim, e.FFN, e.Count
	case ExpertDown:
		return e.FFN, p.Dim, e.Count
	case ExpertGateBias, ExpertUpBias:
		return e.FFN, e.Count, 1
	case ExpertDownBias:
		return p.Dim, e.Count, 1
	case SharedGate, SharedUp:
		return p.Dim, e.Shared, 1
	case SharedDown:
		return e.Shared, p.Dim, 1
	case FFNGate, FFNUp:
		return p.Dim, p.FFN, 1
	case FFNGateUp:
		return p.Dim, 2 * p.FFN, 1
	case FFNDown:
		return p.FFN, p.Dim, 1
	case Embedding, Output:
		return p.Dim, p.Vocab, 1
	case RopeFactors, RopeLong, RopeShort:
		return p.Rope.Dim / 2, 1, 1
	}
	panic("model: role without a shape")
}
