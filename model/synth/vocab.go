package synth

import "fmt"

// The types of tokens, as in tokenizer.ggml.token_type.
const (
	tokenNormal  int32 = 1
	tokenUnknown int32 = 2
	tokenControl int32 = 3
	tokenByte    int32 = 6
)

const (
	consonants = "tnsrhldcmfpgwbvkyjxz"
	vowels     = "eaoiu"

	// singles are the characters that are tokens, after the space; all others
	// are written as bytes.
	space   = "▁"
	singles = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.,'\"-0123456789!?:;()/*+=#$%&<>@[\\]^_`{|}~"

	// minVocab has the three special tokens, the bytes, and what made-up words
	// are written with.
	minVocab = 3 + 256 + 1 + 26
)

// A vocab is a SentencePiece vocabulary.
type vocab struct {
	texts  []string
	scores []float32
	types  []int32
}

// newVocab makes n tokens, at least minVocab. Words are sequences of syllables,
// with and without the space before; each consists of two shorter tokens, so
// that merges reach it. No two are the same, as the vowels end the syllables.
func newVocab(n int) *vocab {
	v := &vocab{make([]string, 0, n), make([]float32, 0, n), make([]int32, 0, n)}
	v.add("<unk>", tokenUnknown)
	v.add("<s>", tokenControl)
	v.add("</s>", tokenControl)
	for b := range 256 {
		v.add(fmt.Sprintf("<0x%02X>", b), tokenByte)
	}
	first := len(v.texts)
	for _, c := range space + singles {
		if len(v.texts) < n {
			v.add(string(c), tokenNormal)
		}
	}
	for i := 0; len(v.texts) < n; i++ {
		w := word(i)
		v.add(w, tokenNormal)
		if len(v.texts) < n {
			v.add(space+w, tokenNormal)
		}
	}
	for id := first; id < n; id++ {
		v.scores[id] = -float32(id - first) // what comes first is merged first
	}
	return v
}

func (v *vocab) add(text string, t int32) {
	v.texts, v.scores, v.types = append(v.texts, text), append(v.scores, 0), append(v.types, t)
}

// word returns the i-th word: those of one syllable come first, then those of
// two, and so on.
func word(i int) string {
	const syllables = len(consonants) * len(vowels)
	w := ""
	for i++; i > 0; i = (i - 1) / syllables {
		s := (i - 1) % syllables
		w = string([]byte{consonants[s/len(vowels)], vowels[s%len(vowels)]}) + w
	}
	return w
}
