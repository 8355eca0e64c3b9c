package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// Decode returns the text of ids: control tokens as the vocabulary spells
// them, byte tokens as their byte, so that it need not be valid UTF-8. If
// [Tokenizer.Encode] puts a space before a text, that one is removed again.
// An id that the vocabulary does not have stands for nothing.
//
// Decode loses nothing: llama.cpp's optional clean-up, which turns " ?" into
// "?", is not done.
func (t *Tokenizer) Decode(ids []int32) string {
	var b strings.Builder
	for i, id := range ids {
		b.WriteString(t.piece(id, i == 0))
	}
	return b.String()
}

// piece returns the bytes that a token stands for.
func (t *Tokenizer) piece(id int32, first bool) string {
	if !t.vocab.has(id) {
		return ""
	}
	s := t.vocab.texts[id]
	switch t.vocab.types[id] {
	case control, unknown, userDefined:
	case byteToken:
		b, _ := parseByte(s) // checked by readVocab
		return string([]byte{b})
	default:
		s = t.kind.piece(s)
	}
	if first && t.kind.prefixesSpace() {
		s = strings.TrimPrefix(s, " ")
	}
	return s
}

// Decoder returns a decoder for one sequence of tokens. To show what a model
// generates, give it the prompt's tokens first: a space before the first
// generated word is then not taken for the start of the text.
func (t *Tokenizer) Decoder() *Decoder { return &Decoder{t: t, first: true} }

// A Decoder decodes tokens one by one. A token may hold a part of a character;
// the decoder keeps it until the rest has come.
type Decoder struct {
	t     *Tokenizer
	first bool
	held  string // the start of a character, at most 3 bytes
}

// Next returns the text that id completes, which may be none. It ends at the
// end of a character. Bytes that no character starts with are passed on as
// they are: all results, and [Decoder.Flush]'s, together are what
// [Tokenizer.Decode] returns for all ids.
func (d *Decoder) Next(id int32) string {
	s := d.held + d.t.piece(id, d.first)
	d.first = false
	n := len(s)
	for i := n - 1; i >= max(n-utf8.UTFMax+1, 0); i-- {
		if utf8.RuneStart(s[i]) {
			if !utf8.FullRuneInString(s[i:]) {
				n = i
			}
			break
		}
	}
	d.held = s[n:]
	return s[:n]
}

// Flush returns what is held back, bytes that are not a whole character, and
// makes the decoder ready for another sequence.
func (d *Decoder) Flush() string {
	s := d.held
	d.held, d.first = "", true
	return s
}
