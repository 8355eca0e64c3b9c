package tokenizer_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/layerpipe/layerpipe/model/gguf"
	"github.com/layerpipe/layerpipe/model/tokenizer"
)

// A prompt is encoded before the first pass: a megabyte should cost less than
// one read of a layer.
func BenchmarkEncode(b *testing.B) {
	prose := strings.Repeat("Once upon a time, in 1999, there wasn't a model that fitted into memory; so its layers came by one by one. "+
		"Größe zählt nicht, 但是内存不够。\n\n\tif x >= 10 { return f(x-1) }\n", 6000)[:1<<20]
	texts := map[string]string{
		"prose":  prose,
		"run":    strings.Repeat("a", 1<<20),
		"spaces": strings.Repeat(" ", 1<<20),
	}
	for _, name := range append([]string{"demo"}, vocabularies...) {
		b.Run(name, func(b *testing.B) {
			tok := demo()
			if name != "demo" {
				tok = reference(b, name)
			}
			for _, text := range []string{"prose", "run", "spaces"} {
				b.Run(text, func(b *testing.B) {
					b.SetBytes(int64(len(texts[text])))
					for b.Loop() {
						tok.Encode(texts[text], tokenizer.Options{ParseSpecial: true})
					}
				})
			}
		})
	}
}

// Building the tables delays the first token, or hides behind the first read.
func BenchmarkNew(b *testing.B) {
	for _, name := range []string{"llama-spm", "deepseek-llm"} {
		b.Run(name, func(b *testing.B) {
			f, err := gguf.Open(filepath.Join(referenceDir(b), "ggml-vocab-"+name+".gguf"))
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := tokenizer.New(f.Metadata); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
