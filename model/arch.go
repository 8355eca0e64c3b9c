package model

// A Role is what a tensor is for.
type Role uint8

// The roles of a layer's tensors, then those of the whole model. The comments
// give the shape as rows x row length.
const (
	AttnNorm Role = iota // Dim
	AttnQ                // Heads*HeadDim x Dim
	AttnK                // KVHeads*HeadDim x Dim
	AttnV                // KVHeads*VDim x Dim
	AttnOut              // Dim x Heads*VDim
	AttnQBias
	AttnKBias
	AttnVBias
	AttnOutBias
	FFNNorm // Dim
	FFNGate // FFN x Dim
	FFNUp   // FFN x Dim
	FFNDown // Dim x FFN
	layerRoles

	Embedding   // Vocab x Dim
	OutputNorm  // Dim
	Output      // Vocab x Dim; the embedding serves when it is absent (tied)
	RopeFactors // Rope.Dim/2 divisors of the frequencies
	roles
)

// suffix is the name of a role's tensor, behind "blk.N." for those of a layer.
var suffix = [roles]string{
	AttnNorm: "attn_norm.weight", AttnQ: "attn_q.weight", AttnK: "attn_k.weight", AttnV: "attn_v.weight", AttnOut: "attn_output.weight",
	AttnQBias: "attn_q.bias", AttnKBias: "attn_k.bias", AttnVBias: "attn_v.bias", AttnOutBias: "attn_output.bias",
	FFNNorm: "ffn_norm.weight", FFNGate: "ffn_gate.weight", FFNUp: "ffn_up.weight", FFNDown: "ffn_down.weight",
	Embedding: "token_embd.weight", OutputNorm: "output_norm.weight", Output: "output.weight", RopeFactors: "rope_freqs.weight",
}

// vector reports whether the tensors of role r are vectors: a single row, by
// what they are for. A matrix may happen to have one row too.
func (r Role) vector() bool {
	switch r {
	case AttnNorm, AttnQBias, AttnKBias, AttnVBias, AttnOutBias, FFNNorm, OutputNorm, RopeFactors:
		return true
	}
	return false
}

// An architecture says what differs from the others over one shared
// transformer: which tensors there are.
type architecture struct {
	required, optional []Role
	ignored            []string // suffixes of tensors that files have and nobody reads
	neox               bool     // Rope.Neox
}

var architectures = map[string]architecture{
	// Llama 1 to 3.x, Mistral and their many relatives.
	"llama": {
		required: []Role{AttnNorm, AttnQ, AttnK, AttnV, AttnOut, FFNNorm, FFNGate, FFNUp, FFNDown, Embedding, OutputNorm},
		optional: []Role{AttnQBias, AttnKBias, AttnVBias, AttnOutBias, Output, RopeFactors},
		ignored:  []string{"attn_rot_embd.weight", "attn.rot_embd", "attention.rotary_emb.inv_freq"},
	},
}

// shape returns the row length and the number of rows of a role's tensor.
func (p *Params) shape(r Role) (cols, rows int) {
	switch r {
	case AttnNorm, FFNNorm, OutputNorm, AttnOutBias:
		return p.Dim, 1
	case AttnQ:
		return p.Dim, p.Heads * p.HeadDim
	case AttnK:
		return p.Dim, p.KVHeads * p.HeadDim
	case AttnV:
		return p.Dim, p.KVHeads * p.VDim
	case AttnOut:
		return p.Heads * p.VDim, p.Dim
	case AttnQBias:
		return p.Heads * p.HeadDim, 1
	case AttnKBias:
		return p.KVHeads * p.HeadDim, 1
	case AttnVBias:
		return p.KVHeads * p.VDim, 1
	case FFNGate, FFNUp:
		return p.Dim, p.FFN
	case FFNDown:
		return p.FFN, p.Dim
	case Embedding, Output:
		return p.Dim, p.Vocab
	case RopeFactors:
		return p.Rope.Dim / 2, 1
	}
	panic("model: role without a shape")
}
