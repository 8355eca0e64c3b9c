// Package synth makes models of any size out of nothing: GGUF files of the
// llama architecture with random weights. They take the room and the time of
// real ones, and say nothing.
//
//	shape, err := synth.ParseShape("7b")
//	t, err := synth.ParseType("Q4_K_M")
//	err = synth.Write(ctx, file, synth.Config{Shape: shape, Type: t, Seed: 1}, nil)
//
// Random numbers are written straight as quantized blocks, one buffer after the
// other, so that a file of 40 GB takes a megabyte of memory and as long as the
// disk needs. The same [Config] makes the same bytes on every machine.
//
// The weights have the scale of a network before training: what goes through a
// matrix comes out as large as it went in, so that a pass of any depth gives
// finite logits that differ. The tokenizer is a small SentencePiece vocabulary
// of made-up words, which can write any text.
package synth
