package model

// fixed is a default that depends on nothing.
func fixed(v any) func(*keys) any { return func(*keys) any { return v } }

// defaults are the values of keys that a file may lack, by the name behind
// "<architecture>.". They are what llama.cpp assumes: src/llama-model.cpp,
// llama_model::load_hparams, and the members of llama_hparams in
// src/llama-hparams.h. A key that is read and not listed, here or with its
// architecture, is required.
var defaults = map[string]func(*keys) any{
	"attention.head_count_kv": func(k *keys) any { return k.p.Heads },
	"attention.key_length":    func(k *keys) any { return k.p.Dim / k.p.Heads },
	"attention.value_length":  func(k *keys) any { return k.p.Dim / k.p.Heads },
	"attention.q_lora_rank":   fixed(0), // queries in one step, as DeepSeek-V2-Lite
	// Files of before April 2025 have keys and values in one tensor, and no keys
	// that say how wide they are as opposed to what is cached.
	"attention.key_length_mla":   fixed(0),
	"attention.value_length_mla": fixed(0),

	"attention.sliding_window_pattern": func(k *keys) any { return k.a.window.period },
	"attn_logit_softcapping":           fixed(float32(50)),
	"final_logit_softcapping":          fixed(float32(30)),

	"rope.dimension_count":                 func(k *keys) any { return k.p.HeadDim },
	"rope.freq_base":                       fixed(float32(10000)),
	"rope.freq_base_swa":                   func(k *keys) any { return k.a.localBase },
	"rope.scaling.type":                    fixed(string(ScalingLinear)),
	"rope.scaling.factor":                  fixed(float32(0)), // none
	"rope.scale_linear":                    fixed(float32(0)), // what older files have instead
	"rope.scaling.original_context_length": func(k *keys) any { return k.p.Context },
	"rope.scaling.attn_factor":             fixed(float32(1)),
	"rope.scaling.yarn_beta_fast":          fixed(float32(32)),
	"rope.scaling.yarn_beta_slow":          fixed(float32(1)),
	"rope.scaling.yarn_log_multiplier":     fixed(float32(0)),

	"expert_count":      fixed(0),
	"expert_used_count": fixed(0),
	// What follows is read of models with experts.
	"expert_feed_forward_length":        func(k *keys) any { return k.p.FFN / k.p.Experts.Used },
	"expert_shared_feed_forward_length": func(k *keys) any { return k.p.FFN },
	"expert_shared_count":               fixed(0),
	"leading_dense_block_count":         fixed(0),
	"expert_gating_func":                fixed(0), // the architecture's
	"expert_weights_norm":               func(k *keys) any { return k.a.normalized },
	"expert_weights_scale":              fixed(float32(0)), // none
	"expert_group_count":                fixed(0),
}
