// Package tokenizer turns text into token ids and back, as the vocabulary in
// a GGUF file's metadata (keys tokenizer.ggml.*) says.
//
// Two kinds of vocabulary are known: SentencePiece byte-pair vocabularies
// (tokenizer.ggml.model "llama": Llama 1 and 2, Mistral, Gemma, Phi-3) and
// byte-level byte-pair vocabularies ("gpt2": GPT-2, Llama 3, Qwen, DeepSeek,
// Falcon, ...). The ids are those of llama.cpp for every text that is valid
// UTF-8; where llama.cpp only approximates a model's own pre-tokenizer, the
// model's is taken, and the comment at that place says so.
//
//	tok, err := tokenizer.New(metadata)
//	ids := tok.Encode(prompt, tokenizer.Options{AddSpecial: true})
//	out := tok.Decoder()
//	for _, id := range ids {
//		out.Next(id) // what follows continues the prompt
//	}
//	for id := range generated {
//		if tok.IsEnd(id) {
//			break
//		}
//		fmt.Print(out.Next(id))
//	}
//	fmt.Print(out.Flush())
//
// A [Tokenizer] does not change after [New] and may be used by several
// goroutines at once; a [Decoder] belongs to one.
package tokenizer
