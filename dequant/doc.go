// Package dequant turns the quantized blocks of a GGUF tensor into the numbers
// that they stand for.
//
// [Float32] expands a run of blocks of any type that [Supported] accepts. Its
// values are those of the reference implementation (ggml's to_float), bit for
// bit on every platform: no product is fused with a following addition.
//
// A block's bytes are trusted to be nothing but bytes. Any content gives
// values, be they infinite or NaN when the block's own scale is.
package dequant
