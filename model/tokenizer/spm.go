package tokenizer

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/layerpipe/layerpipe/model/gguf"
)

// space is how SentencePiece writes a space: U+2581.
const space = "▁"

// spm is a SentencePiece byte-pair vocabulary (tokenizer.ggml.model "llama"):
// any two neighbours whose texts together are a token may be merged, that of
// the highest score first. Characters that are no token are written as bytes.
type spm struct {
	ids    map[string]int32
	ranks  []int32 // by token: place of its score, 0 is the highest
	bytes  [256]int32
	unk    int32
	prefix bool
	// words: no token has a space after another character, so no merge
	// reaches from one word into the next, and words can be merged apart.
	words bool
}

func newSPM(m *gguf.Metadata, v *vocab) (*spm, error) {
	const scores = "tokenizer.ggml.scores"
	if v.scores == nil {
		return nil, formatError(scores, "missing")
	}
	s := &spm{words: true}
	var err error
	if s.prefix, err = gguf.GetOr(m, "tokenizer.ggml.add_space_prefix", true); err != nil {
		return nil, err
	}
	// The ids that SentencePiece gives these tokens by default.
	v.addBOS = true
	if v.bos == none && v.has(1) {
		v.bos = 1
	}
	if v.eos == none && v.has(2) {
		v.eos = 2
	}
	if v.unk == none {
		v.unk = int32(slices.Index(v.types, unknown))
	}
	s.unk = v.unk
	s.ids = v.ids(func(t tokenType) bool { return t == control || t == unknown || t == byteToken })
	s.ranks = ranks(v.scores)
	for b := range s.bytes {
		s.bytes[b] = none
		// Some vocabularies have the byte itself in place of <0xNN>.
		if id, ok := s.ids[string([]byte{byte(b)})]; ok {
			s.bytes[b] = id
		}
	}
	for id, text := range v.texts {
		if b, ok := parseByte(text); ok {
			s.bytes[b] = int32(id)
		}
		inner := strings.TrimLeft(text, space)
		if v.types[id] != control && strings.Contains(inner, space) {
			s.words = false
		}
	}
	return s, nil
}

// ranks returns for each score how many distinct scores are higher.
func ranks(scores []float32) []int32 {
	order := slices.Clone(scores)
	slices.SortFunc(order, func(a, b float32) int { return cmp.Compare(b, a) })
	order = slices.Compact(order)
	ranks := make([]int32, len(scores))
	for id, s := range scores {
		i, _ := slices.BinarySearchFunc(order, s, func(a, b float32) int { return cmp.Compare(b, a) })
		ranks[id] = int32(i)
	}
	return ranks
}

func (s *spm) prefixesSpace() bool { return s.prefix }

func (s *spm) piece(text string) string { return strings.ReplaceAll(text, space, " ") }

func (s *spm) encode(dst []int32, text string, first bool) []int32 {
	text = strings.ReplaceAll(text, " ", space)
	if first && s.prefix {
		text = space + text
	}
	var word string
	m := merger{join: func(left, right *symbol) (rank, id int32) {
		if id = s.id(word[left.start:right.end]); id == none {
			return 0, none
		}
		return s.ranks[id], id
	}}
	for len(text) > 0 {
		n := min(len(text), maxPiece)
		if s.words {
			n = min(wordEnd(text), n)
		}
		word, text = text[:n], text[n:]
		dst = s.word(dst, word, &m)
	}
	return dst
}

// wordEnd returns the length of the spaces and the word that text starts with.
func wordEnd(text string) int {
	n := len(text) - len(strings.TrimLeft(text, space))
	if i := strings.Index(text[n:], space); i >= 0 {
		return n + i
	}
	return len(text)
}

func (s *spm) word(dst []int32, word string, m *merger) []int32 {
	m.reset(len(word))
	for i := 0; i < len(word); {
		_, n := utf8.DecodeRuneInString(word[i:])
		m.add(s.id(word[i:i+n]), i, i+n)
		i += n
	}
	m.run()
	for i := int32(0); i >= 0; i = m.symbols[i].next {
		y := &m.symbols[i]
		if y.id != none {
			dst = append(dst, y.id)
			continue
		}
		dst = s.spell(dst, word[y.start:y.end])
	}
	return dst
}

// spell appends the tokens of a character that is none.
func (s *spm) spell(dst []int32, char string) []int32 {
	n := len(dst)
	for i := range len(char) {
		id := s.bytes[char[i]]
		if id == none {
			dst = dst[:n]
			if s.unk != none {
				dst = append(dst, s.unk)
			}
			return dst
		}
		dst = append(dst, id)
	}
	return dst
}

func (s *spm) id(text string) int32 {
	if id, ok := s.ids[text]; ok {
		return id
	}
	return none
}
