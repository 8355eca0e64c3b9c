package tokenizer

import "github.com/layerpipe/layerpipe/model/gguf"

// endTexts are tokens that end a generation whatever the metadata says about
// them: files name one EOS, but chat models end their turns with others. The
// list is llama.cpp's (llama-vocab.cpp, "end-of-generation").
var endTexts = map[string]bool{
	"<|eot_id|>":          true, // Llama 3
	"<|eom_id|>":          true, // Llama 3.1, before a tool runs
	"<|im_end|>":          true, // ChatML
	"<|end|>":             true, // Phi-3
	"<|return|>":          true, // gpt-oss
	"<|call|>":            true, // gpt-oss
	"<|flush|>":           true, // Solar Open
	"<|calls|>":           true, // Solar Open
	"<end_of_turn>":       true, // Gemma
	"<eos>":               true, // Gemma
	"<|endoftext|>":       true, // GPT-2
	"<|end_of_text|>":     true, // Granite, Llama 3
	"</s>":                true, // Llama 2
	"<EOT>":               true, // CodeLlama
	"_<EOT>":              true, // CodeLlama
	"[EOT]":               true, // Kimi
	"[EOS]":               true, // Kimi
	"<end_of_utterance>":  true, // SmolVLM
	"<｜end▁of▁sentence｜>": true, // DeepSeek
	"[e~[":                true, // MiniMax
	"<|fim_pad|>":         true, // Qwen: these follow code that was filled in
	"<fim-pad>":           true,
	"<fim_pad>":           true,
	"<PAD>":               true,
	"[PAD]":               true,
	"<|fim_repo|>":        true,
	"<|repo_name|>":       true,
	"<fim-repo>":          true,
	"<REPO>":              true,
	"<reponame>":          true,
	"<|file_sep|>":        true,
}

// endKeys name tokens that end a generation.
var endKeys = []string{
	"tokenizer.ggml.eos_token_id",
	"tokenizer.ggml.eot_token_id",
	"tokenizer.ggml.eom_token_id",
	"tokenizer.ggml.fim_pad_token_id",
	"tokenizer.ggml.fim_rep_token_id",
	"tokenizer.ggml.fim_sep_token_id",
}

// findEnds returns the tokens that end a generation. A token that ends one by
// its text becomes a control token: some files have it as user-defined, which
// would let the text of a user end the turn.
func findEnds(m *gguf.Metadata, v *vocab) (map[int32]bool, error) {
	ends := map[int32]bool{}
	named := map[string]int32{}
	for id, text := range v.texts {
		if endTexts[text] {
			named[text] = int32(id)
			ends[int32(id)] = true
			v.types[id] = control
		}
	}
	// gpt-oss and Solar Open end a part of the answer with <|end|>, and the
	// answer with one of the others.
	_, isReturn := named["<|return|>"]
	_, isCall := named["<|call|>"]
	_, isCalls := named["<|calls|>"]
	_, isFlush := named["<|flush|>"]
	if end, ok := named["<|end|>"]; ok && (isCall || isCalls) && (isReturn || isFlush) {
		delete(ends, end)
	}
	for _, key := range endKeys {
		id, err := v.readID(m, key)
		if err != nil {
			return nil, err
		}
		if id != none {
			ends[id] = true
		}
	}
	return ends, nil
}
