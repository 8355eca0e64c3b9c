package tokenizer

import (
	"math"
	"strings"
	"unicode/utf8"

	"github.com/layerpipe/layerpipe/model/gguf"
)

const keyPre = "tokenizer.ggml.pre"

// bpe is a byte-level byte-pair vocabulary (tokenizer.ggml.model "gpt2"): text
// is cut into pieces, a piece into bytes, and neighbours are merged in the
// order of a list of pairs.
//
// Merging works on ids. A part of a merge that is no token has an id from
// size on; if such a part is left at the end, it is spelled.
type bpe struct {
	ids    map[string]int32 // by text in the byte alphabet
	merges map[uint64]merge // by makePair
	bytes  [256]int32
	size   int32 // of the vocabulary
	parts  int32 // that are no tokens: ids size to size+parts-1
	unk    int32
	pre    preTokenizer
}

// makePair is two ids as one key of a map, which Go hashes faster than a struct.
func makePair(left, right int32) uint64 { return uint64(uint32(left))<<32 | uint64(uint32(right)) }

type merge struct{ rank, id int32 }

// byteAlphabet is how GPT-2 writes bytes as visible characters: those of
// Latin-1 that are visible as they are, the others as U+0100 and on, in order.
var byteAlphabet = func() (chars [256]string) {
	next := rune(256)
	for b := range chars {
		if b >= '!' && b <= '~' || b >= 0xa1 && b != 0xad {
			chars[b] = string(rune(b))
		} else {
			chars[b] = string(next)
			next++
		}
	}
	return chars
}()

// alphabetBytes is the inverse of byteAlphabet.
var alphabetBytes = func() map[rune]byte {
	m := make(map[rune]byte, 256)
	for b, s := range byteAlphabet {
		r, _ := utf8.DecodeRuneInString(s)
		m[r] = byte(b)
	}
	return m
}()

func newBPE(m *gguf.Metadata, v *vocab) (*bpe, error) {
	const key = "tokenizer.ggml.merges"
	name, err := gguf.GetOr(m, keyPre, "")
	if err != nil {
		return nil, err
	}
	b := &bpe{size: int32(len(v.texts)), unk: v.unk}
	if b.pre, err = findPreTokenizer(name); err != nil {
		return nil, err
	}
	v.addBOS = b.pre.addBOS
	list, ok, err := gguf.Array[string](m, key)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, formatError(key, "missing")
	}
	if len(v.texts) > math.MaxInt32/4 || len(list) > math.MaxInt32/4 {
		return nil, formatError(key, "%d merges of %d tokens are too many", len(list), len(v.texts))
	}
	b.ids = v.ids(func(tokenType) bool { return false })
	for i, s := range byteAlphabet {
		b.bytes[i] = b.id(s)
	}
	b.merges = make(map[uint64]merge, len(list))
	for rank, text := range list {
		// Neither part is empty, so the space is not the first character.
		at := strings.IndexByte(text[min(1, len(text)):], ' ') + 1
		if at == 0 || at+1 == len(text) {
			return nil, formatError(key, "merge %d: %.40q is not two parts with a space between", rank, text)
		}
		left, right := text[:at], text[at+1:]
		both, ok := b.ids[left+right] // as b.id does, but a mere look-up allocates nothing
		if !ok {
			both = b.id(left + right)
		}
		p := makePair(b.id(left), b.id(right))
		if _, dup := b.merges[p]; !dup {
			b.merges[p] = merge{int32(rank), both}
		}
	}
	return b, nil
}

// id returns the id of a text in the byte alphabet, which is made a part if it
// is no token.
func (b *bpe) id(text string) int32 {
	id, ok := b.ids[text]
	if !ok {
		id = b.size + b.parts
		b.parts++
		b.ids[text] = id
	}
	return id
}

func (b *bpe) prefixesSpace() bool { return false }

func (b *bpe) piece(text string) string {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if c, ok := alphabetBytes[r]; ok {
			out = append(out, c)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return string(out)
}

func (b *bpe) encode(dst []int32, text string, _ bool) []int32 {
	m := merger{join: func(left, right *symbol) (rank, id int32) {
		if m, ok := b.merges[makePair(left.id, right.id)]; ok {
			return m.rank, m.id
		}
		return 0, none
	}}
	split := b.pre.split(func(piece string) {
		for len(piece) > maxPiece {
			dst = b.word(dst, piece[:maxPiece], &m)
			piece = piece[maxPiece:]
		}
		dst = b.word(dst, piece, &m)
	})
	split(text)
	return dst
}

func (b *bpe) word(dst []int32, word string, m *merger) []int32 {
	if b.pre.whole {
		var buf [64]byte
		text := buf[:0]
		for i := range len(word) {
			text = append(text, byteAlphabet[word[i]]...)
		}
		if id, ok := b.ids[string(text)]; ok && id < b.size {
			return append(dst, id)
		}
	}
	m.reset(len(word))
	for i := range len(word) {
		m.add(b.bytes[word[i]], i, i+1)
	}
	m.run()
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		y := &m.symbols[i]
		if y.id < b.size {
			dst = append(dst, y.id)
			continue
		}
		dst = b.spell(dst, word[y.start:y.end])
	}
	return dst
}

// spell appends the tokens of single bytes.
func (b *bpe) spell(dst []int32, text string) []int32 {
	for i := range len(text) {
		id := b.bytes[text[i]]
		if id >= b.size {
			id = b.unk
		}
		if id != none {
			dst = append(dst, id)
		}
	}
	return dst
}
