package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// ErrUnsupported reports a vocabulary of a kind, or a pre-tokenizer, that this
// package does not know. Guessing would give ids that the model was not
// trained on.
var ErrUnsupported = errors.New("tokenizer: unsupported")

// An encoder is the part that differs between kinds of vocabulary: how plain
// text becomes tokens and how a token becomes text.
type encoder interface {
	// encode appends the tokens of text, which holds no special tokens.
	// first says that text starts the input or follows a special token.
	encode(dst []int32, text string, first bool) []int32
	// piece returns the bytes that a token of an ordinary type stands for.
	piece(text string) string
	// prefixesSpace reports whether encode puts a space before a first text.
	prefixesSpace() bool
}

// A Tokenizer turns text into token ids and back.
type Tokenizer struct {
	vocab *vocab
	kind  encoder
	ends  map[int32]bool

	userDefined, special matcher // special: control tokens too
}

// New builds the tokenizer that the metadata describes. It keeps the
// metadata's token array, which must not change afterwards. The error is a
// [gguf.ErrFormat] that names the key for metadata that contradicts itself,
// and an [ErrUnsupported] that lists what there is for an unknown kind.
func New(m *gguf.Metadata) (*Tokenizer, error) {
	const key = "tokenizer.ggml.model"
	model, ok, err := gguf.Get[string](m, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, formatError(key, "missing")
	}
	v, err := readVocab(m)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{vocab: v}
	if t.ends, err = findEnds(m, v); err != nil {
		return nil, err
	}
	switch model {
	case "llama":
		t.kind, err = newSPM(m, v)
	case "gpt2":
		t.kind, err = newBPE(m, v)
	default:
		return nil, fmt.Errorf("%w: metadata %q: %q (supported: gpt2, llama)", ErrUnsupported, key, model)
	}
	if err != nil {
		return nil, err
	}
	if v.addBOS, err = gguf.GetOr(m, "tokenizer.ggml.add_bos_token", v.addBOS); err != nil {
		return nil, err
	}
	if v.addEOS, err = gguf.GetOr(m, "tokenizer.ggml.add_eos_token", v.addEOS); err != nil {
		return nil, err
	}
	if v.eos != none {
		t.ends[v.eos] = true
	}
	trim, err := specialsTrim(m)
	if err != nil {
		return nil, err
	}
	t.userDefined = newMatcher(v, trim, userDefined)
	t.special = newMatcher(v, trim, userDefined, control, unknown)
	return t, nil
}

// Options say what [Tokenizer.Encode] does about special tokens.
type Options struct {
	// AddSpecial adds BOS and EOS where the vocabulary asks for them.
	// Default: neither.
	AddSpecial bool
	// ParseSpecial takes text that reads as a control token for that token.
	// Set it for text from a chat template, never for text from a user, who
	// could end the turn by typing "<|eot_id|>". Default: it is plain text.
	ParseSpecial bool
	// Literal are the parts of the text, in order, that ParseSpecial does not
	// hold for: what reads as a control token there is text. They are for text
	// from users within a template's.
	Literal []Range
}

// A Range is a part of a text: the bytes from Start to before End.
type Range struct{ Start, End int }

// Encode returns the tokens of text. Invalid UTF-8 is encoded byte by byte. A
// character that the vocabulary cannot write becomes its unknown token, or
// nothing if there is none.
func (t *Tokenizer) Encode(text string, opt Options) []int32 {
	ids := make([]int32, 0, len(text)/4+2)
	v := t.vocab
	if opt.AddSpecial && v.addBOS && v.bos != none {
		ids = append(ids, v.bos)
	}
	special := &t.userDefined
	if opt.ParseSpecial {
		special = &t.special
	}
	at, first := 0, true
	for _, s := range special.find(text) {
		if len(opt.Literal) > 0 && t.vocab.types[s.id] != userDefined && touches(opt.Literal, s) {
			continue
		}
		if s.start > at {
			ids = t.kind.encode(ids, text[at:s.start], first)
		}
		ids = append(ids, s.id)
		at, first = s.end, true
	}
	if at < len(text) {
		ids = t.kind.encode(ids, text[at:], first)
	}
	if opt.AddSpecial && v.addEOS && v.eos != none {
		ids = append(ids, v.eos)
	}
	return ids
}

func touches(ranges []Range, s span) bool {
	i, _ := slices.BinarySearchFunc(ranges, s.start+1, func(r Range, at int) int { return cmp.Compare(r.End, at) })
	return i < len(ranges) && ranges[i].Start < s.end // the first range that ends behind the start of s
}

// Special returns the parts of text that Encode would take for control tokens
// if it were asked to parse them, in order.
func (t *Tokenizer) Special(text string) []Range {
	var ranges []Range
	for _, s := range t.special.find(text) {
		if t.vocab.types[s.id] != userDefined {
			ranges = append(ranges, Range{s.start, s.start + len(t.vocab.texts[s.id])})
		}
	}
	return ranges
}

// Size returns the number of tokens: ids are 0 to Size()-1.
func (t *Tokenizer) Size() int { return len(t.vocab.texts) }

// Token returns the text of a token as the vocabulary spells it ("▁the",
// "Ġthe", "<0x0A>", "<|eot_id|>"), "" for an id that it does not have. See
// [Tokenizer.Decode] for what a token stands for.
func (t *Tokenizer) Token(id int32) string {
	if !t.vocab.has(id) {
		return ""
	}
	return t.vocab.texts[id]
}

// BOS returns the token that starts a text; ok is false if there is none.
func (t *Tokenizer) BOS() (id int32, ok bool) { return t.vocab.bos, t.vocab.bos != none }

// EOS returns the token that ends a text; ok is false if there is none. A
// model may end its answers with others: see [Tokenizer.IsEnd].
func (t *Tokenizer) EOS() (id int32, ok bool) { return t.vocab.eos, t.vocab.eos != none }

// IsEnd reports whether a model that generates id has finished.
func (t *Tokenizer) IsEnd(id int32) bool { return t.ends[id] }

// IsControl reports whether id is a control token, such as "<|eot_id|>": part
// of a conversation's structure, not of what is said.
func (t *Tokenizer) IsControl(id int32) bool {
	return t.vocab.has(id) && t.vocab.types[id] == control
}
